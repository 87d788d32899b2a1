// RUN: ge-opt %s --split-input-file -p 'insert-quantization{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'insert-quantization{target=910_merged}' --remarks --verify-diagnostics

// Query, key and value without zero points; the mask and what follows stay float.
func.func @main(%x: tensor<1x2x128x64xf32>, %m: tensor<128x128xf32>) -> tensor<1x2x128x64xf32> {
  %q = graph.relu %x {graph.range = [0.0 : f64, 127.0 : f64]} : (tensor<1x2x128x64xf32>) -> tensor<1x2x128x64xf32>
  %k = graph.tanh %x {graph.range = [-1.0 : f64, 0.5 : f64]} : (tensor<1x2x128x64xf32>) -> tensor<1x2x128x64xf32>
  // expected-remark@+1 {{insert-quantization applied: 'a' in int8}}
  %a = graph.attention %q, %k, %k mask %m scale 0.25 causal true : (tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32>, tensor<128x128xf32>) -> tensor<1x2x128x64xf32>
  func.return %a : tensor<1x2x128x64xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      [[S:%[0-9]+]] = graph.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: [[I:%[0-9]+]] = graph.quantize %q, [[S]] to i8 :
// CHECK-NEXT: [[Q:%[0-9]+]] = graph.dequantize [[I]], [[S]] :
// CHECK:      [[K:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} :
// CHECK-NEXT: %a = graph.attention [[Q]], [[K]], [[K]] mask %m rounded_weights true scale 2.500000e-01 causal true :

// -----

// A cache would be quantized anew in each run.
func.func @main(%x: tensor<1x2x1x8xf32>, %c: tensor<1x2x4x8xf32> {graph.range = [-1.0 : f64, 1.0 : f64]}) -> tensor<1x2x1x8xf32> {
  %q = graph.relu %x {graph.range = [0.0 : f64, 1.0 : f64]} : (tensor<1x2x1x8xf32>) -> tensor<1x2x1x8xf32>
  %k = graph.concat %c, %q axis 2 {graph.range = [-1.0 : f64, 1.0 : f64]} : (tensor<1x2x4x8xf32>, tensor<1x2x1x8xf32>) -> tensor<1x2x5x8xf32>
  // expected-remark@+1 {{insert-quantization missed: 'a' stays float: its keys or values are inputs of the model}}
  %a = graph.attention %q, %k, %k scale 0.25 : (tensor<1x2x1x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x1x8xf32>
  func.return %a : tensor<1x2x1x8xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: quantize
// CHECK-NOT: rounded_weights

// -----

// Attention in 16 bits waits for softmax, which integers make longer.
func.func @main(%x: tensor<1x32x2048x128xf16>) -> tensor<1x32x2048x128xf16> {
  %q = graph.relu %x {graph.range = [0.0 : f64, 1.0 : f64]} : (tensor<1x32x2048x128xf16>) -> tensor<1x32x2048x128xf16>
  // expected-remark@+1 {{'a' stays float: its launch would take}}
  %a = graph.attention %q, %q, %q scale 0.25 : (tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>, tensor<1x32x2048x128xf16>) -> tensor<1x32x2048x128xf16>
  func.return %a : tensor<1x32x2048x128xf16>
}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: quantize
