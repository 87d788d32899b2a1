// RUN: ge-opt %s --verify-diagnostics -p 'fuse-attention{exact=true}' | filecheck %s

// Where every bit stays, sums keep their order.
func.func @main(%q: tensor<1x2x1024x16xf32>, %k: tensor<1x2x1024x16xf32>, %v: tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32> {
  // expected-remark@+1 {{fuse-attention missed: the mode forbids sums in another order (about}}
  %0 = graph.attention %q, %k, %v : (tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  func.return %0 : tensor<1x2x1024x16xf32>
}
// CHECK-NOT: fused_op
// CHECK:     graph.attention
