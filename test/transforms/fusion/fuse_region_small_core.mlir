// RUN: ge-opt %s --verify-diagnostics -p 'fuse-region{target="%S/Inputs/small_core.toml"}' | filecheck %s

// The values of a tile must fit on the core: here, of the shortest tile, three do, four do not, so
// that the last op comes apart again.
func.func @main(%a: tensor<64x512xf32>, %b: tensor<64x512xf32>, %c: tensor<64x512xf32>, %d: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %0 = graph.add %a, %b : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
  // expected-remark@+1 {{fuse-users applied}}
  %1 = graph.neg %0 : (tensor<64x512xf32>) -> tensor<64x512xf32>
  // expected-remark@+1 {{with it there is no tile program: no block of it fits on a core: the least takes 256 bytes of ub, which has 192}}
  %2 = graph.add %1, %c : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
  func.return %2 : tensor<64x512xf32>
}
// CHECK:      %[[Y:.*]] = fused_op.region(%a, %b)
// CHECK:      graph.add %[[Y]], %c :
