// Passes by pipeline text, by nested pipeline text and by flags.
// RUN: ge-opt %s -p 'canonicalize,cse' | filecheck %s --check-prefix=BOTH
// RUN: ge-opt %s --passes=canonicalize,cse | filecheck %s --check-prefix=BOTH
// RUN: ge-opt %s --pass-pipeline='builtin.module(canonicalize, cse)' | filecheck %s --check-prefix=BOTH
// RUN: ge-opt %s -pass-pipeline='builtin.module(func.func(canonicalize,cse))' | filecheck %s --check-prefix=BOTH
// RUN: ge-opt %s --canonicalize --cse | filecheck %s --check-prefix=BOTH
// RUN: ge-opt -canonicalize -cse %s | filecheck %s --check-prefix=BOTH
// RUN: ge-opt --cse %s | filecheck %s --check-prefix=CSE
// RUN: ge-opt %s | filecheck %s --check-prefix=NONE

// The order of the flags is the order of the passes.
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: ge-opt %s --cse --canonicalize --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=OTHER

// BOTH-LABEL: func.func @f(
// BOTH-NEXT:    arith.constant 3 : i32{{$}}
// BOTH-NEXT:    func.return %{{.*}}, %{{.*}} : i32, i32{{$}}

// CSE-LABEL: func.func @f(
// CSE-NEXT:    arith.constant 1 :
// CSE-NEXT:    arith.constant 2 :
// CSE-NEXT:    %[[SUM:.*]] = arith.addi
// CSE-NEXT:    func.return %[[SUM]], %[[SUM]] :

// NONE-COUNT-2: arith.addi

// ORDER: IR Dump After Canonicalize (canonicalize)
// ORDER: IR Dump After CommonSubexpressionElimination (cse)
// OTHER: IR Dump After CommonSubexpressionElimination (cse)
// OTHER: IR Dump After Canonicalize (canonicalize)

func.func @f() -> (i32, i32) {
  %0 = arith.constant 1 : i32
  %1 = arith.constant 2 : i32
  %2 = arith.addi %0, %1 : i32
  %3 = arith.addi %0, %1 : i32
  func.return %2, %3 : i32, i32
}
