// RUN: ge-opt %s -p refine-precision | filecheck %s

// Stored weights are dequantized to f16, but to f32 first where f16 does not hold a scale.
func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %q = graph.constant dense<64> : tensor<2x2xi8>
  %s = graph.constant dense<[1.0e-2, 9.5367431640625e-7]> : tensor<2xf32>
  %t = graph.constant dense<[1.0e-2, 1.0e-7]> : tensor<2xf32>
  %fits = graph.dequantize %q, %s axis 1 : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %small = graph.dequantize %q, %t axis 1 : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %0 = graph.matmul %x, %fits : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.matmul %x, %small : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}
// CHECK:     graph.dequantize %q, %{{[0-9]+}} {{.*}} tensor<2xf16>) -> tensor<2x2xf16>
// CHECK:     %small = graph.dequantize {{.*}} -> tensor<2x2xf32>
// CHECK-NEXT: graph.cast %small to f16 :
