// A batch of unknown size is copied by the 0 of a reshape, which does not stand for itself then.
// RUN: ge-opt %s -p find-attention | filecheck %s
// RUN: ge-opt %s -p match-attention,narrow-computation,absorb-attention-layout | filecheck %s
// CHECK-NOT: allow_zero = true
// CHECK:     graph.attention
// CHECK-NOT: allow_zero = true
func.func @main(%x: tensor<?x1x64xf32> {graph.dims = ["n", "", ""]}, %k: tensor<?x4x5x16xf32> {graph.dims = ["n", "", "", ""]}, %v: tensor<?x4x5x16xf32> {graph.dims = ["n", "", "", ""]}) -> tensor<?x1x64xf32> {
  %0 = graph.reshape %x shape [0, 1, 4, 16] : (tensor<?x1x64xf32>) -> tensor<?x1x4x16xf32>
  %q = graph.transpose %0 permutation [0, 2, 1, 3] : (tensor<?x1x4x16xf32>) -> tensor<?x4x1x16xf32>
  %1 = graph.constant dense<0.25> : tensor<f32>
  %2 = graph.transpose %k permutation [0, 1, 3, 2] : (tensor<?x4x5x16xf32>) -> tensor<?x4x16x5xf32>
  %3 = graph.matmul %q, %2 : (tensor<?x4x1x16xf32>, tensor<?x4x16x5xf32>) -> tensor<?x4x1x5xf32>
  %4 = graph.mul %3, %1 : (tensor<?x4x1x5xf32>, tensor<f32>) -> tensor<?x4x1x5xf32>
  %5 = graph.softmax %4 : (tensor<?x4x1x5xf32>) -> tensor<?x4x1x5xf32>
  %6 = graph.matmul %5, %v : (tensor<?x4x1x5xf32>, tensor<?x4x5x16xf32>) -> tensor<?x4x1x16xf32>
  %7 = graph.transpose %6 permutation [0, 2, 1, 3] : (tensor<?x4x1x16xf32>) -> tensor<?x1x4x16xf32>
  %8 = graph.reshape %7 shape [0, 1, 64] : (tensor<?x1x4x16xf32>) -> tensor<?x1x64xf32>
  func.return %8 : tensor<?x1x64xf32>
}
