// RUN: ge-opt %s --split-input-file -p lower-quantization --validate | filecheck %s

// A function of one value, several times, on one grid and to another.
func.func @silu(%q: tensor<2x3xi8>) -> tensor<2x3xui8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %t = graph.constant dense<0.25> : tensor<f32>
  %z = graph.constant dense<7> : tensor<ui8>
  %one = graph.constant dense<1.0> : tensor<1x1xf32>
  %0 = graph.dequantize %q, %s : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = graph.sigmoid %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.mul %0, %1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.add %2, %one : (tensor<2x3xf32>, tensor<1x1xf32>) -> tensor<2x3xf32>
  %4 = graph.quantize %3, %t, %z to ui8 : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
  func.return %4 : tensor<2x3xui8>
}
// CHECK-LABEL: func.func @silu(
// CHECK:         %[[CODES:.*]] = graph.constant dense<"0x8081{{[0-9A-F]*}}"> : tensor<256xi8>
// CHECK:         %[[X:.*]] = graph.dequantize %[[CODES]], %s : (tensor<256xi8>
// CHECK:         %[[TABLE:.*]] = graph.quantize {{.*}}tensor<256xui8>
// CHECK-NEXT:    %[[R:.*]] = graph.lookup %q, %[[TABLE]] :
// CHECK-NEXT:    func.return %[[R]] :

// -----

// A dequantize that floats need too stays for them.
func.func @used(%q: tensor<4xui8>) -> (tensor<4xi8>, tensor<4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.dequantize %q, %s : (tensor<4xui8>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.quantize %1, %s to i8 : (tensor<4xf32>, tensor<f32>) -> tensor<4xi8>
  func.return %2, %0 : tensor<4xi8>, tensor<4xf32>
}
// CHECK-LABEL: func.func @used(
// CHECK:         %[[X:.*]] = graph.dequantize %q, %s :
// CHECK:         %[[R:.*]] = graph.lookup %q,
// CHECK-NEXT:    func.return %[[R]], %[[X]] :

// -----

// Not a function of one code: a scale along an axis, a number for each column, two values, a value
// that is used elsewhere, sums of 32 bits, a number that is known only at run time.
// CHECK-LABEL: func.func @not(
// CHECK-NOT:     graph.lookup
func.func @not(%q: tensor<2x4xi8>, %p: tensor<2x4xi8>, %a: tensor<2x4xi32>, %n: tensor<f32>) -> (tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xf32>, tensor<2x4xi8>, tensor<2x4xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %s4 = graph.constant dense<[0.5, 0.25, 0.5, 0.125]> : tensor<4xf32>
  %0 = graph.dequantize %q, %s4 axis 1 : (tensor<2x4xi8>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = graph.tanh %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.quantize %1, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %x = graph.dequantize %q, %s : (tensor<2x4xi8>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.sin %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %s4 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %5 = graph.quantize %4, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %y = graph.dequantize %p, %s : (tensor<2x4xi8>, tensor<f32>) -> tensor<2x4xf32>
  %6 = graph.add %x, %y : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = graph.quantize %6, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %8 = graph.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = graph.quantize %8, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %d = graph.dequantize %a, %s : (tensor<2x4xi32>, tensor<f32>) -> tensor<2x4xf32>
  %10 = graph.cos %d : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = graph.quantize %10, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %12 = graph.mul %x, %n : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %13 = graph.quantize %12, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  func.return %2, %5, %7, %9, %8, %11, %13 : tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xi8>, tensor<2x4xf32>, tensor<2x4xi8>, tensor<2x4xi8>
}
