// RUN: ge-opt -p narrow-codes --split-input-file %s --validate | filecheck %s

// A gelu between sums and codes: a factor of the scale, and instructions of f16.
func.func @gelu(%a: tensor<4x64xi32>) -> tensor<4x64xi8> {
  %c = graph.constant dense<0.001> : tensor<64xf32>
  %s = graph.constant dense<0.025> : tensor<f32>
  %z = graph.constant dense<-122> : tensor<i8>
  %0 = graph.dequantize %a, %c to f16 axis 1 : (tensor<4x64xi32>, tensor<64xf32>) -> tensor<4x64xf16>
  %1 = graph.gelu %0 : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %2 = graph.cast %1 to f32 : (tensor<4x64xf16>) -> tensor<4x64xf32>
  %3 = graph.quantize %2, %s, %z to i8 : (tensor<4x64xf32>, tensor<f32>, tensor<i8>) -> tensor<4x64xi8>
  func.return %3 : tensor<4x64xi8>
}
// CHECK-LABEL: func.func @gelu(
// CHECK:         [[FACTOR:%[0-9]+]] = graph.constant dense<-0.414770395> : tensor<f32>
// CHECK-NEXT:    [[SCALE:%[0-9]+]] = graph.mul %c, [[FACTOR]]
// CHECK-NEXT:    [[X:%[0-9]+]] = graph.dequantize %a, [[SCALE]] to f16 axis 1
// CHECK-NEXT:    [[SQUARE:%[0-9]+]] = graph.mul [[X]], [[X]]
// CHECK:         [[SUM:%[0-9]+]] = graph.add [[SQUARE]],
// CHECK-NEXT:    [[INNER:%[0-9]+]] = graph.mul [[SUM]], [[X]]
// CHECK-NEXT:    [[EXP:%[0-9]+]] = graph.exp [[INNER]]
// CHECK:         [[BELOW:%[0-9]+]] = graph.add [[EXP]],
// CHECK-NEXT:    [[Y:%[0-9]+]] = graph.div [[X]], [[BELOW]]
// CHECK:         graph.mul [[Y]],
// CHECK:         [[CODE:%[0-9]+]] = graph.add
// CHECK-NEXT:    [[ONE:%[0-9]+]] = graph.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    graph.quantize [[CODE]], [[ONE]] to i8 : (tensor<4x64xf16>, tensor<f32>) -> tensor<4x64xi8>

// -----

// Of what is not dequantized here x is multiplied; the zero point of a tanh holds its offset.
func.func @tanh(%x: tensor<4x64xf16>) -> tensor<4x64xui8> {
  %s = graph.constant dense<0.0078125> : tensor<f32>
  %z = graph.constant dense<128> : tensor<ui8>
  %0 = graph.tanh %x : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %1 = graph.quantize %0, %s, %z to ui8 : (tensor<4x64xf16>, tensor<f32>, tensor<ui8>) -> tensor<4x64xui8>
  func.return %1 : tensor<4x64xui8>
}
// CHECK-LABEL: func.func @tanh(
// CHECK:         graph.mul %x,
// CHECK:         graph.reciprocal
// CHECK-NEXT:    graph.constant dense<-2.560000e+02> : tensor<f16>
// CHECK-NEXT:    graph.mul
// CHECK-NEXT:    graph.constant dense<2.560000e+02> : tensor<f16>

// -----

// Steps so small that the formula for gelu, or numbers of f16, are off by more than a quarter of one.
func.func @fine(%x: tensor<64xf16>) -> (tensor<64xi8>, tensor<64xi8>) {
  %s = graph.constant dense<0.001> : tensor<f32>
  %t = graph.constant dense<0.000001> : tensor<f32>
  %0 = graph.gelu %x : (tensor<64xf16>) -> tensor<64xf16>
  %1 = graph.quantize %0, %s to i8 : (tensor<64xf16>, tensor<f32>) -> tensor<64xi8>
  %2 = graph.quantize %x, %t to i8 : (tensor<64xf16>, tensor<f32>) -> tensor<64xi8>
  func.return %1, %2 : tensor<64xi8>, tensor<64xi8>
}
// CHECK-LABEL: func.func @fine(
// CHECK:         [[GELU:%[0-9]+]] = graph.gelu %x
// CHECK-NEXT:    graph.quantize [[GELU]], %s to i8
// CHECK:         graph.quantize %x, %t to i8

// -----

// Floats of 32 bits, scales along an axis or that come in, and functions that something else uses.
func.func @not(%x: tensor<4x64xf32>, %y: tensor<4x64xf16>, %u: tensor<f32>) -> (tensor<4x64xi8>, tensor<4x64xi8>, tensor<4x64xi8>, tensor<4x64xf16>, tensor<4x64xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %a = graph.constant dense<0.5> : tensor<4xf32>
  %0 = graph.quantize %x, %s to i8 : (tensor<4x64xf32>, tensor<f32>) -> tensor<4x64xi8>
  %1 = graph.quantize %y, %a to i8 axis 0 : (tensor<4x64xf16>, tensor<4xf32>) -> tensor<4x64xi8>
  %2 = graph.quantize %y, %u to i8 : (tensor<4x64xf16>, tensor<f32>) -> tensor<4x64xi8>
  %3 = graph.silu %y : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %4 = graph.quantize %3, %s to i8 : (tensor<4x64xf16>, tensor<f32>) -> tensor<4x64xi8>
  func.return %0, %1, %2, %3, %4 : tensor<4x64xi8>, tensor<4x64xi8>, tensor<4x64xi8>, tensor<4x64xf16>, tensor<4x64xi8>
}
// CHECK-LABEL: func.func @not(
// CHECK:         graph.quantize %x, %s to i8
// CHECK:         graph.quantize %y, %a to i8 axis 0
// CHECK:         graph.quantize %y, %u to i8
// CHECK:         [[SILU:%[0-9]+]] = graph.silu %y
// CHECK-NEXT:    graph.quantize [[SILU]], %s to i8
