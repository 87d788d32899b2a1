// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.concat' op nothing to concatenate
func.func @f() {
  %0 = graph.concat axis 0 : () -> tensor<0xf32>
  func.return
}

// -----

// CHECK: error: 'graph.concat' op dimensions 3 and 4 differ
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  %0 = graph.concat %x, %y axis 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.concat' op ranks differ: tensor<2x3xf32> and tensor<3xf32>
func.func @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  %0 = graph.concat %x, %y axis 0 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.concat' op element types differ: f32 and f16{{$}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf16>) {
  %0 = graph.concat %x, %y axis 0 : (tensor<2x3xf32>, tensor<2x3xf16>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.concat' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.concat %x, %x axis 2 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.concat' op a scalar has no axis 0{{$}}
func.func @f(%x: tensor<f32>) {
  %0 = graph.concat %x, %x axis 0 : (tensor<f32>, tensor<f32>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.split' op sizes [1, 1] add up to 2, but the dimension is 3{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1 = graph.split %x sizes [1, 1] axis 1 : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.split' op sizes [4, -1] has a negative number
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1 = graph.split %x sizes [4, -1] axis 1 : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.split' op sizes has 3 elements where 2 are expected
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1 = graph.split %x sizes [1, 1, 1] axis 1 : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.split' op dimension 2 does not split into 4 parts of 1{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1, %2, %3 = graph.split %x axis 0 : (tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.split' op operand 'sizes_value': expected a vector of integers, not tensor<2xf32>
func.func @f(%x: tensor<2x3xf32>, %v: tensor<2xf32>) {
  %0, %1 = graph.split %x sizes %v axis 1 : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x1xf32>, tensor<2x2xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.slice' op the ends are missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.slice' op starts, ends, axes and steps differ in length: [1, 1, 2]
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [0] ends [1] axes [0, 1] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.slice' op a step is 0{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [0] ends [1] axes [0] steps [0] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.slice' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [0, 0, 0] ends [1, 1, 1] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.slice' op axes [1, 1] name an axis twice
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [0, 0] ends [1, 1] axes [1, -1] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.slice' op result 0 has type tensor<2x3xf32>, but tensor<2x1xf32> follows from the operands
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.slice %x starts [-1] ends [9] axes [1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op the pads are missing
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.pad %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op pads has 2 elements where 4 are expected
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.pad %x pads [1, 1] : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: mode is one of constant, edge, reflect, wrap, not 'mirror'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.pad %x pads [1, 1] axes [0] mode mirror : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op pads -2 and -1 of dimension 0 of [2, 3] take away more than there is
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.pad %x pads [-2, -1] axes [0] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op value is a scalar, not tensor<2xf32>
func.func @f(%x: tensor<2x3xf32>, %v: tensor<2xf32>) {
  %0 = graph.pad %x pads [1, 1] axes [0] value %v : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op element types differ: f32 and i64{{$}}
func.func @f(%x: tensor<2x3xf32>, %v: tensor<i64>) {
  %0 = graph.pad %x pads [1, 1] axes [0] value %v : (tensor<2x3xf32>, tensor<i64>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.pad' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.pad %x pads [1, 1] axes [2] : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
