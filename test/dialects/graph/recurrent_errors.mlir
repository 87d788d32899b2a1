// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: direction is one of forward, reverse, bidirectional, not 'backward'
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r direction backward : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: activations is one of relu, tanh, sigmoid, affine, leaky_relu, thresholded_relu, scaled_tanh, hard_sigmoid, elu, softsign, softplus, not 'gelu'
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r activations [gelu] : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op expected 1 activations, got 2{{$}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r activations [tanh, tanh] : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op expected 1 alphas, got 2{{$}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r activations [elu] alphas [1.0, 2.0] : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op expected 1 betas, got 2{{$}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r activations [affine] betas [1.0, 2.0] : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op operand 'input': expected a tensor of rank 3 of floats, not tensor<5x3x4xi32>
func.func @f(%x: tensor<5x3x4xi32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<5x3x4xi32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op element types differ: f32 and f16{{$}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf16>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf16>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op operand 'input': expected a tensor of rank 3 of floats, not tensor<3x4xf32>
func.func @f(%x: tensor<3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op operand 'recurrence': expected a tensor of rank 3 of floats, not tensor<6x6xf32>
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op weights has shape [1, 6, 5], expected [1, 6, 4]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x5xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x5xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op recurrence has shape [1, 7, 6], expected [1, 6, 6]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x7x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x7x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op bias has shape [1, 6], expected [1, 12]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %m: tensor<1x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r bias %m : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<1x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op operand 'lengths': expected a vector of integers, not tensor<3xf32>{{$}}
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %m: tensor<3xf32>) {
  %0, %1 = graph.rnn %x, %w, %r lengths %m : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<3xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op lengths has shape [5], expected [3]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %m: tensor<5xi32>) {
  %0, %1 = graph.rnn %x, %w, %r lengths %m : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<5xi32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op initial_state has shape [1, 2, 6], expected [1, 3, 6]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %m: tensor<1x2x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r initial_state %m : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<1x2x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op weights has shape [1, 6, 4], expected [2, 6, 4]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r direction bidirectional : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.gru' op weights has shape [1, 6, 4], expected [1, 18, 4]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>) {
  %0, %1 = graph.gru %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.rnn' op initial_state has shape [1, 2, 6], expected [1, 3, 6]
func.func @f(%x: tensor<5x?x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %l: tensor<3xi32>, %m: tensor<1x2x6xf32>) {
  %0, %1 = graph.rnn %x, %w, %r lengths %l initial_state %m : (tensor<5x?x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<3xi32>, tensor<1x2x6xf32>) -> (tensor<5x1x?x6xf32>, tensor<1x?x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.lstm' op initial_cell has shape [1, 3, 5], expected [1, 3, 6]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x24x4xf32>, %r: tensor<1x24x6xf32>, %m: tensor<1x3x5xf32>) {
  %0, %1, %2 = graph.lstm %x, %w, %r initial_cell %m : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>, tensor<1x3x5xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// -----

// CHECK: error: 'graph.lstm' op peephole has shape [1, 24], expected [1, 18]
func.func @f(%x: tensor<5x3x4xf32>, %w: tensor<1x24x4xf32>, %r: tensor<1x24x6xf32>, %m: tensor<1x24xf32>) {
  %0, %1, %2 = graph.lstm %x, %w, %r peephole %m : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>, tensor<1x24xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}
