// RUN: ge-opt %s | ge-opt --print-op-generic | ge-opt | filecheck %s

// Quantize and dequantize per tensor, per axis and blocked, with and without zero point.

// CHECK-LABEL: func.func @quantize(
func.func @quantize(%x: tensor<2x?x8xf32>, %i: tensor<2x3x8xi32>, %s: tensor<f32>, %z: tensor<i8>, %s3: tensor<3xf32>, %z3: tensor<3xui16>, %sb: tensor<2x?x2xf32>, %zb: tensor<2x?x2xi8>) {
  // CHECK-NEXT: %tensor = graph.quantize %x, %s to ui8 : (tensor<2x?x8xf32>, tensor<f32>) -> tensor<2x?x8xui8>
  %tensor = graph.quantize %x, %s to ui8 : (tensor<2x?x8xf32>, tensor<f32>) -> tensor<2x?x8xui8>
  // CHECK-NEXT: %zero = graph.quantize %x, %s, %z to i8 : (tensor<2x?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<2x?x8xi8>
  %zero = graph.quantize %x, %s, %z to i8 : (tensor<2x?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<2x?x8xi8>
  // CHECK-NEXT: %axis = graph.quantize %i, %s3, %z3 to ui16 axis 1 : (tensor<2x3x8xi32>, tensor<3xf32>, tensor<3xui16>) -> tensor<2x3x8xui16>
  %axis = graph.quantize %i, %s3, %z3 to ui16 axis 1 : (tensor<2x3x8xi32>, tensor<3xf32>, tensor<3xui16>) -> tensor<2x3x8xui16>
  // CHECK-NEXT: %refined = graph.quantize %x, %s3 to i16 axis 1 : (tensor<2x?x8xf32>, tensor<3xf32>) -> tensor<2x3x8xi16>
  %refined = graph.quantize %x, %s3 to i16 axis -2 : (tensor<2x?x8xf32>, tensor<3xf32>) -> tensor<2x3x8xi16>
  // CHECK-NEXT: %blocked = graph.quantize %x, %sb, %zb to i8 axis 2 block_size 4 : (tensor<2x?x8xf32>, tensor<2x?x2xf32>, tensor<2x?x2xi8>) -> tensor<2x?x8xi8>
  %blocked = graph.quantize %x, %sb, %zb to i8 axis 2 block_size 4 : (tensor<2x?x8xf32>, tensor<2x?x2xf32>, tensor<2x?x2xi8>) -> tensor<2x?x8xi8>
  func.return
}

// CHECK-LABEL: func.func @dequantize(
func.func @dequantize(%q: tensor<4x6xi8>, %a: tensor<4x6xi32>, %s: tensor<1xf16>, %s6: tensor<6xf32>, %z6: tensor<6xi8>, %su: tensor<?xf32>, %sb: tensor<2x6xf32>) {
  // CHECK-NEXT: %tensor = graph.dequantize %q, %s : (tensor<4x6xi8>, tensor<1xf16>) -> tensor<4x6xf16>
  %tensor = graph.dequantize %q, %s : (tensor<4x6xi8>, tensor<1xf16>) -> tensor<4x6xf16>
  // CHECK-NEXT: %axis = graph.dequantize %q, %s6, %z6 axis 1 : (tensor<4x6xi8>, tensor<6xf32>, tensor<6xi8>) -> tensor<4x6xf32>
  %axis = graph.dequantize %q, %s6, %z6 axis 1 : (tensor<4x6xi8>, tensor<6xf32>, tensor<6xi8>) -> tensor<4x6xf32>
  // CHECK-NEXT: %unknown = graph.dequantize %a, %su axis 0 : (tensor<4x6xi32>, tensor<?xf32>) -> tensor<4x6xf32>
  %unknown = graph.dequantize %a, %su axis 0 : (tensor<4x6xi32>, tensor<?xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: %blocked = graph.dequantize %q, %sb axis 0 block_size 3 : (tensor<4x6xi8>, tensor<2x6xf32>) -> tensor<4x6xf32>
  %blocked = graph.dequantize %q, %sb axis 0 block_size 3 : (tensor<4x6xi8>, tensor<2x6xf32>) -> tensor<4x6xf32>
  func.return
}

// CHECK-LABEL: func.func @dynamic(
func.func @dynamic(%x: tensor<?x8xf32>) {
  // CHECK-NEXT: %values, %scale, %zero_point = graph.dynamic_quantize %x : (tensor<?x8xf32>) -> (tensor<?x8xui8>, tensor<f32>, tensor<ui8>)
  %values, %scale, %zero_point = graph.dynamic_quantize %x : (tensor<?x8xf32>) -> (tensor<?x8xui8>, tensor<f32>, tensor<ui8>)
  func.return
}

// CHECK-LABEL: func.func @requantize(
func.func @requantize(%x: tensor<2x3xi32>, %q: tensor<2x3xi8>, %s: tensor<f32>, %s3: tensor<3xf32>, %o: tensor<i8>, %z: tensor<ui8>) {
  // CHECK-NEXT: %0 = graph.requantize %x, %s to i8 : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xi8>
  %0 = graph.requantize %x, %s to i8 : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xi8>
  // CHECK-NEXT: %1 = graph.requantize %q, %s3 offset %o zero_point %z to ui8 axis 1 rounding tflite low 3 high 200 : (tensor<2x3xi8>, tensor<3xf32>, tensor<i8>, tensor<ui8>) -> tensor<2x3xui8>
  %1 = graph.requantize %q, %s3 offset %o zero_point %z to ui8 axis 1 rounding tflite low 3 high 200 : (tensor<2x3xi8>, tensor<3xf32>, tensor<i8>, tensor<ui8>) -> tensor<2x3xui8>
  func.return
}

// CHECK-LABEL: func.func @lookup(
func.func @lookup(%q: tensor<2x?xi8>, %t: tensor<256xf16>) -> tensor<2x?xf16> {
  // CHECK-NEXT: %0 = graph.lookup %q, %t : (tensor<2x?xi8>, tensor<256xf16>) -> tensor<2x?xf16>
  %0 = graph.lookup %q, %t : (tensor<2x?xi8>, tensor<256xf16>) -> tensor<2x?xf16>
  func.return %0 : tensor<2x?xf16>
}
