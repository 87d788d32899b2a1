// RUN: ge-opt %s --split-input-file --load-plugin %S/Inputs/attention.py -p fuse_custom_attention | filecheck %s
// RUN: not ge-opt %s --split-input-file --load-plugin %S/Inputs/wrong_attention.py -p fuse_custom_attention 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: error: kernel 'WrongAttention' differs from the ops it replaces by

func.func @fires(%q: tensor<4x8xf32>, %k: tensor<8x4xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.matmul %q, %k : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = graph.softmax %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %v : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @fires(
// CHECK-NEXT:    %[[Y:.*]] = fused_op.custom "MyAttention"(%q, %k, %v) : (tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK:           graph.matmul
// CHECK-NEXT:      graph.softmax
// CHECK-NEXT:      graph.matmul
// CHECK:         func.return %[[Y]] :

// -----

// The weights are used outside: the chain is left alone.
func.func @used_outside(%q: tensor<4x8xf32>, %k: tensor<8x4xf32>, %v: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  %0 = graph.matmul %q, %k : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = graph.softmax %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %v : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2, %1 : tensor<4x8xf32>, tensor<4x4xf32>
}
// CHECK-LABEL: func.func @used_outside(
// CHECK-NOT:     fused_op
// CHECK:         func.return
