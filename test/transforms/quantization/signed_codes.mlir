// RUN: ge-opt %s --split-input-file -p lower-quantization --validate | filecheck %s

// Unsigned codes that are computed are signed ones from their quantize on, in the padding too.
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<131> : tensor<ui8>
  %w = graph.constant dense<2> : tensor<3x2x3x3xi8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %q = graph.quantize %x, %s, %z to ui8 : (tensor<1x2x4x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x2x4x4xui8>
  %0 = graph.dequantize %q, %s, %z : (tensor<1x2x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x2x4x4xf32>
  %1 = graph.dequantize %w, %t : (tensor<3x2x3x3xi8>, tensor<f32>) -> tensor<3x2x3x3xf32>
  %2 = graph.conv %0, %1 pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
  func.return %2 : tensor<1x3x4x4xf32>
}
// CHECK-LABEL: func.func @conv(
// CHECK:         %[[ZERO:.*]] = graph.constant dense<3> : tensor<i8>
// CHECK:         %[[CODES:.*]] = graph.quantize %x, %s, %[[ZERO]] to i8 :
// CHECK:         graph.conv %[[CODES]], %w bias {{.*}} pad_value 3

// -----

// Without a zero point; two readers share the codes.
func.func @shared(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %q = graph.quantize %x, %s to ui8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xui8>
  %0 = graph.dequantize %q, %s : (tensor<2x4xui8>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.matmul %0, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = graph.dequantize %q, %s : (tensor<2x4xui8>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.exp %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %1, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @shared(
// CHECK:         graph.constant dense<-128> : tensor<i8>
// CHECK:         graph.quantize {{.*}} to i8 :
// CHECK-NOT:     graph.quantize
// CHECK:         func.return

// -----

// Codes that are a result stay as they are.
func.func @result(%x: tensor<2x4xf32>) -> (tensor<2x4xui8>, tensor<2x4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %q = graph.quantize %x, %s to ui8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xui8>
  %0 = graph.dequantize %q, %s : (tensor<2x4xui8>, tensor<f32>) -> tensor<2x4xf32>
  func.return %q, %0 : tensor<2x4xui8>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @result(
// CHECK:         graph.quantize {{.*}} to ui8 :
// CHECK-NEXT:    graph.dequantize

// -----

// Products of integers: the sums of what stands beside unsigned codes are added 128 times.
func.func @products(%x: tensor<2x3x5xui8>, %w: tensor<5x4xi8>, %v: tensor<4x5xui8>, %i: tensor<1x2x5x5xui8>, %k: tensor<3x2x3x3xi8>) -> (tensor<2x3x4xi32>, tensor<2x3x4xi32>, tensor<4x4xi32>, tensor<1x3x5x5xi32>) {
  %0 = graph.matmul %x, %w : (tensor<2x3x5xui8>, tensor<5x4xi8>) -> tensor<2x3x4xi32>
  %1 = graph.matmul %x, %v transpose_rhs true : (tensor<2x3x5xui8>, tensor<4x5xui8>) -> tensor<2x3x4xi32>
  %2 = graph.matmul %w, %v transpose_lhs true transpose_rhs true : (tensor<5x4xi8>, tensor<4x5xui8>) -> tensor<4x4xi32>
  %3 = graph.conv %i, %k pad_value 7 pads [1, 1, 1, 1] : (tensor<1x2x5x5xui8>, tensor<3x2x3x3xi8>) -> tensor<1x3x5x5xi32>
  func.return %0, %1, %2, %3 : tensor<2x3x4xi32>, tensor<2x3x4xi32>, tensor<4x4xi32>, tensor<1x3x5x5xi32>
}
// CHECK-LABEL: func.func @products(
// CHECK:         graph.matmul %{{[0-9]+}}, %w : (tensor<2x3x5xi8>, tensor<5x4xi8>)
// CHECK:         graph.matmul {{.*}} : (tensor<2x3x5xi8>, tensor<4x5xi8>)
// CHECK:         graph.matmul %w, {{.*}} : (tensor<5x4xi8>, tensor<4x5xi8>)
// CHECK:         graph.conv {{.*}} bias {{.*}} pad_value -121 {{.*}}: (tensor<1x2x5x5xi8>
