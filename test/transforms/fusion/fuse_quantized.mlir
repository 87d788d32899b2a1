// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged},fuse-conv{target=910_merged},fuse-attention{target=910_merged},fuse-norm{target=910_merged},fuse-region{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-input},fuse-conv{target=910_merged}' | filecheck %s --check-prefix=OFF

// Bias, dequantization, activation and quantization leave with the sums: one launch.
func.func @linear(%q: tensor<128x256xi8>) -> tensor<128x512xi8> {
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xi8>
  %b = graph.constant #graph.weight<"b"> : tensor<512xi32>
  %s = graph.constant #graph.weight<"s"> : tensor<512xf16>
  %t = graph.constant dense<0.5> : tensor<f16>
  %z = graph.constant dense<3> : tensor<i8>
  %0 = graph.matmul %q, %w : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xi32>
  %1 = graph.add %0, %b : (tensor<128x512xi32>, tensor<512xi32>) -> tensor<128x512xi32>
  %2 = graph.dequantize %1, %s axis 1 : (tensor<128x512xi32>, tensor<512xf16>) -> tensor<128x512xf16>
  %3 = graph.gelu %2 : (tensor<128x512xf16>) -> tensor<128x512xf16>
  %4 = graph.quantize %3, %t, %z to i8 : (tensor<128x512xf16>, tensor<f16>, tensor<i8>) -> tensor<128x512xi8>
  func.return %4 : tensor<128x512xi8>
}
// CHECK-LABEL: func.func @linear(
// CHECK:         %[[Y:.*]] = fused_op.linear(%q,
// CHECK:           graph.matmul
// CHECK-NEXT:      graph.add
// CHECK-NEXT:      graph.dequantize
// CHECK-NEXT:      graph.gelu
// CHECK-NEXT:      graph.quantize
// CHECK:         func.return %[[Y]] :

// -----

// A sum that is used both as it is and quantized is two results of one launch.
func.func @residual(%q: tensor<1x64x28x28xi8>, %r: tensor<1x64x28x28xf16>) -> (tensor<1x64x28x28xf16>, tensor<1x64x28x28xi8>) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64x3x3xi8>
  %b = graph.constant #graph.weight<"b"> : tensor<64xi32>
  %s = graph.constant #graph.weight<"s"> : tensor<64xf16>
  %t = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.conv %q, %w bias %b strides [1, 1] pads [1, 1, 1, 1] : (tensor<1x64x28x28xi8>, tensor<64x64x3x3xi8>, tensor<64xi32>) -> tensor<1x64x28x28xi32>
  %1 = graph.dequantize %0, %s axis 1 : (tensor<1x64x28x28xi32>, tensor<64xf16>) -> tensor<1x64x28x28xf16>
  %2 = graph.add %1, %r : (tensor<1x64x28x28xf16>, tensor<1x64x28x28xf16>) -> tensor<1x64x28x28xf16>
  %3 = graph.relu %2 : (tensor<1x64x28x28xf16>) -> tensor<1x64x28x28xf16>
  %4 = graph.quantize %3, %t to i8 : (tensor<1x64x28x28xf16>, tensor<f16>) -> tensor<1x64x28x28xi8>
  func.return %3, %4 : tensor<1x64x28x28xf16>, tensor<1x64x28x28xi8>
}
// CHECK-LABEL: func.func @residual(
// CHECK:         %[[F:.*]], %[[Q:.*]] = fused_op.conv(
// CHECK:           graph.conv
// CHECK-NEXT:      graph.dequantize
// CHECK-NEXT:      graph.add
// CHECK-NEXT:      %[[R:.*]] = graph.relu
// CHECK-NEXT:      %[[P:.*]] = graph.quantize
// CHECK-NEXT:      fused_op.yield %[[R]], %[[P]] :
// CHECK:         func.return %[[F]], %[[Q]] :

// -----

