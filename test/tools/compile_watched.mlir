// ge-compile and ge-run tell of the passes that they run as ge-opt does.
// RUN: ge-compile %s --until graph --mlir-timing --mlir-pass-statistics --mlir-print-ir-after=share-common-subexpressions --mlir-print-skip-regions 2>&1 | filecheck %s
// RUN: rm -rf %t && ge-compile %s --until graph --mlir-print-ir-after=infer-shapes --mlir-print-ir-tree-dir=%t --mlir-generate-reproducer=%t.2.mlir --dump-pass-pipeline -o %t.mlir --mlir-print-value-users 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: ls %t/builtin_module_no-symbol-name | filecheck %s --check-prefix=TREE
// RUN: filecheck %s --check-prefix=USERS < %t.mlir
// RUN: ge-opt %t.2.mlir --run-reproducer | filecheck %s --check-prefix=AGAIN
// RUN: ge-run %s --level graph --outputs %t.npz --mlir-timing --mlir-timing-display=list 2>&1 | filecheck %s --check-prefix=RAN

// CHECK:     IR Dump After ShareCommonSubexpressions (share-common-subexpressions) //----- //
// CHECK-NEXT: builtin.module {...}
// CHECK:     ... Pass statistics report ...
// CHECK:     'builtin.module' Pipeline
// CHECK:       share-common-subexpressions
// CHECK-NEXT:    (S) 0 ops-added
// CHECK:     ... Execution time report ...
// CHECK:     Import
// CHECK:     'share-common-subexpressions' Pass
// CHECK:     Output

// TREE: {{[0-9]+}}_infer-shapes.mlir

// RAN: Execution time report
// RAN: Rest
// RAN: Total

// USERS: graph.abs %x : (tensor<2xf32>) -> tensor<2xf32> // user: %
// AGAIN: graph.abs
// DUMP:  Pass Manager with {{[0-9]+}} passes:
// DUMP-NEXT: builtin.module(

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = graph.abs %x : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
