// RUN: ge-opt %s | ge-opt --print-op-generic | ge-opt | filecheck %s

// Floats of at most 8 bits and integers of less than a byte: constants, casts, quantization.

// CHECK-LABEL: func.func @constants(
func.func @constants() {
  // CHECK-NEXT: %e4m3 = graph.constant dense<[1.000000e+00, -4.480000e+02, 0x7f]> : tensor<3xf8E4M3FN>
  %e4m3 = graph.constant dense<[1.0, -448.0, 0x7F]> : tensor<3xf8E4M3FN>
  // CHECK-NEXT: %e5m2 = graph.constant dense<[5.734400e+04, 0x7c]> : tensor<2xf8E5M2>
  %e5m2 = graph.constant dense<[57344.0, 0x7C]> : tensor<2xf8E5M2>
  // CHECK-NEXT: %e4m3z = graph.constant dense<2.400000e+02> : tensor<f8E4M3FNUZ>
  %e4m3z = graph.constant dense<240.0> : tensor<f8E4M3FNUZ>
  // CHECK-NEXT: %e5m2z = graph.constant dense<0x80> : tensor<4xf8E5M2FNUZ>
  %e5m2z = graph.constant dense<0x80> : tensor<4xf8E5M2FNUZ>
  // CHECK-NEXT: %e8m0 = graph.constant dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf8E8M0FNU>
  %e8m0 = graph.constant dense<[1.0, 0.5]> : tensor<2xf8E8M0FNU>
  // CHECK-NEXT: %e2m1 = graph.constant dense<[6.000000e+00, -5.000000e-01, -0.000000e+00]> : tensor<3xf4E2M1FN>
  %e2m1 = graph.constant dense<[6.0, -0.5, -0.0]> : tensor<3xf4E2M1FN>
  // CHECK-NEXT: %i4 = graph.constant dense<[7, -8, -1]> : tensor<3xi4>
  %i4 = graph.constant dense<[7, -8, -1]> : tensor<3xi4>
  // CHECK-NEXT: %ui4 = graph.constant dense<15> : tensor<3xui4>
  %ui4 = graph.constant dense<15> : tensor<3xui4>
  // CHECK-NEXT: %i2 = graph.constant dense<[1, -2]> : tensor<2xi2>
  %i2 = graph.constant dense<[1, -2]> : tensor<2xi2>
  // CHECK-NEXT: %ui2 = graph.constant dense<[0, 3]> : tensor<2xui2>
  %ui2 = graph.constant dense<[0, 3]> : tensor<2xui2>
  // CHECK-NEXT: %bits = graph.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf8E4M3FN>
  %bits = graph.constant dense<"0x3840"> : tensor<2xf8E4M3FN>
  func.return
}

// CHECK-LABEL: func.func @conversions(
func.func @conversions(%x: tensor<4x6xf32>, %s: tensor<f32>) {
  // CHECK-NEXT: %over = graph.cast %x to f8E5M2 : (tensor<4x6xf32>) -> tensor<4x6xf8E5M2>
  %over = graph.cast %x to f8E5M2 : (tensor<4x6xf32>) -> tensor<4x6xf8E5M2>
  // CHECK-NEXT: %within = graph.cast %x to f8E4M3FN saturate true : (tensor<4x6xf32>) -> tensor<4x6xf8E4M3FN>
  %within = graph.cast %x to f8E4M3FN saturate true : (tensor<4x6xf32>) -> tensor<4x6xf8E4M3FN>
  // CHECK-NEXT: %up = graph.cast %x to f8E8M0FNU rounding up : (tensor<4x6xf32>) -> tensor<4x6xf8E8M0FNU>
  %up = graph.cast %x to f8E8M0FNU rounding up : (tensor<4x6xf32>) -> tensor<4x6xf8E8M0FNU>
  // CHECK-NEXT: %across = graph.cast %over to i4 : (tensor<4x6xf8E5M2>) -> tensor<4x6xi4>
  %across = graph.cast %over to i4 : (tensor<4x6xf8E5M2>) -> tensor<4x6xi4>
  // CHECK-NEXT: %same_bits = graph.bitcast %across to f4E2M1FN : (tensor<4x6xi4>) -> tensor<4x6xf4E2M1FN>
  %same_bits = graph.bitcast %across to f4E2M1FN : (tensor<4x6xi4>) -> tensor<4x6xf4E2M1FN>
  // CHECK-NEXT: %q = graph.quantize %x, %s to f8E4M3FN : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf8E4M3FN>
  %q = graph.quantize %x, %s to f8E4M3FN : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf8E4M3FN>
  // CHECK-NEXT: %o = graph.quantize %x, %s to f8E5M2 saturate false : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf8E5M2>
  %o = graph.quantize %x, %s to f8E5M2 saturate false : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf8E5M2>
  // CHECK-NEXT: %d = graph.dequantize %q, %s : (tensor<4x6xf8E4M3FN>, tensor<f32>) -> tensor<4x6xf32>
  %d = graph.dequantize %q, %s : (tensor<4x6xf8E4M3FN>, tensor<f32>) -> tensor<4x6xf32>
  // CHECK-NEXT: %w = graph.quantize %x, %s to i2 : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xi2>
  %w = graph.quantize %x, %s to i2 : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xi2>
  func.return
}
