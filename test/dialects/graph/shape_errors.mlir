// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.reshape' op the shape is missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op 'shape' is given both as attribute and as operand
func.func @f(%x: tensor<2x3xf32>, %s: tensor<1xi64>) {
  %0 = "graph.reshape"(%x, %s) <{shape = array<i64: 6>}> : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<6xf32>
  func.return
}

// -----

// CHECK: error: expected a constant or an operand, as in 'shape %0'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape : (tensor<2x3xf32>) -> tensor<6xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op cannot reshape [2, 3] to [4, 2]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [4, 2] : (tensor<2x3xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op [2, 3] does not divide into parts of 4 elements
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [4, -1] : (tensor<2x3xf32>) -> tensor<4x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op only one dimension can be -1, got [-1, -1]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [-1, -1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op dimension 0 is -2: use -1 for the dimension to infer
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [-2] : (tensor<2x3xf32>) -> tensor<6xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op dimension 2 is 0 (copy), but the input is [2, 3]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [2, 3, 0] : (tensor<2x3xf32>) -> tensor<2x3x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op dimension -1 cannot follow from others of which one is 0{{$}}
func.func @f(%x: tensor<0x3xf32>) {
  %0 = graph.reshape %x shape [0, -1] allow_zero true : (tensor<0x3xf32>) -> tensor<0x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op operand 'shape_value': expected a vector of integers, not tensor<2x1xi64>
func.func @f(%x: tensor<2x3xf32>, %s: tensor<2x1xi64>) {
  %0 = graph.reshape %x shape %s : (tensor<2x3xf32>, tensor<2x1xi64>) -> tensor<?x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reshape' op result 0 has type tensor<3x2xf32>, but tensor<6xf32> follows from the operands
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.reshape %x shape [6] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.squeeze' op dimension 1 of [2, 3] is not 1{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.squeeze %x axes [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.squeeze' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.squeeze %x axes [2] : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.squeeze' op axes [0, 0] name an axis twice
func.func @f(%x: tensor<1x3xf32>) {
  %0 = graph.squeeze %x axes [0, -2] : (tensor<1x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.squeeze' op a scalar has no axis 0{{$}}
func.func @f(%x: tensor<f32>) {
  %0 = graph.squeeze %x axes [0] : (tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'graph.unsqueeze' op the axes are missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.unsqueeze %x : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.unsqueeze' op axis 3 is out of range for rank 3{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.unsqueeze %x axes [3] : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.transpose' op [0, 0] is not a permutation of 2 dimensions
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.transpose %x permutation [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.depth_to_space' op number of channels 6 does not divide by 4{{$}}
func.func @f(%x: tensor<1x6x2x2xf32>) {
  %0 = graph.depth_to_space %x block 2 : (tensor<1x6x2x2xf32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.depth_to_space' op operand 'input': expected a tensor of rank 4 of elements that ge has, not tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.depth_to_space %x block 2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: mode is one of dcr, crd, not 'rcd'
func.func @f(%x: tensor<1x8x2x2xf32>) {
  %0 = graph.depth_to_space %x block 2 mode rcd : (tensor<1x8x2x2xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.space_to_depth' op width 3 does not divide by 2{{$}}
func.func @f(%x: tensor<1x1x2x3xf32>) {
  %0 = graph.space_to_depth %x block 2 : (tensor<1x1x2x3xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.space_to_depth' op property 'block': expected integer >= 1, got 0{{$}}
func.func @f(%x: tensor<1x1x2x2xf32>) {
  %0 = graph.space_to_depth %x block 0 : (tensor<1x1x2x2xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reverse_sequence' op batch_axis and time_axis are both 0{{$}}
func.func @f(%x: tensor<2x3xf32>, %n: tensor<2xi64>) {
  %0 = graph.reverse_sequence %x, %n batch_axis 0 time_axis -2 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.reverse_sequence' op lengths has 3 elements where 2 are expected
func.func @f(%x: tensor<2x3xf32>, %n: tensor<3xi64>) {
  %0 = graph.reverse_sequence %x, %n batch_axis 0 time_axis 1 : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.broadcast_to' op shapes [2, 3] and [2] do not broadcast
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.broadcast_to %x shape [2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.broadcast_to' op shape [-1, 3] has a negative dimension
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.broadcast_to %x shape [-1, 3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.broadcast_to' op the shape is missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.broadcast_to %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tile' op repeats has 1 elements where 2 are expected
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.tile %x repeats [2] : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tile' op repeats [1, -1] has a negative number
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.tile %x repeats [1, -1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tile' op the repeats are missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.tile %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.shape_of' op result 0 has type tensor<3xi64>, but tensor<2xi64> follows from the operands
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.shape_of %x : (tensor<2x3xf32>) -> tensor<3xi64>
  func.return
}
