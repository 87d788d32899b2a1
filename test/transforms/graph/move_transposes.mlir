// RUN: ge-opt %s --split-input-file -p move-transposes --validate | filecheck %s
// RUN: ge-opt %s --split-input-file -p move-transposes{exact=true} --validate | filecheck %s --check-prefix EXACT

// Channels last around convolutions: bias, activation, residual and mean go over to channels first.
func.func @channels_last(%x: tensor<1x8x8x16xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x16xf32> {
  %b = graph.constant #graph.weight<"b"> : tensor<16xf32>
  %0 = graph.transpose %x permutation [0, 3, 1, 2] : (tensor<1x8x8x16xf32>) -> tensor<1x16x8x8xf32>
  %1 = graph.conv %0, %w pads [1, 1, 1, 1] : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %2 = graph.transpose %1 permutation [0, 2, 3, 1] : (tensor<1x16x8x8xf32>) -> tensor<1x8x8x16xf32>
  %3 = graph.add %2, %b : (tensor<1x8x8x16xf32>, tensor<16xf32>) -> tensor<1x8x8x16xf32>
  %4 = graph.relu %3 : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %5 = graph.transpose %4 permutation [0, 3, 1, 2] : (tensor<1x8x8x16xf32>) -> tensor<1x16x8x8xf32>
  %6 = graph.conv %5, %w pads [1, 1, 1, 1] : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %7 = graph.transpose %6 permutation [0, 2, 3, 1] : (tensor<1x16x8x8xf32>) -> tensor<1x8x8x16xf32>
  %8 = graph.add %7, %4 : (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %9 = graph.reduce mean %8 axes [1, 2] keep_dims false : (tensor<1x8x8x16xf32>) -> tensor<1x16xf32>
  func.return %9 : tensor<1x16xf32>
}
// CHECK-LABEL: func.func @channels_last(
// CHECK-NEXT:    %b = graph.constant
// CHECK-NEXT:    %0 = graph.transpose %x permutation
// CHECK-NEXT:    %1 = graph.conv %0, %w pads
// CHECK-NEXT:    %2 = graph.reshape %b shape [1, 16, 1, 1]
// CHECK-NEXT:    %3 = graph.add %1, %2 :
// CHECK-NEXT:    %4 = graph.relu %3 :
// CHECK-NEXT:    %5 = graph.conv %4, %w pads
// CHECK-NEXT:    %6 = graph.add %5, %4 :
// CHECK-NEXT:    %7 = graph.reduce mean %6 axes [2, 3] keep_dims false
// CHECK-NEXT:    func.return %7 :

// A mean over other strides may be rounded otherwise.
// EXACT-LABEL: func.func @channels_last(
// EXACT:         %[[S:.*]] = graph.add %{{.*}}, %{{.*}} : (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>)
// EXACT-NEXT:    %[[T:.*]] = graph.transpose %[[S]] permutation [0, 2, 3, 1]
// EXACT-NEXT:    graph.reduce mean %[[T]] axes [1, 2]

// -----

// Softmax, pad, slice, concat and split name their axes anew.
func.func @axes(%x: tensor<2x8x6x4xf32>) -> (tensor<2x3x8x4xf32>, tensor<2x4x8x4xf32>) {
  %0 = graph.transpose %x permutation [0, 2, 3, 1] : (tensor<2x8x6x4xf32>) -> tensor<2x6x4x8xf32>
  %1 = graph.softmax %0 axis 1 : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xf32>
  %2 = graph.pad %1 pads [1, 0] axes [1] : (tensor<2x6x4x8xf32>) -> tensor<2x7x4x8xf32>
  %3, %4 = graph.split %2 sizes [3, 4] axis 1 : (tensor<2x7x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x4x4x8xf32>)
  %5 = graph.slice %4 starts [0] ends [2] axes [3] : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x2xf32>
  %6 = graph.slice %4 starts [2] ends [8] axes [3] : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x6xf32>
  %7 = graph.concat %6, %5 axis 3 : (tensor<2x4x4x6xf32>, tensor<2x4x4x2xf32>) -> tensor<2x4x4x8xf32>
  %8 = graph.transpose %3 permutation [0, 1, 3, 2] : (tensor<2x3x4x8xf32>) -> tensor<2x3x8x4xf32>
  %9 = graph.transpose %7 permutation [0, 1, 3, 2] : (tensor<2x4x4x8xf32>) -> tensor<2x4x8x4xf32>
  func.return %8, %9 : tensor<2x3x8x4xf32>, tensor<2x4x8x4xf32>
}
// CHECK-LABEL: func.func @axes(
// CHECK-NEXT:    %0 = graph.transpose %x permutation [0, 2, 1, 3]
// CHECK-NEXT:    %1 = graph.softmax %0 axis 1
// CHECK-NEXT:    %2 = graph.pad %1 pads [1, 0] axes [1]
// CHECK-NEXT:    %3, %4 = graph.split %2 sizes [3, 4] axis 1
// CHECK-NEXT:    %5 = graph.slice %4 starts [0] ends [2] axes [2]
// CHECK-NEXT:    %6 = graph.slice %4 starts [2] ends [8] axes [2]
// CHECK-NEXT:    %7 = graph.concat %6, %5 axis 2 :
// CHECK-NEXT:    func.return %3, %7 :

// -----

// One transpose before and one behind is no gain; a smaller one behind is.
func.func @no_gain(%x: tensor<64x32xf32>) -> (tensor<32x64xf32>, tensor<32x1xf32>) {
  %0 = graph.transpose %x permutation [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %1 = graph.exp %0 : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %2 = graph.transpose %x permutation [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %3 = graph.reduce max %2 axes [1] : (tensor<32x64xf32>) -> tensor<32x1xf32>
  %4 = graph.sin %3 : (tensor<32x1xf32>) -> tensor<32x1xf32>
  func.return %1, %4 : tensor<32x64xf32>, tensor<32x1xf32>
}
// CHECK-LABEL: func.func @no_gain(
// CHECK-NEXT:    %0 = graph.transpose %x permutation [1, 0]
// CHECK-NEXT:    %1 = graph.exp %0 :
// CHECK-NEXT:    %2 = graph.reduce max %x axes [0]
// CHECK-NEXT:    %3 = graph.sin %2 :
// CHECK-NEXT:    %4 = graph.reshape %3 shape [32, 1]
// CHECK-NEXT:    func.return %1, %4 :

// -----

// A value that others need in the first order too: the web moves if what goes is more.
func.func @shared(%x: tensor<4x8x16xf32>, %y: tensor<8x1x16xf32>) -> (tensor<4x8x16xf32>, tensor<8x4x16xf32>) {
  %0 = graph.transpose %x permutation [1, 0, 2] : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
  %1 = graph.add %0, %y : (tensor<8x4x16xf32>, tensor<8x1x16xf32>) -> tensor<8x4x16xf32>
  %2 = graph.transpose %1 permutation [1, 0, 2] : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
  func.return %2, %1 : tensor<4x8x16xf32>, tensor<8x4x16xf32>
}
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %0 = graph.reshape %y shape [1, 8, 16]
// CHECK-NEXT:    %1 = graph.add %x, %0 :
// CHECK-NEXT:    %2 = graph.transpose %1 permutation [1, 0, 2]
// CHECK-NEXT:    func.return %1, %2 :

// -----

// Ops with an order of their own stay as they are.
func.func @fixed(%x: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %0 = graph.transpose %x permutation [1, 0, 2] : (tensor<4x8x16xf32>) -> tensor<8x4x16xf32>
  %1 = graph.pool max %0 kernel [3] strides [1] pads [1, 1] : (tensor<8x4x16xf32>) -> tensor<8x4x16xf32>
  %2 = graph.transpose %1 permutation [1, 0, 2] : (tensor<8x4x16xf32>) -> tensor<4x8x16xf32>
  func.return %2 : tensor<4x8x16xf32>
}
// CHECK-LABEL: func.func @fixed(
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.pool
// CHECK-NEXT:    graph.transpose

// -----

// Unknown dimensions, and a branch.
func.func @branch(%c: tensor<i1>, %x: tensor<?x8x?xf32>) -> tensor<?x8x?xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<?x8x?xf32> {
    %1 = graph.transpose %x permutation [2, 0, 1] : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
    %2 = graph.sin %1 : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
    %3 = graph.transpose %2 permutation [1, 2, 0] : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
    graph.yield %3 : tensor<?x8x?xf32>
  } else {
    graph.yield %x : tensor<?x8x?xf32>
  }
  func.return %0 : tensor<?x8x?xf32>
}
// CHECK-LABEL: func.func @branch(
// CHECK-NEXT:    graph.if
// CHECK-NEXT:      %1 = graph.sin %x :
// CHECK-NEXT:      graph.yield %1 :
