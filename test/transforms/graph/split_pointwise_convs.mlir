// RUN: ge-opt %s --split-input-file -p split-pointwise-convs | filecheck %s
// RUN: ge-opt %s --split-input-file -p split-pointwise-convs{exact=true} | filecheck %s --check-prefix EXACT

// Parts that are enlarged go through the convolution before that; the bias is added once.
func.func @parts(%x: tensor<1x8x8x8xf32>, %y: tensor<1x8x4x4xf32>, %z: tensor<1x8x2x2xf32>) -> tensor<1x8x8x8xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<8x24x1x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<8xf32>
  %0 = graph.resize %y sizes [1, 8, 8, 8] mode linear : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %1 = graph.resize %z scales [1.0, 1.0, 4.0, 4.0] mode linear coordinates align_corners : (tensor<1x8x2x2xf32>) -> tensor<1x8x8x8xf32>
  %2 = graph.concat %0, %x, %1 axis 1 : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x24x8x8xf32>
  %3 = graph.conv %2, %w bias %b : (tensor<1x24x8x8xf32>, tensor<8x24x1x1xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  func.return %3 : tensor<1x8x8x8xf32>
}
// CHECK-LABEL: func.func @parts(
// CHECK:       [[WY:%.*]] = graph.slice %w starts [0] ends [8] axes [1]
// CHECK-NEXT:  [[Y:%.*]] = graph.conv %y, [[WY]] :
// CHECK-NEXT:  [[LY:%.*]] = graph.resize [[Y]] sizes [8, 8] axes [2, 3] mode linear
// CHECK:       [[Z:%.*]] = graph.conv %z, {{%.*}} : (tensor<1x8x2x2xf32>
// CHECK-NEXT:  [[LZ:%.*]] = graph.resize [[Z]] scales [4.000000e+00, 4.000000e+00] axes [2, 3] mode linear coordinates align_corners
// CHECK:       [[WX:%.*]] = graph.slice %w starts [8] ends [16] axes [1]
// CHECK-NEXT:  [[X:%.*]] = graph.conv %x, [[WX]] bias %b :
// CHECK-NEXT:  [[S:%.*]] = graph.add [[LY]], [[LZ]] :
// CHECK-NEXT:  [[T:%.*]] = graph.add [[S]], [[X]] :
// CHECK-NEXT:  func.return [[T]] :

// EXACT-LABEL: func.func @parts(
// EXACT:       graph.concat
// EXACT-NEXT:  graph.conv

// -----

// A resize alone, with the bias; parts beside each other stay joined.
func.func @alone(%y: tensor<1x8x4x4xf32>, %u: tensor<1x2x8x8xf32>, %v: tensor<1x2x8x8xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x8x1x1xf32>
  %m = graph.constant #graph.weight<"m"> : tensor<4x12x1x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<4xf32>
  %0 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %1 = graph.conv %0, %w bias %b : (tensor<1x8x8x8xf32>, tensor<4x8x1x1xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %3 = graph.concat %u, %2, %v axis 1 : (tensor<1x2x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x12x8x8xf32>
  %4 = graph.conv %3, %m : (tensor<1x12x8x8xf32>, tensor<4x12x1x1xf32>) -> tensor<1x4x8x8xf32>
  func.return %1, %4 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @alone(
// CHECK:       [[C:%.*]] = graph.conv %y, %w bias %b :
// CHECK-NEXT:  [[R:%.*]] = graph.resize [[C]] sizes [8, 8]
// CHECK:       [[Q:%.*]] = graph.conv %y, {{%.*}} : (tensor<1x8x4x4xf32>, tensor<4x8x1x1xf32>)
// CHECK-NEXT:  [[L:%.*]] = graph.resize [[Q]] sizes
// CHECK:       [[J:%.*]] = graph.concat %u, %v axis 1 :
// CHECK:       [[P:%.*]] = graph.conv [[J]], {{%.*}} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>)
// CHECK-NEXT:  [[S:%.*]] = graph.add [[L]], [[P]] :
// CHECK-NEXT:  func.return [[R]], [[S]] :

// -----

// Not where more channels would be resized, where the map is made smaller, where no part is, for a
// larger kernel, for a part that others read, and for padding.
func.func @stays(%y: tensor<1x8x4x4xf32>, %x: tensor<1x8x8x8xf32>) -> (tensor<1x9x8x8xf32>, tensor<1x8x2x2xf32>, tensor<1x8x8x8xf32>, tensor<1x8x6x6xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x10x10xf32>) {
  %w9 = graph.constant #graph.weight<"w9"> : tensor<9x8x1x1xf32>
  %w8 = graph.constant #graph.weight<"w8"> : tensor<8x8x1x1xf32>
  %wj = graph.constant #graph.weight<"wj"> : tensor<8x16x1x1xf32>
  %w3 = graph.constant #graph.weight<"w3"> : tensor<8x8x3x3xf32>
  %p8 = graph.constant #graph.weight<"p8"> : tensor<8x8x1x1xf32>
  %q8 = graph.constant #graph.weight<"q8"> : tensor<8x8x1x1xf32>
  %0 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %1 = graph.conv %0, %w9 : (tensor<1x8x8x8xf32>, tensor<9x8x1x1xf32>) -> tensor<1x9x8x8xf32>
  %2 = graph.resize %y sizes [2, 2] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  %3 = graph.conv %2, %w8 : (tensor<1x8x2x2xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x2x2xf32>
  %4 = graph.concat %x, %x axis 1 : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x16x8x8xf32>
  %5 = graph.conv %4, %wj : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  %6 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %7 = graph.conv %6, %w3 : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
  %8 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %9 = graph.conv %8, %p8 : (tensor<1x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x8x8xf32>
  %10 = graph.resize %y sizes [8, 8] axes [2, 3] : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
  %11 = graph.conv %10, %q8 pads [1, 1, 1, 1] : (tensor<1x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x10x10xf32>
  func.return %1, %3, %5, %7, %9, %8, %11 : tensor<1x9x8x8xf32>, tensor<1x8x2x2xf32>, tensor<1x8x8x8xf32>, tensor<1x8x6x6xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x10x10xf32>
}
// CHECK-LABEL: func.func @stays(
// CHECK-NOT:   graph.conv %y
// CHECK-NOT:   graph.add
// CHECK:       func.return
