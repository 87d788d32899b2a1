// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.mul' op operand 'lhs': expected a ranked tensor of numbers, not tensor<4xf8E4M3FN>; f8E4M3FN is only stored: cast it to compute with it
func.func @f(%x: tensor<4xf8E4M3FN>) {
  %0 = graph.mul %x, %x : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
  func.return
}

// -----

// CHECK: error: 'graph.matmul' op operand 'lhs': expected a ranked tensor of numbers that are multiplied, not tensor<4x4xi4>; i4 is only stored: cast it to compute with it
func.func @f(%x: tensor<4x4xi4>) {
  %0 = graph.matmul %x, %x : (tensor<4x4xi4>, tensor<4x4xi4>) -> tensor<4x4xi4>
  func.return
}

// -----

// CHECK: error: 'graph.scatter_nd' op f4E2M1FN is only stored: cast it to compute with it
func.func @f(%x: tensor<4xf4E2M1FN>, %i: tensor<1x1xi64>, %u: tensor<1xf4E2M1FN>) {
  %0 = graph.scatter_nd %x, %i, %u reduction add : (tensor<4xf4E2M1FN>, tensor<1x1xi64>, tensor<1xf4E2M1FN>) -> tensor<4xf4E2M1FN>
  func.return
}

// -----

// CHECK: error: 'graph.cast' op saturate is for floats of 8 bits, not for i8{{$}}
func.func @f(%x: tensor<4xf32>) {
  %0 = graph.cast %x to i8 saturate true : (tensor<4xf32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.cast' op rounding is for f8E8M0FNU, not for f8E5M2{{$}}
func.func @f(%x: tensor<4xf32>) {
  %0 = graph.cast %x to f8E5M2 rounding up : (tensor<4xf32>) -> tensor<4xf8E5M2>
  func.return
}

// -----

// CHECK: error: 'graph.bitcast' op i4 and i8 differ in width
func.func @f(%x: tensor<4xi4>) {
  %0 = graph.bitcast %x to i8 : (tensor<4xi4>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.quantize' op i4 always saturates
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>) {
  %0 = graph.quantize %x, %s to i4 saturate false : (tensor<4xf32>, tensor<f32>) -> tensor<4xi4>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op operand 'scale': expected a ranked tensor of floats, not tensor<f8E8M0FNU>; f8E8M0FNU is only stored: cast it to compute with it
func.func @f(%x: tensor<4xf4E2M1FN>, %s: tensor<f8E8M0FNU>) {
  %0 = graph.dequantize %x, %s : (tensor<4xf4E2M1FN>, tensor<f8E8M0FNU>) -> tensor<4xf8E8M0FNU>
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op element type f8E4M3FN is not supported; quantize to it
func.func @f(%x: tensor<4xi32>, %s: tensor<f32>) {
  %0 = graph.requantize %x, %s to f8E4M3FN : (tensor<4xi32>, tensor<f32>) -> tensor<4xf8E4M3FN>
  func.return
}

// -----

// CHECK: error: Integer value -9 is out of range for type i4 which
func.func @f() {
  %0 = graph.constant dense<-9> : tensor<4xi4>
  func.return
}

// -----

// CHECK: error: the literal has shape [2], its type [3]
func.func @f() {
  %0 = graph.constant dense<[1.0, 2.0]> : tensor<3xf8E4M3FN>
  func.return
}
