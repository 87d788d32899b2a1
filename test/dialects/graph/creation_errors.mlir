// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.range' op limit is a scalar, not tensor<2xi64>
func.func @f(%a: tensor<i64>, %b: tensor<2xi64>) {
  %0 = graph.range %a, %b, %a : (tensor<i64>, tensor<2xi64>, tensor<i64>) -> tensor<?xi64>
  func.return
}

// -----

// CHECK: error: 'graph.range' op element types differ: i64 and f32{{$}}
func.func @f(%a: tensor<i64>, %b: tensor<f32>) {
  %0 = graph.range %a, %a, %b : (tensor<i64>, tensor<i64>, tensor<f32>) -> tensor<?xi64>
  func.return
}

// -----

// CHECK: error: 'graph.range' op delta is 0{{$}}
func.func @f(%a: tensor<i64>) {
  %0 = graph.constant dense<0> : tensor<i64>
  %1 = graph.range %a, %a, %0 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  func.return
}

// -----

// CHECK: error: 'graph.fill' op the shape is missing
func.func @f() {
  %0 = graph.fill 1 : i64 : () -> tensor<3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.fill' op shape [2, -1] has a negative dimension
func.func @f() {
  %0 = graph.fill 1 : i64 shape [2, -1] : () -> tensor<2x?xi64>
  func.return
}

// -----

// CHECK: error: 'graph.fill' op result 0 has type tensor<3xf32>, but tensor<3xi64> follows from the operands
func.func @f() {
  %0 = graph.fill 1 : i64 shape [3] : () -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.eye' op an identity matrix has 2 dimensions, not 3{{$}}
func.func @f() {
  %0 = graph.eye f32 shape [2, 2, 2] : () -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tri' op expected one matrix or several, not tensor<3xf32>
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.tri %x upper true : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tri' op operand 'k_value': expected a ranked tensor of integers, not tensor<f32>{{$}}
func.func @f(%x: tensor<2x3xf32>, %k: tensor<f32>) {
  %0 = graph.tri %x k %k upper true : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return
}
