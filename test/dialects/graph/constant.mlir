// RUN: %roundtrip | filecheck %s

// CHECK-LABEL: func.func @in_the_text(
func.func @in_the_text() {
  // CHECK-NEXT: %scalar = graph.constant dense<1.500000e+00> : tensor<f32>
  %scalar = graph.constant dense<1.500000e+00> : tensor<f32>
  // CHECK-NEXT: %splat = graph.constant dense<0> : tensor<2x3xi64>
  %splat = graph.constant dense<0> : tensor<2x3xi64>
  // CHECK-NEXT: %vector = graph.constant dense<[1, 2, 255]> : tensor<3xui8>
  %vector = graph.constant dense<[1, 2, 255]> : tensor<3xui8>
  // CHECK-NEXT: %matrix = graph.constant dense<{{\[\[}}true, false], [false, true]]> : tensor<2x2xi1>
  %matrix = graph.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  // CHECK-NEXT: %half = graph.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf16>
  %half = graph.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf16>
  // CHECK-NEXT: %brain = graph.constant dense<-1.000000e+00> : tensor<1xbf16>
  %brain = graph.constant dense<-1.000000e+00> : tensor<1xbf16>
  // CHECK-NEXT: %empty = graph.constant dense<> : tensor<0xf32>
  %empty = graph.constant dense<> : tensor<0xf32>
  func.return
}

// CHECK-LABEL: func.func @in_the_payload(
func.func @in_the_payload() {
  // CHECK-NEXT: %weight = graph.constant #graph.weight<"encoder.0.weight"> : tensor<768x768xf32>
  %weight = graph.constant #graph.weight<"encoder.0.weight"> : tensor<768x768xf32>
  // CHECK-NEXT: %quoted = graph.constant #graph.weight<"a \22b\22"> : tensor<4xi8>
  %quoted = graph.constant #graph.weight<"a \22b\22"> : tensor<4xi8>
  // CHECK-NEXT: %noted = graph.constant {my.note = "kept"} #graph.weight<"w"> : tensor<4xi8>
  %noted = graph.constant {my.note = "kept"} #graph.weight<"w"> : tensor<4xi8>
  func.return
}

// Hexadecimal numbers are the bits of floats; xDSL prints what is not finite so, and some others.
// CHECK-LABEL: func.func @bits(
func.func @bits() {
  // CHECK-NEXT: %single = graph.constant dense<[0xff800000, 0x7f800000, 0x7fc00000, 1.500000e+00]> : tensor<4xf32>
  %single = graph.constant dense<[0xFF800000, 0x7F800000, 0x7FC00000, 0x3FC00000]> : tensor<4xf32>
  // CHECK-NEXT: %large = graph.constant dense<[0x4B800001, 1.000000e+20]> : tensor<2xf32>
  %large = graph.constant dense<[16777218.0, 1.0e20]> : tensor<2xf32>
  // CHECK-NEXT: %half = graph.constant dense<[5.000000e-01, 0x7c00]> : tensor<2xf16>
  %half = graph.constant dense<[5.000000e-01, 0x7C00]> : tensor<2xf16>
  // CHECK-NEXT: %brain = graph.constant dense<0xff80> : tensor<bf16>
  %brain = graph.constant dense<0xFF80> : tensor<bf16>
  // CHECK-NEXT: %double = graph.constant dense<0x7ff0000000000000> : tensor<f64>
  %double = graph.constant dense<0x7FF0000000000000> : tensor<f64>
  // CHECK-NEXT: %integer = graph.constant dense<[16, 255]> : tensor<2xui8>
  %integer = graph.constant dense<[0x10, 0xFF]> : tensor<2xui8>
  func.return
}
