// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.non_max_suppression' op operand 'boxes': expected a tensor of rank 3 of floats, not tensor<6x4xf32>
func.func @f(%b: tensor<6x4xf32>, %s: tensor<1x2x6xf32>) {
  %0 = graph.non_max_suppression %b, %s : (tensor<6x4xf32>, tensor<1x2x6xf32>) -> tensor<?x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.non_max_suppression' op operand 'scores': expected a tensor of rank 3 of floats, not tensor<2x6xf32>
func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<2x6xf32>) {
  %0 = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<2x6xf32>) -> tensor<?x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.non_max_suppression' op dimensions 6 and 5 differ
func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<1x2x5xf32>) {
  %0 = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<1x2x5xf32>) -> tensor<?x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.non_max_suppression' op element types differ: f32 and f16{{$}}
func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf16>) {
  %0 = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<1x2x6xf16>) -> tensor<?x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.non_max_suppression' op operand 'max_output': expected a ranked tensor of integers, not tensor<f32>{{$}}
func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<f32>) {
  %0 = graph.non_max_suppression %b, %s max_output %n : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<f32>) -> tensor<?x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.non_max_suppression' op result 0 has type tensor<?x4xi64>, but tensor<?x3xi64> follows from the operands
func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>) {
  %0 = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<?x4xi64>
  func.return
}
