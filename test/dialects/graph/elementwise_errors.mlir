// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.add' op shapes [2, 3] and [4] do not broadcast
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4xf32>) {
  %0 = graph.add %x, %y : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.mul' op element types differ: f32 and f16{{$}}
func.func @f(%x: tensor<3xf32>, %y: tensor<3xf16>) {
  %0 = graph.mul %x, %y : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.sub' op result 0 has type tensor<2x1xf32>, but tensor<2x3xf32> follows from the operands
func.func @f(%x: tensor<2x1xf32>, %y: tensor<3xf32>) {
  %0 = graph.sub %x, %y : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.exp' op operand 'input': expected a ranked tensor of floats, not tensor<3xi32>
func.func @f(%x: tensor<3xi32>) {
  %0 = graph.exp %x : (tensor<3xi32>) -> tensor<3xi32>
  func.return
}

// -----

// CHECK: error: 'graph.neg' op operand 'input': expected a ranked tensor of numbers, not tensor<3xi1>
func.func @f(%x: tensor<3xi1>) {
  %0 = graph.neg %x : (tensor<3xi1>) -> tensor<3xi1>
  func.return
}

// -----

// CHECK: error: 'graph.not' op operand 'input': expected a ranked tensor of integers or truth values, not tensor<3xf32>
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.not %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: approximate is one of none, tanh, sigmoid, not 'erf'
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.gelu %x approximate erf : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: direction is one of left, right, not 'up'
func.func @f(%x: tensor<3xui8>) {
  %0 = graph.shift up %x, %x : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  func.return
}

// -----

// CHECK: error: 'graph.pow' op operand 'rhs': expected a ranked tensor of numbers, not tensor<3xi1>
func.func @f(%x: tensor<3xi1>, %y: tensor<3xi32>) {
  %0 = graph.pow %y, %x : (tensor<3xi32>, tensor<3xi1>) -> tensor<3xi32>
  func.return
}

// -----

// CHECK: error: predicate is one of eq, ne, lt, le, gt, ge, not 'equal'
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.compare equal %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  func.return
}

// -----

// CHECK: error: 'graph.compare' op result 'result': expected a ranked tensor of truth values (i1), not tensor<3xf32>
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.compare eq %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.select' op operand 'condition': expected a ranked tensor of truth values (i1), not tensor<3xi8>{{$}}
func.func @f(%c: tensor<3xi8>, %x: tensor<3xf32>) {
  %0 = graph.select %c, %x, %x : (tensor<3xi8>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.select' op element types differ: f32 and f64{{$}}
func.func @f(%c: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xf64>) {
  %0 = graph.select %c, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.clamp' op a limit is a scalar, not tensor<2xf32>
func.func @f(%x: tensor<3xf32>, %low: tensor<2xf32>) {
  %0 = graph.clamp %x low %low : (tensor<3xf32>, tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.clamp' op element types differ: f32 and f64{{$}}
func.func @f(%x: tensor<3xf32>, %low: tensor<f64>) {
  %0 = graph.clamp %x low %low : (tensor<3xf32>, tensor<f64>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.cast' op result 0 has type tensor<3xi16>, but tensor<3xi8> follows from the operands
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.cast %x to i8 : (tensor<3xf32>) -> tensor<3xi16>
  func.return
}

// -----

// CHECK: error: 'graph.bitcast' op f32 and i16 differ in width
func.func @f(%x: tensor<3xf32>) {
  %0 = graph.bitcast %x to i16 : (tensor<3xf32>) -> tensor<3xi16>
  func.return
}

// -----

// CHECK: error: 'graph.is_nan' op operand 'input': expected a ranked tensor of floats, not tensor<3xi32>
func.func @f(%x: tensor<3xi32>) {
  %0 = graph.is_nan %x : (tensor<3xi32>) -> tensor<3xi1>
  func.return
}

// -----

// CHECK: error: 'graph.abs' op operand 'input': expected a ranked tensor of numbers, not i32{{$}}
func.func @f(%x: i32) {
  %0 = graph.abs %x : (i32) -> tensor<3xi32>
  func.return
}
