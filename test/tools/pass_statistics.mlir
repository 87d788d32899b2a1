// RUN: ge-opt %s -p 'func.func(cse,cse),cse,find-activations' --mlir-pass-statistics 2>&1 >/dev/null | filecheck %s --match-full-lines --strict-whitespace
// RUN: ge-opt %s -p 'func.func(cse,cse),find-activations' --mlir-pass-statistics --mlir-pass-statistics-display=list 2>&1 >/dev/null | filecheck %s --check-prefix=LIST
// RUN: ge-opt %s --cse --mlir-pass-statistics-display=list 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not ge-opt %s --mlir-pass-statistics-display=tree 2>&1 | filecheck %s --check-prefix=WRONG

//      CHECK:                         ... Pass statistics report ...
//      CHECK:'builtin.module' Pipeline
// CHECK-NEXT:  'func.func' Pipeline
// CHECK-NEXT:    cse
// CHECK-NEXT:      (S) 0 ops-added - Ops more than before
// CHECK-NEXT:      (S) 2 ops-removed - Ops fewer than before
// CHECK-NEXT:    cse
// CHECK-NEXT:      (S) 0 ops-added - Ops more than before
// CHECK-NEXT:      (S) 0 ops-removed - Ops fewer than before
// CHECK-NEXT:  cse
//      CHECK:  find-activations
//      CHECK:    (S) 1 applied-{{.*}} - How often {{.*}} was applied

// LIST:      cse
// LIST-NEXT:   (S) 0 ops-added
// LIST-NEXT:   (S) 2 ops-removed
// LIST-NEXT: find-activations

// NONE-NOT: statistics
// WRONG: ge-opt: error: argument --mlir-pass-statistics-display: invalid choice: 'tree'

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.mul %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
