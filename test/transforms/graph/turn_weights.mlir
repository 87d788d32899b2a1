// RUN: ge-opt %s --split-input-file -p turn-weights --validate | filecheck %s

// Scales of columns become scales of rows; one scale stays one.
func.func @weights(%x: tensor<2x8xf16>) -> (tensor<2x4xf16>, tensor<2x4xf16>) {
  %w = graph.constant dense<3> : tensor<8x4xi8>
  %s = graph.constant dense<[0.5, 1.0, 1.5, 2.0]> : tensor<4xf16>
  %t = graph.constant dense<0.25> : tensor<f16>
  %z = graph.constant dense<1> : tensor<i8>
  %0 = graph.dequantize %w, %s axis -1 : (tensor<8x4xi8>, tensor<4xf16>) -> tensor<8x4xf16>
  %1 = graph.matmul %x, %0 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  %2 = graph.dequantize %w, %t, %z : (tensor<8x4xi8>, tensor<f16>, tensor<i8>) -> tensor<8x4xf16>
  %3 = graph.matmul %x, %2 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  func.return %1, %3 : tensor<2x4xf16>, tensor<2x4xf16>
}
// CHECK-LABEL: func.func @weights(
// CHECK:         %0 = graph.transpose %w permutation [1, 0]
// CHECK-NEXT:    %1 = graph.dequantize %0, %s axis 0 : (tensor<4x8xi8>, tensor<4xf16>) -> tensor<4x8xf16>
// CHECK-NEXT:    %2 = graph.matmul %x, %1 transpose_rhs true
// CHECK-NEXT:    %3 = graph.transpose %w permutation [1, 0]
// CHECK-NEXT:    %4 = graph.dequantize %3, %t, %z : (tensor<4x8xi8>, tensor<f16>, tensor<i8>) -> tensor<4x8xf16>
// CHECK-NEXT:    graph.matmul %x, %4 transpose_rhs true

// -----

// Not: blocks of scales of several rows, weights of two users, what is given to the program, rows already.
func.func @others(%x: tensor<2x8xf16>, %g: tensor<8x4xi8>) -> (tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>) {
  %w = graph.constant dense<3> : tensor<8x4xi8>
  %v = graph.constant dense<3> : tensor<4x8xi8>
  %s = graph.constant dense<[0.5, 1.0, 1.5, 2.0]> : tensor<4xf16>
  %b = graph.constant dense<0.5> : tensor<2x4xf16>
  %0 = graph.dequantize %w, %b axis 0 block_size 4 : (tensor<8x4xi8>, tensor<2x4xf16>) -> tensor<8x4xf16>
  %1 = graph.matmul %x, %0 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  %2 = graph.dequantize %w, %s axis 1 : (tensor<8x4xi8>, tensor<4xf16>) -> tensor<8x4xf16>
  %3 = graph.matmul %x, %2 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  %4 = graph.matmul %x, %2 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  %5 = graph.dequantize %g, %s axis 1 : (tensor<8x4xi8>, tensor<4xf16>) -> tensor<8x4xf16>
  %6 = graph.matmul %x, %5 : (tensor<2x8xf16>, tensor<8x4xf16>) -> tensor<2x4xf16>
  %7 = graph.dequantize %v, %s axis 0 : (tensor<4x8xi8>, tensor<4xf16>) -> tensor<4x8xf16>
  %8 = graph.matmul %x, %7 transpose_rhs true : (tensor<2x8xf16>, tensor<4x8xf16>) -> tensor<2x4xf16>
  func.return %1, %3, %4, %6, %8 : tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>
}
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     graph.transpose

// -----

