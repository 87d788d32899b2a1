// RUN: ge-opt %s -p 'choose-precision{accuracy="snr>=200"},insert-quantization' | filecheck %s
// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.float32([[1, 0.3, i % 7, -i] for i in range(8)]))"
// RUN: ge-opt %s -p 'choose-precision{data="%t.npz" accuracy="snr>=30"}' --remarks --verify-diagnostics

// The first layer cuts off what is beyond its range (that of 16 bits is symmetric). With samples, and
// an accuracy that this is too much for, it takes 16 bits, the other one does not, as other codes of
// the weights are no help; without samples nothing is chosen.
// expected-remark@+1 {{fit-weights missed: weights keep nearest numbers: outputs gain nothing}}
func.func @main(%x: tensor<2x4xf32> {graph.name = "x", graph.range = [-1.0 : f64, 4.0 : f64]}) -> tensor<2x4xf32> {
  %w = graph.constant dense<1.0> : tensor<4x4xf32>
  // expected-remark@+1 {{choose-precision applied: 'cut' in int16 for snr >= 30}}
  %cut = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %0 = graph.relu %cut {graph.range = [0.0 : f64, 6.375 : f64]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %exact = graph.matmul %0, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  func.return %exact : tensor<2x4xf32>
}
// CHECK: %cut = graph.matmul %{{[0-9]+}}, %{{[0-9]+}} :
// CHECK: %exact = graph.matmul %{{[0-9]+}}, %{{[0-9]+}} :
