// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: kind is one of sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square, not 'total'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reduce total %x : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reduce sum %x axes [2] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op axes [1, 1] name an axis twice
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reduce sum %x axes [1, -1] : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op a scalar has no axis 0{{$}}
func.func @f(%x: tensor<f32>) {
  %0 = graph.reduce sum %x axes [0] : (tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op result 0 has type tensor<2x1xf32>, but tensor<2xf32> follows from the operands
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reduce sum %x axes [1] keep_dims false : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op element type i1 has only kinds max and min, not "sum"
func.func @f(%x: tensor<2xi1>) {
  %0 = graph.reduce sum %x : (tensor<2xi1>) -> tensor<1xi1>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op operand 'axes_value': expected a vector of integers, not tensor<1xf32>
func.func @f(%x: tensor<2x3xf32>, %a: tensor<1xf32>) {
  %0 = graph.reduce sum %x axes %a : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<?x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op 3 axes are given for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>, %a: tensor<3xi64>) {
  %0 = graph.reduce sum %x axes %a : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reduce' op 'axes' is given both as attribute and as operand
func.func @f(%x: tensor<2x3xf32>, %a: tensor<1xi64>) {
  %0 = "graph.reduce"(%x, %a) <{kind = #graph<reduce_kind sum>, axes = array<i64: 1>, keep_dims = true}> : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: expected a constant or an operand, as in 'axes %0'
func.func @f(%x: tensor<2x3xf32, 1>) {
  %0 = graph.reduce sum %x axes 1 : (tensor<2x3xf32, 1>) -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: kind is one of max, min, not 'top'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.arg_reduce top %x : (tensor<2x3xf32>) -> tensor<1x3xi64>
  func.return
}

// -----

// CHECK: error: 'graph.arg_reduce' op a scalar has no axis to search along
func.func @f(%x: tensor<f32>) {
  %0 = graph.arg_reduce max %x : (tensor<f32>) -> tensor<i64>
  func.return
}

// -----

// CHECK: error: 'graph.arg_reduce' op axis 1 is empty: there is no extreme
func.func @f(%x: tensor<2x0xf32>) {
  %0 = graph.arg_reduce max %x axis 1 : (tensor<2x0xf32>) -> tensor<2x1xi64>
  func.return
}

// -----

// CHECK: error: 'graph.arg_reduce' op result 'result': expected a ranked tensor of i64, not tensor<1x3xi32>
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.arg_reduce max %x : (tensor<2x3xf32>) -> tensor<1x3xi32>
  func.return
}

// -----

// CHECK: error: 'graph.cumulative' op the axis is missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.cumulative sum %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.cumulative' op axis -3 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.cumulative sum %x axis -3 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.cumulative' op axis is a scalar, not tensor<2xi64>
func.func @f(%x: tensor<2x3xf32>, %a: tensor<2xi64>) {
  %0 = graph.cumulative sum %x axis %a : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: kind is one of sum, prod, not 'max'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.cumulative max %x axis 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}
