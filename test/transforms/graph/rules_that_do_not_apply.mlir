// RUN: ge-opt %s --split-input-file -p simplify-movement,simplify-algebra,prepare-weights,eliminate-dead-code | filecheck %s

// A rule tries the product without the broadcast, but a product is of matrices, not of a vector.
// What it tried keeps nothing alive.
func.func @main(%x: tensor<?x8xf16>) -> tensor<1x8xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf16>
  %0 = graph.broadcast_to %w shape [1, 4] : (tensor<4xf16>) -> tensor<1x4xf16>
  %1 = graph.matmul %0, %x : (tensor<1x4xf16>, tensor<?x8xf16>) -> tensor<1x8xf16>
  func.return %1 : tensor<1x8xf16>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:  %[[W:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<1x4xf16>
// CHECK-NEXT:  graph.matmul %[[W]], %x :

// -----

// The pads of a convolution are of its spatial dimensions, and those are 1 and 2 here.
func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x1x1xf32> {
  %0 = graph.pad %x pads [0, 0, 1, 0, 0, 0, 1, 0] : (tensor<1x4x4x4xf32>) -> tensor<1x4x6x4xf32>
  %1 = graph.conv %0, %w input_channels_last true strides [4, 4] : (tensor<1x4x6x4xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x1x1xf32>
  func.return %1 : tensor<1x4x1x1xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[P:.*]] = graph.pad %x pads
// CHECK-NEXT:    graph.conv %[[P]],

// -----

// A mean of means of integers rounds twice.
func.func @main(%x: tensor<2x2xi32>) -> tensor<1x1xi32> {
  %0 = graph.reduce mean %x axes [1] : (tensor<2x2xi32>) -> tensor<2x1xi32>
  %1 = graph.reduce mean %0 axes [0] : (tensor<2x1xi32>) -> tensor<1x1xi32>
  func.return %1 : tensor<1x1xi32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[M:.*]] = graph.reduce mean %x axes
// CHECK-NEXT:    graph.reduce mean %[[M]] axes
