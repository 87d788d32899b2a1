// RUN: ge-opt %s --split-input-file -p absorb-transposes --validate | filecheck %s

// An input with the channels last, of one dimension and of two, and what is no such order.
func.func @conv(%x: tensor<1x9x7x4xf32>, %w: tensor<6x2x3x3xf32>, %s: tensor<2x9x3xf32>, %v: tensor<3x5x2xf32>) -> (tensor<1x6x9x7xf32>, tensor<2x5x10xf32>, tensor<1x6x7x9xf32>) {
  %0 = graph.transpose %x permutation [0, 3, 1, 2] : (tensor<1x9x7x4xf32>) -> tensor<1x4x9x7xf32>
  %1 = graph.conv %0, %w group 2 pads [1, 1, 1, 1] : (tensor<1x4x9x7xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x9x7xf32>
  %2 = graph.transpose %s permutation [0, 2, 1] : (tensor<2x9x3xf32>) -> tensor<2x3x9xf32>
  %3 = graph.conv_transpose %2, %v : (tensor<2x3x9xf32>, tensor<3x5x2xf32>) -> tensor<2x5x10xf32>
  %4 = graph.transpose %x permutation [0, 3, 2, 1] : (tensor<1x9x7x4xf32>) -> tensor<1x4x7x9xf32>
  %5 = graph.conv %4, %w group 2 pads [1, 1, 1, 1] : (tensor<1x4x7x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x7x9xf32>
  func.return %1, %3, %5 : tensor<1x6x9x7xf32>, tensor<2x5x10xf32>, tensor<1x6x7x9xf32>
}
// CHECK-LABEL: func.func @conv(
// CHECK-NEXT:    %0 = graph.conv %x, %w group 2 input_channels_last true pads [1, 1, 1, 1]
// CHECK-NEXT:    %1 = graph.conv_transpose %s, %v input_channels_last true
// CHECK-NEXT:    %2 = graph.transpose %x permutation [0, 3, 2, 1]
// CHECK-NEXT:    %3 = graph.conv %2, %w {{.*}}pads

// -----

// A product takes a transpose of either side, and twice is not at all; so does the one behind it.
func.func @product(%x: tensor<4x8x16xf32>, %y: tensor<4x8x32xf32>) -> (tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<4x8x8xf32>) {
  %0 = graph.transpose %x permutation [0, 2, 1] : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
  %1 = graph.matmul %0, %y : (tensor<4x16x8xf32>, tensor<4x8x32xf32>) -> tensor<4x16x32xf32>
  %2 = graph.matmul %0, %y : (tensor<4x16x8xf32>, tensor<4x8x32xf32>) -> tensor<4x16x32xf32>
  %3 = graph.transpose %2 permutation [0, 2, 1] : (tensor<4x16x32xf32>) -> tensor<4x32x16xf32>
  %4 = graph.matmul %x, %0 transpose_rhs false : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  func.return %1, %3, %4 : tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<4x8x8xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK-NEXT:    %0 = graph.matmul %x, %y transpose_lhs true
// CHECK-NEXT:    %1 = graph.matmul %y, %x transpose_lhs true
// CHECK-NEXT:    %2 = graph.matmul %x, %x transpose_rhs true
// CHECK-NEXT:    func.return %0, %1, %2 :

// -----

// Not a transpose that moves the batch; not one behind a product that others need, or whose sides
// have different ranks.
func.func @kept(%x: tensor<4x8x16xf32>, %y: tensor<4x16x8xf32>, %w: tensor<16x32xf32>) -> (tensor<8x4x8xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<4x32x8xf32>) {
  %0 = graph.transpose %x permutation [1, 0, 2] : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
  %1 = graph.transpose %y permutation [0, 1, 2] : (tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %2 = graph.slice %y starts [0] ends [1] axes [0] : (tensor<4x16x8xf32>) -> tensor<1x16x8xf32>
  %3 = graph.matmul %0, %2 : (tensor<8x4x16xf32>, tensor<1x16x8xf32>) -> tensor<8x4x8xf32>
  %4 = graph.matmul %x, %1 : (tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  %5 = graph.transpose %4 permutation [0, 2, 1] : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %6 = graph.matmul %x, %w : (tensor<4x8x16xf32>, tensor<16x32xf32>) -> tensor<4x8x32xf32>
  %7 = graph.transpose %6 permutation [0, 2, 1] : (tensor<4x8x32xf32>) -> tensor<4x32x8xf32>
  func.return %3, %4, %5, %7 : tensor<8x4x8xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<4x32x8xf32>
}
// CHECK-LABEL: func.func @kept(
// CHECK-COUNT-3: graph.transpose
// CHECK-NOT:     transpose_
