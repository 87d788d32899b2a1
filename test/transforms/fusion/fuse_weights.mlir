// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged},fuse-conv{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-weight},fuse-conv{target=910_merged disable=fuse-weight}' | filecheck %s --check-prefix=OFF

// A weight of integers is dequantized in the launch that multiplies with it.
func.func @case1(%x: tensor<8x256xf16>) -> tensor<8x512xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<512xf16>
  %b = graph.constant #graph.weight<"b"> : tensor<512xf16>
  %0 = graph.dequantize %w, %s axis 1 : (tensor<256x512xi8>, tensor<512xf16>) -> tensor<256x512xf16>
  %1 = graph.matmul %x, %0 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  %2 = graph.add %1, %b : (tensor<8x512xf16>, tensor<512xf16>) -> tensor<8x512xf16>
  func.return %2 : tensor<8x512xf16>
}
// CHECK-LABEL: func.func @case1(
// CHECK:         %[[Y:.*]] = fused_op.linear(
// CHECK:           graph.dequantize
// CHECK-NEXT:      graph.matmul
// CHECK-NEXT:      graph.add
// CHECK:         func.return %[[Y]] :
// OFF-LABEL: func.func @case1(
// OFF:         %[[D:.*]] = graph.dequantize
// OFF:         fused_op.linear(%x, %[[D]],

// -----

// Groups of rows with zero points; siblings merge as those of floats do.
func.func @case2(%x: tensor<8x256xf16>) -> tensor<8x512xf16> {
  %v = graph.constant #graph.weight<"v"> : tensor<256x512xui8>
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xui8>
  %s = graph.constant #graph.weight<"s"> : tensor<8x512xf16>
  %z = graph.constant #graph.weight<"z"> : tensor<8x512xui8>
  %t = graph.constant #graph.weight<"t"> : tensor<8x512xf16>
  %0 = graph.dequantize %v, %s, %z axis 0 block_size 32 : (tensor<256x512xui8>, tensor<8x512xf16>, tensor<8x512xui8>) -> tensor<256x512xf16>
  %1 = graph.dequantize %w, %t axis 0 block_size 32 : (tensor<256x512xui8>, tensor<8x512xf16>) -> tensor<256x512xf16>
  %2 = graph.matmul %x, %0 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  %3 = graph.matmul %x, %1 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  %4 = graph.silu %2 : (tensor<8x512xf16>) -> tensor<8x512xf16>
  %5 = graph.mul %4, %3 : (tensor<8x512xf16>, tensor<8x512xf16>) -> tensor<8x512xf16>
  func.return %5 : tensor<8x512xf16>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         %[[Y:.*]] = fused_op.linear(
// CHECK-COUNT-2:   graph.dequantize
// CHECK-COUNT-2:   graph.matmul
// CHECK:         func.return %[[Y]] :

// -----

// A weight of two matmuls is dequantized in each of them.
func.func @case3(%x: tensor<8x256xf16>, %y: tensor<8x256xf16>) -> (tensor<8x512xf16>, tensor<8x512xf16>) {
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xi8>
  %s = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.dequantize %w, %s : (tensor<256x512xi8>, tensor<f16>) -> tensor<256x512xf16>
  %1 = graph.matmul %x, %0 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  %2 = graph.matmul %y, %0 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  func.return %1, %2 : tensor<8x512xf16>, tensor<8x512xf16>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         fused_op.linear(
// CHECK:           graph.dequantize
// CHECK:         fused_op.linear(
// CHECK:           graph.dequantize
// CHECK:         func.return

// -----

// The filters of a convolution, of which sizes are unknown: no program dequantizes them.
func.func @case4(%x: tensor<?x64x16x16xf16>) -> tensor<?x64x16x16xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64x3x3xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<64xf16>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<64x64x3x3xi8>, tensor<64xf16>) -> tensor<64x64x3x3xf16>
  %1 = graph.conv %x, %0 strides [1, 1] pads [1, 1, 1, 1] : (tensor<?x64x16x16xf16>, tensor<64x64x3x3xf16>) -> tensor<?x64x16x16xf16>
  %2 = graph.relu %1 : (tensor<?x64x16x16xf16>) -> tensor<?x64x16x16xf16>
  func.return %2 : tensor<?x64x16x16xf16>
}
// CHECK-LABEL: func.func @case4(
// CHECK:         graph.dequantize
// CHECK:         fused_op.conv(
// CHECK:           graph.conv
// CHECK-NEXT:      graph.relu
// OFF-LABEL: func.func @case4(
// OFF:         graph.dequantize
// OFF:         fused_op.conv(

// -----

// What is no weight stays where it is.
func.func @case5(%x: tensor<8x256xf16>, %w: tensor<256x512xi8>, %s: tensor<512xf16>) -> tensor<8x512xf16> {
  %0 = graph.dequantize %w, %s axis 1 : (tensor<256x512xi8>, tensor<512xf16>) -> tensor<256x512xf16>
  %1 = graph.matmul %x, %0 : (tensor<8x256xf16>, tensor<256x512xf16>) -> tensor<8x512xf16>
  func.return %1 : tensor<8x512xf16>
}
// CHECK-LABEL: func.func @case5(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A table that the epilogue adds, with its scales.
func.func @case6(%x: tensor<2x64x256xf16>, %w: tensor<256x512xf16>) -> tensor<2x64x512xf16> {
  %p = graph.constant #graph.weight<"p"> : tensor<1x64x512xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<512xf16>
  %0 = graph.matmul %x, %w : (tensor<2x64x256xf16>, tensor<256x512xf16>) -> tensor<2x64x512xf16>
  %1 = graph.dequantize %p, %s axis 2 : (tensor<1x64x512xi8>, tensor<512xf16>) -> tensor<1x64x512xf16>
  %2 = graph.add %0, %1 : (tensor<2x64x512xf16>, tensor<1x64x512xf16>) -> tensor<2x64x512xf16>
  func.return %2 : tensor<2x64x512xf16>
}
// CHECK-LABEL: func.func @case6(
// CHECK-NOT:     graph.dequantize
// CHECK:         fused_op.linear(%x, %w, %p, %s)
// CHECK:           graph.dequantize
// CHECK-NEXT:      graph.add

// -----

// Of known sizes, no tile program of a convolution dequantizes filters: they come apart again.
func.func @case7(%x: tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64x3x3xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<64xf16>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<64x64x3x3xi8>, tensor<64xf16>) -> tensor<64x64x3x3xf16>
  %1 = graph.conv %x, %0 strides [1, 1] pads [1, 1, 1, 1] : (tensor<1x64x16x16xf16>, tensor<64x64x3x3xf16>) -> tensor<1x64x16x16xf16>
  %2 = graph.relu %1 : (tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  func.return %2 : tensor<1x64x16x16xf16>
}
// CHECK-LABEL: func.func @case7(
// CHECK:         %[[D:.*]] = graph.dequantize
// CHECK:         fused_op.conv(%x, %[[D]])
// CHECK:           graph.conv
// CHECK-NEXT:      graph.relu
