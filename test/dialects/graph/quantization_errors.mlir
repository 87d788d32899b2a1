// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.quantize' op operand 'input': expected a ranked tensor of floats or i32, not tensor<4xi64>{{$}}
func.func @f(%x: tensor<4xi64>, %s: tensor<f32>) {
  %0 = graph.quantize %x, %s to i8 : (tensor<4xi64>, tensor<f32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.quantize' op result 'result': expected a ranked tensor of quantized elements, not tensor<4xf16>{{$}}
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>) {
  %0 = graph.quantize %x, %s to f16 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf16>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op operand 'input': expected a ranked tensor of quantized elements or i64, not tensor<4xui64>{{$}}
func.func @f(%x: tensor<4xui64>, %s: tensor<f32>) {
  %0 = graph.dequantize %x, %s : (tensor<4xui64>, tensor<f32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op sums of i64 have no zero point
func.func @f(%x: tensor<4xi64>, %s: tensor<f32>, %z: tensor<i32>) {
  %0 = graph.dequantize %x, %s, %z : (tensor<4xi64>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.quantize' op operand 'scale': expected a ranked tensor of floats, not tensor<i32>{{$}}
func.func @f(%x: tensor<4xf32>, %s: tensor<i32>) {
  %0 = graph.quantize %x, %s to i8 : (tensor<4xf32>, tensor<i32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op scale has one element, or one for each index of axis, not [4, 3]
func.func @f(%x: tensor<4x3xi8>, %s: tensor<4x3xf32>) {
  %0 = graph.dequantize %x, %s axis 0 : (tensor<4x3xi8>, tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op a scale of shape [3] needs 'axis'
func.func @f(%x: tensor<4x3xi8>, %s: tensor<3xf32>) {
  %0 = graph.dequantize %x, %s : (tensor<4x3xi8>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<4x3xi8>, %s: tensor<3xf32>) {
  %0 = graph.dequantize %x, %s axis 2 : (tensor<4x3xi8>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op a tensor of rank 0 has no axis
func.func @f(%x: tensor<i8>, %s: tensor<3xf32>) {
  %0 = graph.dequantize %x, %s axis 0 : (tensor<i8>, tensor<3xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op scale has 3 elements for dimension 0 of [4, 3]
func.func @f(%x: tensor<4x3xi8>, %s: tensor<3xf32>) {
  %0 = graph.dequantize %x, %s axis 0 : (tensor<4x3xi8>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op block_size is positive, not -2{{$}}
func.func @f(%x: tensor<4x3xi8>, %s: tensor<2x3xf32>) {
  %0 = graph.dequantize %x, %s axis 0 block_size -2 : (tensor<4x3xi8>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op 'block_size' needs 'axis'
func.func @f(%x: tensor<4x3xi8>, %s: tensor<2x3xf32>) {
  %0 = graph.dequantize %x, %s block_size 2 : (tensor<4x3xi8>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op scale for blocks of 2 along dimension 0 of [5, 3] has shape [3, 3], not [2, 3]
func.func @f(%x: tensor<5x3xi8>, %s: tensor<2x3xf32>) {
  %0 = graph.dequantize %x, %s axis 0 block_size 2 : (tensor<5x3xi8>, tensor<2x3xf32>) -> tensor<5x3xf32>
  func.return
}

// -----

// CHECK: error: 'graph.quantize' op zero point is i8, not ui8{{$}}
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>, %z: tensor<ui8>) {
  %0 = graph.quantize %x, %s, %z to i8 : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op zero point has the shape of scale, [4], not []
func.func @f(%x: tensor<4xi8>, %s: tensor<4xf32>, %z: tensor<i8>) {
  %0 = graph.dequantize %x, %s, %z axis 0 : (tensor<4xi8>, tensor<4xf32>, tensor<i8>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dequantize' op result 0 has type tensor<4xf32>, but tensor<4xf16> follows from the operands
func.func @f(%x: tensor<4xi8>, %s: tensor<f16>) {
  %0 = graph.dequantize %x, %s : (tensor<4xi8>, tensor<f16>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.dynamic_quantize' op operand 'input': expected a ranked tensor of floats, not tensor<4xi8>
func.func @f(%x: tensor<4xi8>) {
  %0, %1, %2 = graph.dynamic_quantize %x : (tensor<4xi8>) -> (tensor<4xui8>, tensor<i8>, tensor<ui8>)
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op zero point is i8, not ui8{{$}}
func.func @f(%x: tensor<4xi32>, %s: tensor<f32>, %z: tensor<ui8>) {
  %0 = graph.requantize %x, %s zero_point %z to i8 : (tensor<4xi32>, tensor<f32>, tensor<ui8>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op offset is i32, not i8{{$}}
func.func @f(%x: tensor<4xi32>, %s: tensor<f32>, %z: tensor<i8>) {
  %0 = graph.requantize %x, %s offset %z to i8 : (tensor<4xi32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op limits 0 and 128 are not limits within i8{{$}}
func.func @f(%x: tensor<4xi32>, %s: tensor<f32>) {
  %0 = graph.requantize %x, %s to i8 low 0 high 128 : (tensor<4xi32>, tensor<f32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op scale has 3 elements for dimension 0 of [4]
func.func @f(%x: tensor<4xi32>, %s: tensor<3xf32>) {
  %0 = graph.requantize %x, %s to i8 axis 0 : (tensor<4xi32>, tensor<3xf32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.requantize' op operand 'input': expected a ranked tensor of quantized integers, not tensor<4xf32>
func.func @f(%x: tensor<4xf32>, %s: tensor<f32>) {
  %0 = graph.requantize %x, %s to i8 : (tensor<4xf32>, tensor<f32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.lookup' op operand 'input': expected a ranked tensor of integers of 8 bits, not tensor<4xi16>{{$}}
func.func @f(%x: tensor<4xi16>, %t: tensor<256xi8>) {
  %0 = graph.lookup %x, %t : (tensor<4xi16>, tensor<256xi8>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.lookup' op a table has shape [256], not [255]
func.func @f(%x: tensor<4xi8>, %t: tensor<255xi8>) {
  %0 = graph.lookup %x, %t : (tensor<4xi8>, tensor<255xi8>) -> tensor<4xi8>
  func.return
}