// A norm is quantized in its launch; siblings of one quantized value merge, heads and all.
func.func @heads(%x: tensor<1x128x256xf16>) -> (tensor<1x4x128x64xf16>, tensor<1x4x128x64xf16>) {
  %g = graph.constant #graph.weight<"g"> : tensor<256xf16>
  %t = graph.constant dense<0.5> : tensor<f16>
  %v = graph.constant #graph.weight<"v"> : tensor<256x256xi8>
  %w = graph.constant #graph.weight<"w"> : tensor<256x256xi8>
  %a = graph.constant #graph.weight<"a"> : tensor<256xf16>
  %b = graph.constant #graph.weight<"b"> : tensor<256xf16>
  %0 = graph.layer_norm %x, %g, %g : (tensor<1x128x256xf16>, tensor<256xf16>, tensor<256xf16>) -> tensor<1x128x256xf16>
  %1 = graph.quantize %0, %t to i8 : (tensor<1x128x256xf16>, tensor<f16>) -> tensor<1x128x256xi8>
  %2 = graph.matmul %1, %v : (tensor<1x128x256xi8>, tensor<256x256xi8>) -> tensor<1x128x256xi32>
  %3 = graph.dequantize %2, %a axis 2 : (tensor<1x128x256xi32>, tensor<256xf16>) -> tensor<1x128x256xf16>
  %4 = graph.reshape %3 shape [1, 128, 4, 64] : (tensor<1x128x256xf16>) -> tensor<1x128x4x64xf16>
  %5 = graph.transpose %4 permutation [0, 2, 1, 3] : (tensor<1x128x4x64xf16>) -> tensor<1x4x128x64xf16>
  %6 = graph.matmul %1, %w : (tensor<1x128x256xi8>, tensor<256x256xi8>) -> tensor<1x128x256xi32>
  %7 = graph.dequantize %6, %b axis 2 : (tensor<1x128x256xi32>, tensor<256xf16>) -> tensor<1x128x256xf16>
  %8 = graph.reshape %7 shape [1, 128, 4, 64] : (tensor<1x128x256xf16>) -> tensor<1x128x4x64xf16>
  %9 = graph.transpose %8 permutation [0, 2, 1, 3] : (tensor<1x128x4x64xf16>) -> tensor<1x4x128x64xf16>
  func.return %5, %9 : tensor<1x4x128x64xf16>, tensor<1x4x128x64xf16>
}
// CHECK-LABEL: func.func @heads(
// CHECK:         %[[Q:.*]] = fused_op.norm(%x,
// CHECK:           graph.layer_norm
// CHECK-NEXT:      graph.quantize
// CHECK:         %[[K:.*]], %[[V:.*]] = fused_op.linear(%[[Q]],
// CHECK-DAG:       graph.matmul
// CHECK-DAG:       graph.dequantize
// CHECK-DAG:       graph.transpose
// CHECK:         func.return %[[K]], %[[V]] :

// -----

// The result of attention, and of a softmax, is quantized in its launch.
func.func @attention(%q: tensor<1x4x128x64xf16>, %k: tensor<1x4x128x64xf16>, %v: tensor<1x4x128x64xf16>, %x: tensor<64x128xf16>) -> (tensor<1x4x128x64xi8>, tensor<64x128xi8>) {
  %t = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.attention %q, %k, %v : (tensor<1x4x128x64xf16>, tensor<1x4x128x64xf16>, tensor<1x4x128x64xf16>) -> tensor<1x4x128x64xf16>
  %1 = graph.quantize %0, %t to i8 : (tensor<1x4x128x64xf16>, tensor<f16>) -> tensor<1x4x128x64xi8>
  %2 = graph.softmax %x : (tensor<64x128xf16>) -> tensor<64x128xf16>
  %3 = graph.quantize %2, %t to i8 : (tensor<64x128xf16>, tensor<f16>) -> tensor<64x128xi8>
  func.return %1, %3 : tensor<1x4x128x64xi8>, tensor<64x128xi8>
}
// CHECK-LABEL: func.func @attention(
// CHECK:         fused_op.flash_attention(
// CHECK:           graph.attention
// CHECK-NEXT:      graph.quantize
// CHECK:         fused_op.region(%x,
// CHECK:           graph.softmax
// CHECK-NEXT:      graph.quantize

// -----

