// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.dft' op a signal has rank 2 or more and ends in 1 or 2, not tensor<2x10x3xf32>
func.func @f(%x: tensor<2x10x3xf32>) {
  %0 = graph.dft %x axis 1 : (tensor<2x10x3xf32>) -> tensor<2x10x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op operand 'input': expected a ranked tensor of floats, not tensor<2x10x1xi32>
func.func @f(%x: tensor<2x10x1xi32>) {
  %0 = graph.dft %x axis 1 : (tensor<2x10x1xi32>) -> tensor<2x10x2xi32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op the last dimension holds real and imaginary part: not an axis
func.func @f(%x: tensor<2x10x1xf32>) {
  %0 = graph.dft %x axis 2 : (tensor<2x10x1xf32>) -> tensor<2x10x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op a onesided transform takes a real signal, not tensor<2x10x2xf32>
func.func @f(%x: tensor<2x10x2xf32>) {
  %0 = graph.dft %x axis 1 onesided true : (tensor<2x10x2xf32>) -> tensor<2x6x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op a onesided transform takes complex frequencies, not tensor<2x10x1xf32>
func.func @f(%x: tensor<2x10x1xf32>) {
  %0 = graph.dft %x axis 1 inverse true onesided true : (tensor<2x10x1xf32>) -> tensor<2x18x1xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op length is 0, but must be positive
func.func @f(%x: tensor<2x10x1xf32>) {
  %0 = graph.dft %x length 0 axis 1 : (tensor<2x10x1xf32>) -> tensor<2x0x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op length is a scalar, not tensor<2xi64>
func.func @f(%x: tensor<2x10x1xf32>, %n: tensor<2xi64>) {
  %0 = graph.dft %x length %n axis 1 : (tensor<2x10x1xf32>, tensor<2xi64>) -> tensor<2x?x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dft' op the axis is missing
func.func @f(%x: tensor<2x10x1xf32>) {
  %0 = graph.dft %x : (tensor<2x10x1xf32>) -> tensor<2x10x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.stft' op a frame of 256 is longer than the signal of 128{{$}}
func.func @f(%x: tensor<1x128x1xf32>) {
  %0 = graph.stft %x frame_step 8 frame_length 256 : (tensor<1x128x1xf32>) -> tensor<1x15x9x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.stft' op window has 8 elements where 16 are expected
func.func @f(%x: tensor<1x128x1xf32>, %w: tensor<8xf32>) {
  %0 = graph.stft %x window %w frame_step 8 frame_length 16 : (tensor<1x128x1xf32>, tensor<8xf32>) -> tensor<1x15x9x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.stft' op operand 'window': expected a vector of floats, not tensor<8x1xf32>
func.func @f(%x: tensor<1x128x1xf32>, %w: tensor<8x1xf32>) {
  %0 = graph.stft %x window %w frame_step 8 : (tensor<1x128x1xf32>, tensor<8x1xf32>) -> tensor<1x15x9x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.stft' op operand 'signal': expected a tensor of rank 3 of floats, not tensor<128x1xf32>
func.func @f(%x: tensor<128x1xf32>) {
  %0 = graph.stft %x frame_step 8 : (tensor<128x1xf32>) -> tensor<1x15x9x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.stft' op frame_step is missing
func.func @f(%x: tensor<1x128x1xf32>) {
  %0 = graph.stft %x frame_length 8 : (tensor<1x128x1xf32>) -> tensor<1x15x9x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.mel_weight_matrix' op operand 'sample_rate': expected a ranked tensor of integers, not tensor<f32>{{$}}
func.func @f(%i: tensor<i64>, %f: tensor<f32>) {
  %0 = graph.mel_weight_matrix %i, %i, %f, %f, %f : (tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.mel_weight_matrix' op operand 'lower_edge_hertz': expected a ranked tensor of floats, not tensor<i64>{{$}}
func.func @f(%i: tensor<i64>, %f: tensor<f32>) {
  %0 = graph.mel_weight_matrix %i, %i, %i, %i, %f : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>) -> tensor<?x?xf32>
  func.return
}
