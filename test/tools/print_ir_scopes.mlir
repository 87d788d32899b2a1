// What a nested pass runs on is printed, or the whole module; on stderr, or in a tree of files.
// RUN: ge-opt %s -p 'func.func(cse)' --mlir-print-ir-before=cse 2>&1 >/dev/null | filecheck %s
// RUN: ge-opt %s -p 'func.func(cse)' --mlir-print-ir-after-change 2>&1 >/dev/null | filecheck %s --check-prefix=CHANGE
// RUN: ge-opt %s -p 'func.func(cse)' --mlir-print-ir-after-all --mlir-print-ir-module-scope 2>&1 >/dev/null | filecheck %s --check-prefix=MODULE
// RUN: rm -rf %t && ge-opt %s -p 'cse,func.func(cse,canonicalize)' --mlir-print-ir-tree-dir=%t --mlir-print-ir-after-all --mlir-print-ir-before=cse 2>&1 | filecheck %s --check-prefix=STDERR
// RUN: find %t -type f | sort | filecheck %s --check-prefix=FILES
// RUN: filecheck %s --check-prefix=FILE < %t/builtin_module_no-symbol-name/func_func_f/1_1_cse.mlir
// RUN: not ge-opt %s --cse --mlir-print-ir-after-all --mlir-print-ir-tree-dir=/dev/null/x 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: rm -rf %t && ge-opt %s --cse --mlir-print-ir-tree-dir=%t && not ls %t

// CHECK:      IR Dump Before CommonSubexpressionElimination (cse) //----- //
// CHECK-NEXT: func.func @f(
// CHECK:      IR Dump Before CommonSubexpressionElimination (cse) //----- //
// CHECK-NEXT: func.func @g(

// CHANGE:      IR Dump After CommonSubexpressionElimination (cse) //----- //
// CHANGE-NEXT: func.func @f(
// CHANGE-NOT:  IR Dump

// MODULE:      IR Dump After CommonSubexpressionElimination (cse) ('func.func' operation: @f) //----- //
// MODULE-NEXT: builtin.module {
// MODULE:      func.func @g(
// MODULE:      IR Dump After CommonSubexpressionElimination (cse) ('func.func' operation: @g) //----- //
// MODULE-NEXT: builtin.module {

// STDERR-NOT: IR Dump

// FILES:      builtin_module_no-symbol-name/0_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/1_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_f/1_0_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_f/1_1_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_f/1_2_canonicalize.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_g/1_0_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_g/1_1_cse.mlir
// FILES-NEXT: builtin_module_no-symbol-name/func_func_g/1_2_canonicalize.mlir

// FILE:      // -----// IR Dump After CommonSubexpressionElimination (cse) //----- //
// FILE-NEXT: func.func @f(
// FILE-NOT:  func.func @g

// WRONG: error: cannot write to '/dev/null/x/builtin_module_no-symbol-name': Not a directory; see --mlir-print-ir-tree-dir

func.func @f(%x: i32) -> (i32, i32) {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  func.return %0, %1 : i32, i32
}
func.func @g(%x: i32) -> i32 {
  func.return %x : i32
}
