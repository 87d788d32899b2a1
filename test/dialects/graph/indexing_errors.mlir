// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.gather' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.gather %x, %i axis 2 : (tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<2x2x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather' op a scalar has no axis 0{{$}}
func.func @f(%x: tensor<f32>, %i: tensor<2x2xi64>) {
  %0 = graph.gather %x, %i : (tensor<f32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather' op operand 'indices': expected a ranked tensor of integers, not tensor<2x3xf32>{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.gather %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather_elements' op ranks of input and indices differ: 2 and 1{{$}}
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2xi64>) {
  %0 = graph.gather_elements %x, %i : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather_elements' op dimension 1 of the indices is 4, of the input only 3{{$}}
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x4xi64>) {
  %0 = graph.gather_elements %x, %i : (tensor<2x3xf32>, tensor<2x4xi64>) -> tensor<2x4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather_nd' op batch_dims 2 is out of range for tensor<2x2xi64>
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.gather_nd %x, %i batch_dims 2 : (tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather_nd' op vectors of 3 indices do not fit 2 dimensions
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>) {
  %0 = graph.gather_nd %x, %i : (tensor<2x3xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.gather_nd' op shapes of batches differ: [2] and [3]
func.func @f(%x: tensor<2x3xf32>, %i: tensor<3x1xi64>) {
  %0 = graph.gather_nd %x, %i batch_dims 1 : (tensor<2x3xf32>, tensor<3x1xi64>) -> tensor<3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.scatter_elements' op shapes of indices and updates differ: [2, 2] and [2, 3]
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.scatter_elements %x, %i, %x : (tensor<2x3xf32>, tensor<2x2xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.scatter_elements' op element types differ: f32 and i64{{$}}
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.scatter_elements %x, %i, %i : (tensor<2x3xf32>, tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: reduction is one of none, add, mul, max, min, not 'sum'
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>) {
  %0 = graph.scatter_elements %x, %i, %x reduction sum : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.scatter_nd' op shapes of slices and updates differ: [2] and [2, 3]
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.scatter_nd %x, %i, %x : (tensor<2x3xf32>, tensor<2x2xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.scatter_nd' op indices are vectors of indices, not a scalar
func.func @f(%x: tensor<2x3xf32>, %i: tensor<i64>) {
  %0 = graph.scatter_nd %x, %i, %x : (tensor<2x3xf32>, tensor<i64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: mode is one of linear, circular, not 'ring'
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.tensor_scatter %x, %x axis 1 mode ring : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tensor_scatter' op axis 0 is the batch
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.tensor_scatter %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tensor_scatter' op ranks of input and updates differ: [2, 3] and [2]
func.func @f(%x: tensor<2x3xf32>, %u: tensor<2xf32>) {
  %0 = graph.tensor_scatter %x, %u axis 1 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tensor_scatter' op 4 updates do not fit into 3 places
func.func @f(%x: tensor<2x3xf32>, %u: tensor<2x4xf32>) {
  %0 = graph.tensor_scatter %x, %u axis 1 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.tensor_scatter' op write_indices has 3 elements where 2 are expected
func.func @f(%x: tensor<2x3xf32>, %i: tensor<3xi64>) {
  %0 = graph.tensor_scatter %x, %x at %i axis 1 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.compress' op operand 'condition': expected a vector of truth values (i1), not tensor<2xi64>
func.func @f(%x: tensor<2x3xf32>, %c: tensor<2xi64>) {
  %0 = graph.compress %x, %c axis 0 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<?x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.unique' op axis -3 is out of range for rank 2{{$}}
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1, %2, %3 = graph.unique %x axis -3 : (tensor<2x3xf32>) -> (tensor<?x3xf32>, tensor<?xi64>, tensor<2xi64>, tensor<?xi64>)
  func.return
}

// -----

// CHECK: error: 'graph.nonzero' op result 0 has type tensor<1x?xi64>, but tensor<2x?xi64> follows from the operands
func.func @f(%x: tensor<2x3xf32>) {
  %0 = graph.nonzero %x : (tensor<2x3xf32>) -> tensor<1x?xi64>
  func.return
}

// -----

// CHECK: error: 'graph.one_hot' op operand 'values': expected a vector of elements that ge has, not tensor<2x3xf32>
func.func @f(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.one_hot %i, %x depth 3 : (tensor<2x2xi64>, tensor<2x3xf32>) -> tensor<2x2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.one_hot' op the depth is missing
func.func @f(%v: tensor<2xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.one_hot %i, %v : (tensor<2x2xi64>, tensor<2xf32>) -> tensor<2x2x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.one_hot' op depth is -1{{$}}
func.func @f(%v: tensor<2xf32>, %i: tensor<2x2xi64>) {
  %0 = graph.one_hot %i, %v depth -1 : (tensor<2x2xi64>, tensor<2xf32>) -> tensor<2x2x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.one_hot' op depth is a scalar, not tensor<2xi64>
func.func @f(%v: tensor<2xf32>, %d: tensor<2xi64>, %i: tensor<2x2xi64>) {
  %0 = graph.one_hot %i, %v depth %d : (tensor<2x2xi64>, tensor<2xi64>, tensor<2xf32>) -> tensor<2x2x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.top_k' op k is missing
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1 = graph.top_k %x : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  func.return
}

// -----

// CHECK: error: 'graph.top_k' op k is 4 for axis 1 of [2, 3]
func.func @f(%x: tensor<2x3xf32>) {
  %0, %1 = graph.top_k %x k 4 : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  func.return
}

// -----

// CHECK: error: 'graph.top_k' op k is -1 for axis 1 of [2, ?]
func.func @f(%x: tensor<2x?xf32>) {
  %0, %1 = graph.top_k %x k -1 : (tensor<2x?xf32>) -> (tensor<2x?xf32>, tensor<2x?xi64>)
  func.return
}

// -----

// It would be an attribute beside the property, and say nothing.
// CHECK: error: 'graph.gather' op 'axis' is a property, not an attribute: write 'axis ...' before the braces, <{axis = ...}> in the generic form
func.func @f(%x: tensor<4x5xf32>, %i: tensor<2xi64>) {
  %0 = graph.gather %x, %i {axis = 1} : (tensor<4x5xf32>, tensor<2xi64>) -> tensor<2x5xf32>
  func.return
}
