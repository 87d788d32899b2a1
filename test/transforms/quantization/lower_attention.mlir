// RUN: ge-opt %s --split-input-file -p lower-quantization | filecheck %s
// RUN: ge-opt %s --split-input-file -p lower-quantization --remarks --verify-diagnostics

// The scales become numbers of the op; its own scale is 1 / sqrt(16) where it has none.
func.func @main(%q: tensor<1x2x4x16xi8>, %k: tensor<1x2x4x16xi8>, %m: tensor<4x4xi1>) -> tensor<1x2x4x16xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %t = graph.constant dense<0.125> : tensor<f32>
  %0 = graph.dequantize %q, %s : (tensor<1x2x4x16xi8>, tensor<f32>) -> tensor<1x2x4x16xf32>
  %1 = graph.dequantize %k, %t : (tensor<1x2x4x16xi8>, tensor<f32>) -> tensor<1x2x4x16xf32>
  %2 = graph.attention %0, %1, %1 mask %m rounded_weights true fill -1.0e4 causal true : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<4x4xi1>) -> tensor<1x2x4x16xf32>
  func.return %2 : tensor<1x2x4x16xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %0 = graph.attention %q, %k, %k mask %m {{.*}}value_scale 1.250000e-01{{.*}}scale 1.562500e-02
// CHECK-NEXT: func.return %0 :

// -----

// Halves stay halves behind it.
func.func @halves(%q: tensor<1x2x4x8xi8>) -> tensor<1x2x4x8xf16> {
  %s = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.dequantize %q, %s : (tensor<1x2x4x8xi8>, tensor<f16>) -> tensor<1x2x4x8xf16>
  %1 = graph.attention %0, %0, %0 rounded_weights true scale 1.0 : (tensor<1x2x4x8xf16>, tensor<1x2x4x8xf16>, tensor<1x2x4x8xf16>) -> tensor<1x2x4x8xf16>
  func.return %1 : tensor<1x2x4x8xf16>
}
// CHECK-LABEL: func.func @halves(
// CHECK-NEXT: %0 = graph.attention %q, %q, %q {{.*}}scale 2.500000e-01
// CHECK-SAME: -> tensor<1x2x4x8xf32>
// CHECK-NEXT: %1 = graph.cast %0 to f16 :

// -----

// What keeps floats.
func.func @not(%q: tensor<1x2x4x8xi8>, %u: tensor<1x2x4x8xui8>, %d: tensor<f32>, %f: tensor<1x2x4x8xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %s8 = graph.constant dense<0.5> : tensor<8xf32>
  %z = graph.constant dense<1> : tensor<i8>
  %0 = graph.dequantize %q, %s : (tensor<1x2x4x8xi8>, tensor<f32>) -> tensor<1x2x4x8xf32>
  %1 = graph.dequantize %q, %s, %z : (tensor<1x2x4x8xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x8xf32>
  %2 = graph.dequantize %q, %s8 axis 3 : (tensor<1x2x4x8xi8>, tensor<8xf32>) -> tensor<1x2x4x8xf32>
  %3 = graph.dequantize %u, %s : (tensor<1x2x4x8xui8>, tensor<f32>) -> tensor<1x2x4x8xf32>
  %4 = graph.dequantize %q, %d : (tensor<1x2x4x8xi8>, tensor<f32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: its key has a zero point}}
  %5 = graph.attention %0, %1, %0 rounded_weights true : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: the scale of its value is not one number that is known}}
  %6 = graph.attention %0, %0, %2 rounded_weights true : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: its query is quantized to ui8}}
  %7 = graph.attention %3, %0, %0 rounded_weights true : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: the scale of its key is not one number that is known}}
  %8 = graph.attention %0, %4, %0 rounded_weights true : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: its value is not quantized}}
  %9 = graph.attention %0, %0, %f rounded_weights true : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %10 = graph.attention %0, %0, %0 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}
// CHECK-LABEL: func.func @not(
// CHECK-NOT: graph.attention %q

// -----

// Parts on grids of their own are parts of one step from sums to integers.
func.func @parts(%acc: tensor<4x6xi32>, %w: tensor<6xf32>) -> (tensor<2x4xi8>, tensor<4x4xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %t = graph.constant dense<0.25> : tensor<f32>
  %c = graph.constant dense<2.0> : tensor<6xf32>
  %0 = graph.dequantize %acc, %c axis 1 : (tensor<4x6xi32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = graph.slice %0 starts [0] ends [2] axes [1] steps [1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %2 = graph.transpose %1 permutation [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %3 = graph.quantize %2, %s to i8 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xi8>
  %4 = graph.slice %0 starts [2] ends [6] axes [1] steps [1] : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %5 = graph.quantize %4, %t to i8 : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi8>
  func.return %3, %5 : tensor<2x4xi8>, tensor<4x4xi8>
}
// CHECK-LABEL: func.func @parts(
// CHECK:      [[S:%[0-9]+]] = graph.constant dense<[4.000000e+00, 4.000000e+00, 8.000000e+00, 8.000000e+00, 8.000000e+00, 8.000000e+00]>
// CHECK-NEXT: [[R:%[0-9]+]] = graph.requantize %acc, [[S]] to i8 axis 1 rounding float32
// CHECK-NOT:  graph.requantize
// CHECK-DAG:  graph.slice [[R]] starts [0] ends [2]
// CHECK-DAG:  graph.slice [[R]] starts [2] ends [6]

// -----

// Not where a part is used in floats, is left out, has a zero point or another type.
func.func @apart(%x: tensor<4x6xf32>) -> (tensor<4x2xi8>, tensor<4x4xi8>, tensor<4x4xf32>, tensor<4x4xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %x1 = graph.relu %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %x2 = graph.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.slice %x1 starts [0] ends [2] axes [1] steps [1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %2 = graph.slice %x1 starts [2] ends [6] axes [1] steps [1] : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %3 = graph.quantize %1, %s to i8 : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xi8>
  %4 = graph.quantize %2, %s, %z to i8 : (tensor<4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<4x4xi8>
  %5 = graph.slice %x2 starts [0] ends [4] axes [1] steps [1] : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %6 = graph.quantize %5, %s to i8 : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xi8>
  func.return %3, %4, %5, %6 : tensor<4x2xi8>, tensor<4x4xi8>, tensor<4x4xf32>, tensor<4x4xi8>
}
// CHECK-LABEL: func.func @apart(
// CHECK-NOT: to i8 {axis
