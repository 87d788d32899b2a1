// RUN: ge-opt %s -p insert-quantization --split-input-file | filecheck %s
// RUN: ge-opt %s -p 'insert-quantization{scheme=int16}' --split-input-file | filecheck %s --check-prefix WIDE
// RUN: ge-opt %s -p 'insert-quantization{scheme=fp8}' --split-input-file | filecheck %s --check-prefix SMALL

// The input with the zero point of its range, once for both layers; the weight by output channel.
// The sum reads the float value. Marks of ranges are gone.
func.func @main(%x: tensor<2x4xf32> {graph.name = "x", graph.range = [-1.0 : f64, 3.0 : f64]}) -> tensor<2x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %r0 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %r1 = graph.matmul %x, %w transpose_rhs true : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %r2 = graph.add %r0, %r1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %r3 = graph.add %r2, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %r3 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: {graph.name = "x"}
// CHECK-NEXT: [[S:%[0-9]+]] = graph.constant dense<0.0156862754> : tensor<f32>
// CHECK-NEXT: [[Z:%[0-9]+]] = graph.constant dense<-64> : tensor<i8>
// CHECK-NEXT: [[Q:%[0-9]+]] = graph.quantize %x, [[S]], [[Z]] to i8 : (
// CHECK-NEXT: [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]], [[Z]] : (
// CHECK-NEXT: %w = graph.constant
// CHECK-NEXT: [[A:%[0-9]+]] = graph.abs %w :
// CHECK-NEXT: [[M:%[0-9]+]] = graph.reduce max [[A]] axes [0] keep_dims false : (tensor<4x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: [[N:%[0-9]+]] = graph.constant dense<1.270000e+02>
// CHECK-NEXT: [[R:%[0-9]+]] = graph.div [[M]], [[N]] :
// CHECK:      [[W:%[0-9]+]] = graph.select %{{[0-9]+}}, [[R]], %{{[0-9]+}}
// CHECK-NEXT: [[P:%[0-9]+]] = graph.quantize %w, [[W]] to i8 axis 1 :
// CHECK-NEXT: [[V:%[0-9]+]] = graph.dequantize [[P]], [[W]] axis 1 :
// CHECK-NEXT: %r0 = graph.matmul [[D]], [[V]] :
// CHECK:      [[V:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 0 :
// CHECK-NEXT: %r1 = graph.matmul [[D]], [[V]] transpose_rhs true :
// CHECK-NEXT: %r2 = graph.add %r0, %r1 :
// CHECK-NEXT: %r3 = graph.add %r2, %x :
// CHECK-NOT:  graph.range

// 16 bits have no zero point; weights have 8.
// WIDE:       [[S:%[0-9]+]] = graph.constant dense<9.15555283e-05> : tensor<f32>
// WIDE-NEXT:  [[Q:%[0-9]+]] = graph.quantize %x, [[S]] to i16 : (
// WIDE-NEXT:  [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]] : (
// WIDE:       graph.quantize %w, %{{[0-9]+}} to i8 axis 1 :
// WIDE:       %r0 = graph.matmul [[D]], %
// WIDE:       %r1 = graph.matmul [[D]], %

// Floats of 8 bits: the largest magnitude becomes 448.
// SMALL:      [[S:%[0-9]+]] = graph.constant dense<0.00669642864> : tensor<f32>
// SMALL-NEXT: [[Q:%[0-9]+]] = graph.quantize %x, [[S]] to f8E4M3FN : (
// SMALL-NEXT: [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]] : (
// SMALL:      graph.constant dense<4.480000e+02>
// SMALL:      graph.quantize %w, %{{[0-9]+}} to f8E4M3FN axis 1 :
// SMALL:      %r0 = graph.matmul [[D]], %

// -----

// A convolution and a transposed one, whose weights have output channels along other axes.
func.func @main(%x: tensor<1x4x8x8xf32> {graph.range = [0.0 : f64, 6.0 : f64]}) -> tensor<1x6x8x8xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<8x4x3x3xf32>
  %b = graph.constant dense<0.5> : tensor<8xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<8x6x1x1xf32>
  %r0 = graph.conv %x, %w bias %b pads [1, 1, 1, 1] : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  %r1 = graph.relu %r0 {graph.range = [0.0 : f64, 2.55 : f64]} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r2 = graph.conv_transpose %r1, %v : (tensor<1x8x8x8xf32>, tensor<8x6x1x1xf32>) -> tensor<1x6x8x8xf32>
  func.return %r2 : tensor<1x6x8x8xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      graph.constant dense<-128> : tensor<i8>
// CHECK:      graph.reduce max %{{[0-9]+}} axes [1, 2, 3]
// CHECK:      [[V:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 0 :
// CHECK-NEXT: %r0 = graph.conv %{{[0-9]+}}, [[V]] bias %b pads [1, 1, 1, 1] :
// CHECK-NEXT: %r1 = graph.relu %r0 : (
// CHECK-NEXT: graph.constant dense<1.000000e-02> : tensor<f32>
// CHECK:      graph.reduce max %{{[0-9]+}} axes [0, 2, 3]
// CHECK:      [[V:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 1 :
// CHECK-NEXT: %r2 = graph.conv_transpose %{{[0-9]+}}, [[V]] :

// -----

// Where both sides move neither has a zero point.
func.func @main(%x: tensor<2x4xf32> {graph.range = [-1.0 : f64, 1.27 : f64]}, %y: tensor<4x2xf32> {graph.range = [0.0 : f64, 2.54 : f64]}) -> tensor<2x2xf32> {
  %r0 = graph.matmul %x, %y : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  func.return %r0 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: tensor<i8>
// CHECK: graph.quantize %y, %{{[0-9]+}} to i8 : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xi8>
// CHECK: graph.quantize %x, %{{[0-9]+}} to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
