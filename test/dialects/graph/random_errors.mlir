// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.random_uniform' op stream -1 is not in 0 to 4294967295{{$}}
func.func @f(%seed: tensor<2xi64>) {
  %0 = graph.random_uniform f32, %seed shape [2] stream -1 : (tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.random_normal' op property 'element': expected a float type, not i32{{$}}
func.func @f(%seed: tensor<2xi64>) {
  %0 = graph.random_normal i32, %seed shape [2] : (tensor<2xi64>) -> tensor<2xi32>
  func.return
}

// -----

// CHECK: error: 'graph.random_normal' op the shape is missing
func.func @f(%seed: tensor<2xi64>) {
  %0 = graph.random_normal f32, %seed : (tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.random_normal' op result 0 has type tensor<3xf32>, but tensor<2xf32> follows from the operands
func.func @f(%seed: tensor<2xi64>) {
  %0 = graph.random_normal f32, %seed shape [2] : (tensor<2xi64>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.derive_seed' op a seed is tensor<2xi64>, not tensor<4xi64>
func.func @f(%seed: tensor<4xi64>, %i: tensor<i64>) {
  %0 = graph.derive_seed %seed, %i : (tensor<4xi64>, tensor<i64>) -> tensor<2xi64>
  func.return
}

// -----

// CHECK: error: 'graph.derive_seed' op the index is a scalar, not tensor<2xi64>
func.func @f(%seed: tensor<2xi64>) {
  %0 = graph.derive_seed %seed, %seed : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  func.return
}

// -----

// CHECK: error: 'graph.derive_seed' op operand 'index': expected a ranked tensor of integers, not tensor<f32>{{$}}
func.func @f(%seed: tensor<2xi64>, %i: tensor<f32>) {
  %0 = graph.derive_seed %seed, %i : (tensor<2xi64>, tensor<f32>) -> tensor<2xi64>
  func.return
}
