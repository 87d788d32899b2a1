// A batch of unknown size beside a known one may be 1, which the product broadcasts: no attention.
// RUN: ge-opt %s -p find-attention | filecheck %s
// RUN: ge-opt %s -p match-attention,narrow-computation,absorb-attention-layout | filecheck %s
// CHECK-NOT: graph.attention
// CHECK:     graph.softmax
func.func @main(%k: tensor<?x2x4x4xf32> {graph.dims = ["n", "", "", ""]}, %q: tensor<5x2x5x4xf32>, %v: tensor<5x2x4x4xf32>) -> tensor<5x2x5x4xf32> {
  %0 = graph.constant dense<0.5> : tensor<f32>
  %1 = graph.transpose %k permutation [0, 1, 3, 2] : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %2 = graph.matmul %q, %1 : (tensor<5x2x5x4xf32>, tensor<?x2x4x4xf32>) -> tensor<5x2x5x4xf32>
  %3 = graph.mul %2, %0 : (tensor<5x2x5x4xf32>, tensor<f32>) -> tensor<5x2x5x4xf32>
  %4 = graph.softmax %3 : (tensor<5x2x5x4xf32>) -> tensor<5x2x5x4xf32>
  %5 = graph.matmul %4, %v : (tensor<5x2x5x4xf32>, tensor<5x2x4x4xf32>) -> tensor<5x2x5x4xf32>
  func.return %5 : tensor<5x2x5x4xf32>
}
