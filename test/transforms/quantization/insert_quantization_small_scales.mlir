// RUN: ge-opt %s -p 'insert-quantization{scheme=w4a16}' | filecheck %s

// Scales of groups that f16 would round to few bits, or not hold, keep theirs; those of weights that
// are all zero are exact in it.
func.func @main(%x: tensor<2x32xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
  %small = graph.constant dense<1.0e-6> : tensor<32x6xf32>
  %large = graph.constant dense<1.0e6> : tensor<32x6xf32>
  %zero = graph.constant dense<0.0> : tensor<32x6xf32>
  %r0 = graph.matmul %x, %small : (tensor<2x32xf32>, tensor<32x6xf32>) -> tensor<2x6xf32>
  %r1 = graph.matmul %x, %large : (tensor<2x32xf32>, tensor<32x6xf32>) -> tensor<2x6xf32>
  %r2 = graph.matmul %x, %zero : (tensor<2x32xf32>, tensor<32x6xf32>) -> tensor<2x6xf32>
  func.return %r0, %r1, %r2 : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>
}
// CHECK-NOT: to f16
// CHECK:     %r1 = graph.matmul
// CHECK:     graph.cast %{{[0-9]+}} to f16 :
// CHECK:     %r2 = graph.matmul
