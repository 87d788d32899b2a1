// A rule for which no name is given has that of the pass.
// RUN: ge-opt %s --split-input-file --verify-diagnostics --load-plugin %S/Inputs/unnamed.py -p fuse-products | filecheck %s

// CHECK: fused_op.custom "Product"
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{fuse-products applied}}
  %1 = graph.exp %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %1 : tensor<4x4xf32>
}

// -----

// expected-warning@+1 {{fuse-products: nothing matches MatMul, Exp: there is no graph.matmul}}
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