// An input of the model is quantized in a launch of its own before a convolution, whose cores would
// each quantize what their windows share.
func.func @input(%x: tensor<1x3x64x64xf32>) -> tensor<1x64x32x32xi8> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x3x7x7xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<64xf32>
  %t = graph.constant dense<0.5> : tensor<f32>
  %q = graph.quantize %x, %t to i8 : (tensor<1x3x64x64xf32>, tensor<f32>) -> tensor<1x3x64x64xi8>
  %0 = graph.conv %q, %w strides [2, 2] pads [3, 3, 3, 3] : (tensor<1x3x64x64xi8>, tensor<64x3x7x7xi8>) -> tensor<1x64x32x32xi32>
  %1 = graph.dequantize %0, %s axis 1 : (tensor<1x64x32x32xi32>, tensor<64xf32>) -> tensor<1x64x32x32xf32>
  %2 = graph.relu %1 : (tensor<1x64x32x32xf32>) -> tensor<1x64x32x32xf32>
  %3 = graph.quantize %2, %t to i8 : (tensor<1x64x32x32xf32>, tensor<f32>) -> tensor<1x64x32x32xi8>
  func.return %3 : tensor<1x64x32x32xi8>
}
// CHECK-LABEL: func.func @input(
// CHECK:         %[[Q:.*]] = graph.quantize %x,
// CHECK:         %[[Y:.*]] = fused_op.conv(%[[Q]],
// CHECK:           graph.conv
// CHECK:         func.return %[[Y]] :

// -----

// It is in the launch of its only matmul.
func.func @product(%x: tensor<128x256xf32>) -> tensor<128x512xi32> {
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xi8>
  %t = graph.constant dense<0.5> : tensor<f32>
  %q = graph.quantize %x, %t to i8 : (tensor<128x256xf32>, tensor<f32>) -> tensor<128x256xi8>
  %0 = graph.matmul %q, %w : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xi32>
  func.return %0 : tensor<128x512xi32>
}
// CHECK-LABEL: func.func @product(
// CHECK-NOT:     graph.quantize %x
// CHECK:         fused_op.linear(%x,
// CHECK:           graph.quantize
// CHECK-NEXT:      graph.matmul
// OFF-LABEL: func.func @product(
// OFF:         %[[Q:.*]] = graph.quantize %x,
// OFF:         graph.matmul %[[Q]],

// -----

// Of several users it is a launch of its own.
func.func @inputs(%x: tensor<128x256xf16>, %y: tensor<512x64xi8>) -> (tensor<128x512xi32>, tensor<256x64xi32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<256x512xi8>
  %v = graph.constant #graph.weight<"v"> : tensor<128x64xi8>
  %t = graph.constant dense<0.5> : tensor<f16>
  %q = graph.quantize %x, %t to i8 : (tensor<128x256xf16>, tensor<f16>) -> tensor<128x256xi8>
  %0 = graph.matmul %q, %w : (tensor<128x256xi8>, tensor<256x512xi8>) -> tensor<128x512xi32>
  %1 = graph.matmul %q, %v transpose_lhs true : (tensor<128x256xi8>, tensor<128x64xi8>) -> tensor<256x64xi32>
  func.return %0, %1 : tensor<128x512xi32>, tensor<256x64xi32>
}
// CHECK-LABEL: func.func @inputs(
// CHECK:         graph.quantize %x,
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A cache of 8 bits: past and new keys are dequantized as tiles of attention load them, and the
// cache leaves as integers.
func.func @cache(%q: tensor<1x4x1x64xf16>, %k: tensor<1x4x1x64xf16>, %v: tensor<1x4x128x64xi8>, %past: tensor<1x4x127x64xi8>) -> (tensor<1x4x1x64xf16>, tensor<1x4x128x64xi8>) {
  %t = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.quantize %k, %t to i8 : (tensor<1x4x1x64xf16>, tensor<f16>) -> tensor<1x4x1x64xi8>
  %1 = graph.concat %past, %0 axis 2 : (tensor<1x4x127x64xi8>, tensor<1x4x1x64xi8>) -> tensor<1x4x128x64xi8>
  %2 = graph.dequantize %1, %t : (tensor<1x4x128x64xi8>, tensor<f16>) -> tensor<1x4x128x64xf16>
  %3 = graph.dequantize %v, %t : (tensor<1x4x128x64xi8>, tensor<f16>) -> tensor<1x4x128x64xf16>
  %4 = graph.attention %q, %2, %3 : (tensor<1x4x1x64xf16>, tensor<1x4x128x64xf16>, tensor<1x4x128x64xf16>) -> tensor<1x4x1x64xf16>
  func.return %4, %1 : tensor<1x4x1x64xf16>, tensor<1x4x128x64xi8>
}
// CHECK-LABEL: func.func @cache(
// CHECK-NEXT:    graph.constant
// CHECK-NEXT:    %[[C:.*]], %[[Y:.*]] = fused_op.flash_attention(
// CHECK-DAG:       graph.quantize
// CHECK-DAG:       graph.concat
// CHECK-DAG:       graph.dequantize
// CHECK:           graph.attention
// CHECK:         func.return %[[Y]], %[[C]] :
