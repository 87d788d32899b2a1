// Passes that are nested run on the ops of one name, each by itself, as in mlir-opt.
// RUN: ge-opt %s -p 'builtin.module(func.func(cse))' | filecheck %s
// RUN: ge-opt %s -p 'func.func(cse)' | filecheck %s
// RUN: ge-opt %s -p 'any(cse)' | filecheck %s
// RUN: ge-opt %s -p 'builtin.module(any(cse))' | filecheck %s
// RUN: ge-opt %s -p 'builtin.module(builtin.module(func.func(cse)))' | filecheck %s --check-prefix=INNER
// RUN: ge-opt %s -p 'builtin.module(builtin.module(cse))' | filecheck %s --check-prefix=INNER
// RUN: ge-opt %s -p 'builtin.module(cse,func.func(canonicalize, simplify-algebra{exact=true}),any(dce))' | filecheck %s
// RUN: ge-opt %s -p 'func.func(cse)' --mlir-print-ir-after=cse 2>&1 | filecheck %s --check-prefix=DUMP

// DUMP: IR Dump After CommonSubexpressionElimination (cse)

// CHECK-LABEL: func.func @f(
// CHECK-COUNT-1: arith.addi
// CHECK-NOT: arith.addi
// CHECK-LABEL: func.func @g(
// CHECK: arith.muli

// INNER-LABEL: func.func @f(
// INNER-COUNT-2: arith.addi
// INNER-LABEL: func.func @inner(
// INNER-COUNT-1: arith.subi
// INNER-NOT: arith.subi
// INNER-LABEL: func.func @g(

func.func @f(%x: i32) -> (i32, i32) {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  func.return %0, %1 : i32, i32
}
builtin.module @m {
  func.func @inner(%x: i32) -> (i32, i32) {
    %0 = arith.subi %x, %x : i32
    %1 = arith.subi %x, %x : i32
    func.return %0, %1 : i32, i32
  }
}
func.func @g(%x: i32) -> i32 {
  %0 = arith.muli %x, %x : i32
  func.return %0 : i32
}
