// RUN: ge-opt %s --split-input-file -p fuse-norm | filecheck %s

// The residual sum is used outside too: a second result.
func.func @case1(%x: tensor<8x64xf32>, %r: tensor<8x64xf32>, %s: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = graph.add %x, %r : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.rms_norm %0, %s : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  func.return %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:         %[[A:.*]], %[[B:.*]] = fused_op.norm(%x, %r, %s)
// CHECK:         func.return %[[A]], %[[B]] :

// -----

// Embeddings: lookups, their sum, the norm, a cast and quantization.
func.func @case2(%t: tensor<1000x64xf32>, %p: tensor<8x64xf32>, %i: tensor<8xi64>, %s: tensor<64xf32>, %q: tensor<f32>) -> tensor<8x64xi8> {
  %0 = graph.gather %t, %i : (tensor<1000x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
  %1 = graph.add %0, %p : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = graph.layer_norm %1, %s, %s : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %3 = graph.quantize %2, %q to i8 : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xi8>
  func.return %3 : tensor<8x64xi8>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         %[[Y:.*]] = fused_op.norm(%t, %i, %p, %s, %q) : ({{.*}}) -> tensor<8x64xi8>
// CHECK:         func.return %[[Y]] :

// -----

// Group norm and SiLU; rows of 8,192 elements.
func.func @case3(%x: tensor<1x64x32x32xf32>, %s: tensor<64xf32>) -> tensor<1x64x32x32xf32> {
  %0 = graph.group_norm %x, %s, %s groups 8 : (tensor<1x64x32x32xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x64x32x32xf32>
  %1 = graph.silu %0 : (tensor<1x64x32x32xf32>) -> tensor<1x64x32x32xf32>
  func.return %1 : tensor<1x64x32x32xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         fused_op.norm(%x, %s)

// -----

// The norm of a norm's columns has other rows.
func.func @case4(%x: tensor<8x64xf32>, %s: tensor<64xf32>, %t: tensor<8xf32>) -> tensor<64x8xf32> {
  %0 = graph.rms_norm %x, %s : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %2 = graph.rms_norm %1, %t : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  func.return %2 : tensor<64x8xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK:         %[[T:.*]] = fused_op.norm(%x, %s) : ({{.*}}) -> tensor<64x8xf32>
// CHECK:         graph.rms_norm %[[T]],

// -----

// A product stays a launch of its own; the norm is one already.
func.func @case5(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>, %s: tensor<64xf32>) -> tensor<8x64xf32> {
  %0 = graph.rms_norm %x, %s : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %1 = graph.matmul %0, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  func.return %1 : tensor<8x64xf32>
}
// CHECK-LABEL: func.func @case5(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Some rows are no part of the norm of all, also where there are as many elements as rows, and where
// it is not known how many; some columns are.
func.func @case6(%x: tensor<2x64x64xf32>, %s: tensor<64xf32>) -> (tensor<2x64x64xf32>, tensor<2x1x64xf32>) {
  %0 = graph.rms_norm %x, %s : (tensor<2x64x64xf32>, tensor<64xf32>) -> tensor<2x64x64xf32>
  %1 = graph.slice %0 starts [0] ends [1] axes [1] : (tensor<2x64x64xf32>) -> tensor<2x1x64xf32>
  func.return %0, %1 : tensor<2x64x64xf32>, tensor<2x1x64xf32>
}
func.func @case7(%x: tensor<?x?x64xf32>, %s: tensor<64xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x64xf32>) {
  %0 = graph.rms_norm %x, %s : (tensor<?x?x64xf32>, tensor<64xf32>) -> tensor<?x?x64xf32>
  %1 = graph.slice %0 starts [0] ends [1] axes [1] : (tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
  func.return %0, %1 : tensor<?x?x64xf32>, tensor<?x?x64xf32>
}
func.func @case8(%x: tensor<2x64x64xf32>, %s: tensor<64xf32>) -> tensor<2x64x8xf32> {
  %0 = graph.rms_norm %x, %s : (tensor<2x64x64xf32>, tensor<64xf32>) -> tensor<2x64x64xf32>
  %1 = graph.slice %0 starts [0] ends [8] axes [2] : (tensor<2x64x64xf32>) -> tensor<2x64x8xf32>
  func.return %1 : tensor<2x64x8xf32>
}
// CHECK-LABEL: func.func @case6(
// CHECK-NEXT:    graph.rms_norm
// CHECK-NEXT:    graph.slice
// CHECK-LABEL: func.func @case7(
// CHECK-NEXT:    graph.rms_norm
// CHECK-NEXT:    graph.slice
// CHECK-LABEL: func.func @case8(
// CHECK-NEXT:    fused_op.norm
