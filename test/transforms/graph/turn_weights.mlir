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

// Codes that vector cores multiply with one row lie along the columns: those of 8 bits, and groups of
// 4 bits. Those with a zero point are for the cube.
func.func @one_row(%x: tensor<1x8xf16>) -> (tensor<1x4xf16>, tensor<1x4xf16>, tensor<1x4xf16>, tensor<1x4xf16>) {
  %w = graph.constant dense<3> : tensor<8x4xi8>
  %v = graph.constant dense<3> : tensor<4x8xi8>
  %u = graph.constant dense<3> : tensor<4x8xi4>
  %s = graph.constant dense<[0.5, 1.0, 1.5, 2.0]> : tensor<4xf16>
  %b = graph.constant dense<0.5> : tensor<4x2xf16>
  %z = graph.constant dense<1> : tensor<4x2xi4>
  %t = graph.constant dense<1> : tensor<4xi8>
  %0 = graph.dequantize %w, %s axis 1 : (tensor<8x4xi8>, tensor<4xf16>) -> tensor<8x4xf16>
  %1 = graph.matmul %x, %0 : (tensor<1x8xf16>, tensor<8x4xf16>) -> tensor<1x4xf16>
  %2 = graph.dequantize %v, %s axis 0 : (tensor<4x8xi8>, tensor<4xf16>) -> tensor<4x8xf16>
  %3 = graph.matmul %x, %2 transpose_rhs true : (tensor<1x8xf16>, tensor<4x8xf16>) -> tensor<1x4xf16>
  %4 = graph.dequantize %u, %b, %z axis 1 block_size 4 : (tensor<4x8xi4>, tensor<4x2xf16>, tensor<4x2xi4>) -> tensor<4x8xf16>
  %5 = graph.matmul %x, %4 transpose_rhs true : (tensor<1x8xf16>, tensor<4x8xf16>) -> tensor<1x4xf16>
  %6 = graph.dequantize %w, %s, %t axis 1 : (tensor<8x4xi8>, tensor<4xf16>, tensor<4xi8>) -> tensor<8x4xf16>
  %7 = graph.matmul %x, %6 : (tensor<1x8xf16>, tensor<8x4xf16>) -> tensor<1x4xf16>
  func.return %1, %3, %5, %7 : tensor<1x4xf16>, tensor<1x4xf16>, tensor<1x4xf16>, tensor<1x4xf16>
}
// CHECK-LABEL: func.func @one_row(
// CHECK:         [[ROWS:%[0-9]+]] = graph.dequantize %w, %s axis 1 :
// CHECK-NEXT:    graph.matmul %x, [[ROWS]] :
// CHECK-NEXT:    [[V:%[0-9]+]] = graph.transpose %v permutation [1, 0]
// CHECK-NEXT:    [[TURNED:%[0-9]+]] = graph.dequantize [[V]], %s axis 1 :
// CHECK-NEXT:    graph.matmul %x, [[TURNED]] :
// CHECK-NEXT:    [[U:%[0-9]+]] = graph.transpose %u permutation [1, 0]
// CHECK-NEXT:    [[B:%[0-9]+]] = graph.transpose %b permutation [1, 0]
// CHECK-NEXT:    [[Z:%[0-9]+]] = graph.transpose %z permutation [1, 0]
// CHECK-NEXT:    [[GROUPS:%[0-9]+]] = graph.dequantize [[U]], [[B]], [[Z]] axis 0 block_size 4 :
// CHECK-NEXT:    graph.matmul %x, [[GROUPS]] :
// CHECK-NEXT:    [[W:%[0-9]+]] = graph.transpose %w permutation [1, 0]
// CHECK-NEXT:    [[ZEROS:%[0-9]+]] = graph.dequantize [[W]], %s, %t axis 0 :
// CHECK-NEXT:    graph.matmul %x, [[ZEROS]] transpose_rhs true

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
