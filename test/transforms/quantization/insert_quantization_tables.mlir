// RUN: ge-opt %s -p 'insert-quantization{scheme=w8a16}' --split-input-file --verify-diagnostics --remarks
// RUN: ge-opt %s -p 'insert-quantization{scheme=w8a16}' --split-input-file | filecheck %s

// Tokens and positions on the way to a layer, through a norm, a cast, and a factor.
func.func @main(%i: tensor<2x4xi64>) -> tensor<2x4x8xf16> {
  %t = graph.constant #graph.weight<"t"> : tensor<99x16xf32>
  %p = graph.constant #graph.weight<"p"> : tensor<1x4x16xf32>
  %k = graph.constant dense<4.0> : tensor<f32>
  %g = graph.constant #graph.weight<"g"> : tensor<16xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<16x8xf16>
  // expected-remark@+1 {{'tokens' takes its table in 8 bits}}
  %tokens = graph.gather %t, %i : (tensor<99x16xf32>, tensor<2x4xi64>) -> tensor<2x4x16xf32>
  %0 = graph.mul %tokens, %k : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  // expected-remark@+1 {{'sum' takes its table in 8 bits}}
  %sum = graph.add %0, %p : (tensor<2x4x16xf32>, tensor<1x4x16xf32>) -> tensor<2x4x16xf32>
  %1 = graph.rms_norm %sum, %g : (tensor<2x4x16xf32>, tensor<16xf32>) -> tensor<2x4x16xf32>
  %2 = graph.cast %1 to f16 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf16>
  // expected-remark@+1 {{'fc' in w8a16}}
  %fc = graph.matmul %2, %w : (tensor<2x4x16xf16>, tensor<16x8xf16>) -> tensor<2x4x8xf16>
  func.return %fc : tensor<2x4x8xf16>
}
// CHECK-LABEL: func.func @main(%i: tensor<2x4xi64>)
// CHECK:         graph.reduce max %{{[0-9]+}} axes [0]
// CHECK:         [[S:%[0-9]+]] = graph.select
// CHECK-NEXT:    [[Q:%[0-9]+]] = graph.quantize %t, [[S]] to i8 axis 1 : (tensor<99x16xf32>, tensor<16xf32>)
// CHECK-NEXT:    [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]] axis 1
// CHECK-NEXT:    %tokens = graph.gather [[D]], %i :
// CHECK:         [[D:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 2 : (tensor<1x4x16xi8>, tensor<16xf32>)
// CHECK-NEXT:    %sum = graph.add %{{[0-9]+}}, [[D]] :

// -----

// Too small to pay.
func.func @main(%i: tensor<2x4xi64>) -> tensor<2x4x8xf32> {
  %t = graph.constant #graph.weight<"t"> : tensor<99x16xf32>
  %u = graph.constant #graph.weight<"u"> : tensor<2x16xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<16x8xf32>
  // expected-remark@+1 {{'tokens' takes its table in 8 bits}}
  %tokens = graph.gather %t, %i : (tensor<99x16xf32>, tensor<2x4xi64>) -> tensor<2x4x16xf32>
  %kinds = graph.gather %u, %i : (tensor<2x16xf32>, tensor<2x4xi64>) -> tensor<2x4x16xf32>
  %0 = graph.add %tokens, %kinds : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  // expected-remark@+1 {{'fc' in w8a16}}
  %fc = graph.matmul %0, %w : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
  func.return %fc : tensor<2x4x8xf32>
}
// CHECK:      %tokens = graph.gather %{{[0-9]+}}, %i :
// CHECK-NEXT: %kinds = graph.gather %u, %i :

// -----

// Cosines that are looked up multiply what layers read, and columns are no rows: floats.
func.func @main(%i: tensor<4xi64>, %x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %c = graph.constant #graph.weight<"c"> : tensor<99x16xf32>
  %t = graph.constant #graph.weight<"t"> : tensor<4x99xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<16x8xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x8xf32>
  %0 = graph.gather %c, %i : (tensor<99x16xf32>, tensor<4xi64>) -> tensor<4x16xf32>
  %1 = graph.mul %x, %0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  // expected-remark@+1 {{'fc' in w8a16}}
  %fc = graph.matmul %1, %w : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %2 = graph.gather %t, %i axis 1 : (tensor<4x99xf32>, tensor<4xi64>) -> tensor<4x4xf32>
  // expected-remark@+1 {{'fc2' in w8a16}}
  %fc2 = graph.matmul %2, %v : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.add %fc, %fc2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %3 : tensor<4x8xf32>
}
// CHECK: graph.gather %c, %i :
// CHECK: graph.gather %t, %i axis

// -----

// No table: what is added to scores, by a mask or a softmax; what is added to results of the model;
// a bias; the sum of two constants.
func.func @main(%x: tensor<1x2x4x16xf32>) -> (tensor<1x2x4x16xf32>, tensor<1x2x4x4xf32>) {
  %m = graph.constant #graph.weight<"m"> : tensor<1x2x4x4xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<1x1x1x16xf32>
  %t = graph.constant #graph.weight<"t"> : tensor<1x2x4x16xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<16x16xf32>
  %0 = graph.add %x, %b : (tensor<1x2x4x16xf32>, tensor<1x1x1x16xf32>) -> tensor<1x2x4x16xf32>
  // expected-remark@+1 {{'scores' stays float: it has no weights}}
  %scores = graph.matmul %0, %0 transpose_rhs true : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.add %scores, %m : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.relu %1 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %3 = graph.softmax %2 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  // expected-remark@+1 {{'fc' stays float: it has no weights}}
  %fc = graph.matmul %3, %0 : (tensor<1x2x4x4xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
  %n = graph.add %m, %m : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %4 = graph.add %scores, %n : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  // expected-remark@+1 {{'a' stays float: it has no weights}}
  %a = graph.attention %fc, %0, %fc mask %4 scale 0.25 : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x16xf32>
  %5 = graph.add %a, %t : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
  func.return %5, %scores : tensor<1x2x4x16xf32>, tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<1x2x4x16xf32>)
// CHECK-NOT: graph.quantize

// -----

// A table of f16 takes half of its bytes.
func.func @main(%half: tensor<2xi64>) -> tensor<2x8xf16> {
  %t = graph.constant #graph.weight<"t"> : tensor<99x16xf16>
  %w = graph.constant #graph.weight<"w"> : tensor<16x8xf16>
  // expected-remark@+1 {{'tokens' takes its table in 8 bits}}
  %tokens = graph.gather %t, %half : (tensor<99x16xf16>, tensor<2xi64>) -> tensor<2x16xf16>
  // expected-remark@+1 {{'fc' in w8a16}}
  %fc = graph.matmul %tokens, %w : (tensor<2x16xf16>, tensor<16x8xf16>) -> tensor<2x8xf16>
  func.return %fc : tensor<2x8xf16>
}
// CHECK-LABEL: func.func @main(%half
// CHECK: graph.quantize %t, %{{[0-9]+}} to i8 axis 1 : (tensor<99x16xf16>, tensor<16xf16>)