// Groups of one row's weights of 4 bits lie along lanes; those that are missing are added, if they
// are few.
func.func @one_row(%x: tensor<1x120xf16>, %y: tensor<1x32xf16>) -> (tensor<1x4xf16>, tensor<1x4xf16>) {
  %w = graph.constant dense<3> : tensor<120x4xi4>
  %s = graph.constant dense<0.5> : tensor<120x4xf16>
  %z = graph.constant dense<1> : tensor<120x4xi4>
  %0 = graph.dequantize %w, %s, %z axis 0 block_size 1 : (tensor<120x4xi4>, tensor<120x4xf16>, tensor<120x4xi4>) -> tensor<120x4xf16>
  %1 = graph.matmul %x, %0 : (tensor<1x120xf16>, tensor<120x4xf16>) -> tensor<1x4xf16>
  %v = graph.constant dense<3> : tensor<32x4xi4>
  %t = graph.constant dense<0.5> : tensor<32x4xf16>
  %2 = graph.dequantize %v, %t axis 0 block_size 1 : (tensor<32x4xi4>, tensor<32x4xf16>) -> tensor<32x4xf16>
  %3 = graph.matmul %y, %2 : (tensor<1x32xf16>, tensor<32x4xf16>) -> tensor<1x4xf16>
  func.return %1, %3 : tensor<1x4xf16>, tensor<1x4xf16>
}
// CHECK-LABEL: func.func @one_row(
// CHECK:         graph.pad %z {{.*}} -> tensor<128x4xi4>
// CHECK:         graph.pad %w {{.*}} -> tensor<128x4xi4>
// CHECK:         [[CODES:%[0-9]+]] = graph.transpose %{{[0-9]+}} permutation [0, 2, 3, 1] : (tensor<1x128x1x4xi4>) -> tensor<1x1x4x128xi4>
// CHECK:         [[LANES:%[0-9]+]] = graph.dequantize [[CODES]], {{.*}} axis 1 block_size 1 {{.*}} -> tensor<1x1x4x128xf16>
// CHECK-NEXT:    [[GROUPS:%[0-9]+]] = graph.transpose [[LANES]] permutation [0, 3, 1, 2]
// CHECK-NEXT:    [[WHOLE:%[0-9]+]] = graph.reshape [[GROUPS]] shape [128, 4]
// CHECK-NEXT:    [[WEIGHT:%[0-9]+]] = graph.slice [[WHOLE]] starts [0] ends [120]
// CHECK-NEXT:    graph.matmul %x, [[WEIGHT]] :
// CHECK:         [[OTHER:%[0-9]+]] = graph.dequantize %v, %t axis 0
// CHECK-NEXT:    graph.matmul %y, [[OTHER]] :

// -----

// Halves of groups, which have the scales of whole ones, where groups are too few.
func.func @halves(%x: tensor<1x128xf16>) -> tensor<1x4xf16> {
  %w = graph.constant dense<3> : tensor<128x4xi4>
  %s = graph.constant dense<0.5> : tensor<64x4xf16>
  %0 = graph.dequantize %w, %s axis 0 block_size 2 : (tensor<128x4xi4>, tensor<64x4xf16>) -> tensor<128x4xf16>
  %1 = graph.matmul %x, %0 : (tensor<1x128xf16>, tensor<128x4xf16>) -> tensor<1x4xf16>
  func.return %1 : tensor<1x4xf16>
}
// CHECK-LABEL: func.func @halves(
// CHECK:         [[ROWS:%[0-9]+]] = graph.reshape %s shape [64, 1, 4]
// CHECK-NEXT:    graph.concat [[ROWS]], [[ROWS]] {{.*}} -> tensor<64x2x4xf16>
// CHECK:         graph.dequantize {{.*}} axis 1 block_size 1 : (tensor<1x1x4x128xi4>, tensor<1x1x4x128xf16>)

// -----

// Rows of 1,536 bytes come at the full rate, those of 768 do not; sums of weights are computed before.
func.func @rates(%x: tensor<2x1536xi8>, %y: tensor<2x768xi8>) -> (tensor<2x768xi32>, tensor<1x768xi32>, tensor<2x1536xi32>) {
  %w = graph.constant dense<3> : tensor<1536x768xi8>
  %v = graph.constant dense<3> : tensor<768x1536xi8>
  %0 = graph.matmul %x, %w : (tensor<2x1536xi8>, tensor<1536x768xi8>) -> tensor<2x768xi32>
  %1 = graph.cast %w to i32 : (tensor<1536x768xi8>) -> tensor<1536x768xi32>
  %2 = graph.reduce sum %1 axes [0] : (tensor<1536x768xi32>) -> tensor<1x768xi32>
  %3 = graph.matmul %y, %v : (tensor<2x768xi8>, tensor<768x1536xi8>) -> tensor<2x1536xi32>
  func.return %0, %2, %3 : tensor<2x768xi32>, tensor<1x768xi32>, tensor<2x1536xi32>
}
// CHECK-LABEL: func.func @rates(
// CHECK:         %0 = graph.transpose %w permutation [1, 0]
// CHECK-NEXT:    %1 = graph.matmul %x, %0 transpose_rhs true
// CHECK:         graph.matmul %y, %v :
