// RUN: ge-opt %s -p 'insert-quantization{skip=fc2}' --verify-diagnostics --remarks
// RUN: ge-opt %s -p 'insert-quantization{skip=fc2}' | filecheck %s

// What stays float, and why.
func.func @main(%x: tensor<2x4xf32> {graph.range = [-1.0 : f64, 3.0 : f64]}, %q: tensor<1x2x4x8xf32>) -> (tensor<2x4xf32>, tensor<1x2x4x8xf32>, tensor<2x4xf32>) {
  %w = graph.constant dense<1.0> : tensor<4x4xf32>
  // expected-remark@+1 {{insert-quantization applied: 'fc1' in int8}}
  %fc1 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{insert-quantization missed: 'fc2' stays float: it is left out by 'fc2'}}
  %fc2 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %unseen = graph.add %fc1, %fc2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{'fc3' stays float: the range of its input 'unseen' is not known}}
  %fc3 = graph.matmul %unseen, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %zero = graph.relu %fc3 {graph.range = [0.0 : f64, 0.0 : f64]} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{'fc4' stays float: its input 'zero' is zero in all samples}}
  %fc4 = graph.matmul %zero, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{'a' stays float: its keys or values are inputs of the model}}
  %a = graph.attention %q, %q, %q scale 0.25 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  // expected-remark@+1 {{graph.einsum on these operands stays float}}
  %e = graph.einsum "ij,jk->ik" %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  func.return %fc4, %a, %e : tensor<2x4xf32>, tensor<1x2x4x8xf32>, tensor<2x4xf32>
}
// CHECK: %fc1 = graph.matmul %{{[0-9]+}}, %{{[0-9]+}} :
// CHECK: %fc2 = graph.matmul %x, %w :
// CHECK: %fc3 = graph.matmul %unseen, %w :
// CHECK: %fc4 = graph.matmul %zero, %w :
