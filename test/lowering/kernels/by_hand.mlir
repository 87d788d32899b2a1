// RUN: ge-compile %s --load-plugin %S/Inputs/by_hand.py --target 910b2 --tiles -o %t.mlir 2>&1 | filecheck %s --check-prefix SAID
// RUN: filecheck %s < %t.mlir
// Kernels by hand: a scalar is a memref of one element, or a number where it is a constant of the
// program; an op class of ge's own has the program that is registered for it, where it is alone.

// SAID: warning: the tile program that is registered for graph.softmax is not used in @region_0, where it is fused with graph.neg: a ge.FusedOp(kernel=...) is for such groups, and --fusion off keeps ops apart

// CHECK:     tile.kernel @custom_0_tiles(%in0: memref<64x32xf32>, %out0: memref<64x32xf32>)
// CHECK:     tile.fill %ub{{.*}}, 30.0{{$}}
// CHECK:     tile.kernel @custom_1_tiles(%in0: memref<64x32xf32>, %in1: memref<1xf32>, %out0: memref<64x32xf32>)
// CHECK:     tile.view %in1[%c0] sizes [1] : memref<1xf32> -> !tile.box<1x1xf32>
// CHECK:     tile.kernel @softmax_0_tiles({{.*}}) cores 3 {
func.func @main(%x: tensor<64x32xf32> {graph.name = "x"}, %cap: tensor<f32> {graph.name = "cap"},
                %w: tensor<64x32xf32> {graph.name = "w"})
    -> (tensor<64x32xf32> {graph.name = "a"}, tensor<64x32xf32> {graph.name = "b"},
        tensor<64x32xf32> {graph.name = "y"}, tensor<64x32xf32> {graph.name = "z"}) {
  %c = graph.constant dense<30.0> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %1 = graph.tanh %0 : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = graph.mul %1, %c : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %3 = graph.div %x, %cap : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %4 = graph.tanh %3 : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %5 = graph.mul %4, %cap : (tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %6 = graph.softmax %w : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %7 = graph.neg %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %8 = graph.softmax %7 : (tensor<64x32xf32>) -> tensor<64x32xf32>
  func.return %2, %5, %6, %8 : tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>
}
