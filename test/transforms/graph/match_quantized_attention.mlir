// RUN: ge-opt %s --split-input-file -p 'match-quantized-attention,eliminate-dead-code' | filecheck %s
// RUN: ge-opt %s --split-input-file -p match-quantized-attention --remarks --verify-diagnostics

// Both are quantized; a multiplication by a power of two after it becomes a part of the grid.
func.func @both(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x8xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %p = graph.constant dense<0.00390625> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %n = graph.constant dense<-128> : tensor<i8>
  %c = graph.constant dense<0.25> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = graph.quantize %0, %s, %z to i8 : (tensor<1x2x4x6xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x6xi8>
  %2 = graph.dequantize %1, %s, %z : (tensor<1x2x4x6xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x6xf32>
  %3 = graph.mul %2, %c : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %4 = graph.add %3, %m : (tensor<1x2x4x6xf32>, tensor<4x6xf32>) -> tensor<1x2x4x6xf32>
  // expected-remark@+1 {{find-attention applied}}
  %5 = graph.softmax %4 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %6 = graph.quantize %5, %p, %n to i8 : (tensor<1x2x4x6xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x6xi8>
  %7 = graph.dequantize %6, %p, %n : (tensor<1x2x4x6xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x6xf32>
  %8 = graph.matmul %7, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @both(
// CHECK:     graph.attention %q, {{%[0-9]+}}, %v mask %m score_scale 1.250000e-01 score_zero_point 3 : i8 weight_scale 3.906250e-03 weight_zero_point -128 : i8 scale 2.500000e-01 undefined nan
// CHECK-NOT: graph.quantize

// -----

// The weights alone, to unsigned integers.
func.func @weights(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %p = graph.constant dense<0.00390625> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  // expected-remark@+1 {{find-attention applied}}
  %5 = graph.softmax %0 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %6 = graph.quantize %5, %p to ui8 : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xui8>
  %7 = graph.dequantize %6, %p : (tensor<1x2x4x6xui8>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %8 = graph.matmul %7, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @weights(
// CHECK: graph.attention %q, {{%[0-9]+}}, %v weight_scale 3.906250e-03 weight_zero_point 0 : ui8 scale 1.000000e+00 undefined nan

// -----

// Not where more keys have weights than a row of scores in the core.
func.func @long(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x600xf32>, %v: tensor<1x2x600x8xf32>) -> tensor<1x2x4x8xf32> {
  %p = graph.constant dense<0.00390625> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x600xf32>) -> tensor<1x2x4x600xf32>
  // expected-remark@+1 {{weights are quantized, and their keys are not at most 512}}
  %5 = graph.softmax %0 : (tensor<1x2x4x600xf32>) -> tensor<1x2x4x600xf32>
  %6 = graph.quantize %5, %p to ui8 : (tensor<1x2x4x600xf32>, tensor<f32>) -> tensor<1x2x4x600xui8>
  %7 = graph.dequantize %6, %p : (tensor<1x2x4x600xui8>, tensor<f32>) -> tensor<1x2x4x600xf32>
  %8 = graph.matmul %7, %v : (tensor<1x2x4x600xf32>, tensor<1x2x600x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @long(
// CHECK-NOT: graph.attention

// -----

// Not by a scale along an axis.
func.func @scales(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %s = graph.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %p = graph.constant dense<0.00390625> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = graph.quantize %0, %s to i8 axis 1 : (tensor<1x2x4x6xf32>, tensor<2xf32>) -> tensor<1x2x4x6xi8>
  %2 = graph.dequantize %1, %s axis 1 : (tensor<1x2x4x6xi8>, tensor<2xf32>) -> tensor<1x2x4x6xf32>
  // expected-remark@+1 {{graph.dequantize has no scale and zero point of its own that are known}}
  %5 = graph.softmax %2 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %6 = graph.quantize %5, %p to ui8 : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xui8>
  %7 = graph.dequantize %6, %p : (tensor<1x2x4x6xui8>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %8 = graph.matmul %7, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @scales(
// CHECK-NOT: graph.attention

// -----

// Not where scores are masked before they are quantized: the op masks them after it.
func.func @masked(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x8xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = graph.add %0, %m : (tensor<1x2x4x6xf32>, tensor<4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = graph.quantize %1, %s to i8 : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xi8>
  %3 = graph.dequantize %2, %s : (tensor<1x2x4x6xi8>, tensor<f32>) -> tensor<1x2x4x6xf32>
  // expected-remark@+1 {{graph.add masks scores that are quantized after it}}
  %5 = graph.softmax %3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %8 = graph.matmul %5, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @masked(
// CHECK-NOT: graph.attention

// -----

// Not where weights are dequantized by another scale than they were quantized by.
func.func @other(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %p = graph.constant dense<0.00390625> : tensor<f32>
  %t = graph.constant dense<0.004> : tensor<f32>
  %0 = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  // expected-remark@+1 {{the weights are not dequantized by one number that they were quantized by}}
  %5 = graph.softmax %0 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %6 = graph.quantize %5, %p to ui8 : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xui8>
  %7 = graph.dequantize %6, %t : (tensor<1x2x4x6xui8>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %8 = graph.matmul %7, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  func.return %8 : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @other(
// CHECK-NOT: graph.attention
