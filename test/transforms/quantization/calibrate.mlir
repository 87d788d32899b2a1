// RUN: ge-opt %s -p 'calibrate{data="%S/Inputs/calibrate.toml"}' | filecheck %s
// RUN: ge-opt %s -p calibrate | filecheck %s --check-prefix=NONE

// What is multiplied by weights is marked with its range: an argument and the result of an op. What
// the table does not have, what no layer reads, and products of constants have no range.
func.func @main(%x: tensor<2x4xf32> {graph.name = "x"}) -> tensor<2x4xf32> {
  %w = graph.constant dense<1.0> : tensor<4x4xf32>
  %v = graph.matmul %w, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = graph.matmul %x, %v : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("/act/Relu")
  %2 = graph.matmul %1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.tanh %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.matmul %3, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  func.return %4 : tensor<2x4xf32>
}
// CHECK: @main(%x: tensor<2x4xf32> {graph.name = "x", graph.range = [-1.000000e+00 : f64, 3.500000e+00 : f64]})
// CHECK-NEXT: %w = graph.constant
// CHECK-NEXT: %v = graph.matmul %w, %w : (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT: %0 = graph.matmul %x, %v : (
// CHECK-NEXT: %1 = graph.relu %0 {graph.range = [0.000000e+00 : f64, 4.250000e+00 : f64]} :
// CHECK-NEXT: %2 = graph.matmul %1, %w :
// CHECK-NEXT: %3 = graph.tanh %2 :
// NONE-NOT: graph.range
