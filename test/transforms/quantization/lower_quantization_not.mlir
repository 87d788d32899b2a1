// Layers that stay in floats say why.
// RUN: ge-opt %s --split-input-file --verify-diagnostics -p lower-quantization | filecheck %s

// CHECK-LABEL: func.func @parameters(
// CHECK-NOT: -> tensor<{{.*}}i32>
func.func @parameters(%q: tensor<4x8xi8>, %d: tensor<f32>, %b: tensor<8x2xi32>, %f: tensor<4x8xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<1> : tensor<i8>
  %s8 = graph.constant dense<0.5> : tensor<8xf32>
  %sb = graph.constant dense<0.5> : tensor<2x2xf32>
  %sb4 = graph.constant dense<0.5> : tensor<4x2xf32>
  %tiny = graph.constant dense<1.0e-42> : tensor<f32>
  %w = graph.constant dense<2> : tensor<8x2xi8>
  %z2 = graph.constant dense<[0, 1]> : tensor<2xi8>
  %s2 = graph.constant dense<0.5> : tensor<2xf32>
  %x = graph.dequantize %q, %s : (tensor<4x8xi8>, tensor<f32>) -> tensor<4x8xf32>
  %xd = graph.dequantize %q, %d, %z : (tensor<4x8xi8>, tensor<f32>, tensor<i8>) -> tensor<4x8xf32>
  %x8 = graph.dequantize %q, %s8 axis 1 : (tensor<4x8xi8>, tensor<8xf32>) -> tensor<4x8xf32>
  %wf = graph.dequantize %w, %s : (tensor<8x2xi8>, tensor<f32>) -> tensor<8x2xf32>
  %w8 = graph.dequantize %w, %s8 axis 0 : (tensor<8x2xi8>, tensor<8xf32>) -> tensor<8x2xf32>
  %wb = graph.dequantize %w, %sb axis 0 block_size 4 : (tensor<8x2xi8>, tensor<2x2xf32>) -> tensor<8x2xf32>
  %wt = graph.dequantize %w, %tiny : (tensor<8x2xi8>, tensor<f32>) -> tensor<8x2xf32>
  %wz = graph.dequantize %w, %s, %z : (tensor<8x2xi8>, tensor<f32>, tensor<i8>) -> tensor<8x2xf32>
  %wz2 = graph.dequantize %w, %s2, %z2 axis 1 : (tensor<8x2xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<8x2xf32>
  %xb = graph.dequantize %q, %sb4 axis 1 block_size 4 : (tensor<4x8xi8>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %w16 = graph.dequantize %b, %s : (tensor<8x2xi32>, tensor<f32>) -> tensor<8x2xf32>
  // expected-remark@+1 {{lower-quantization missed: the scale of its left operand is known only at run time}}
  %0 = graph.matmul %xd, %wf : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its input has a scale for each channel}}
  %1 = graph.matmul %x8, %wf : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its weight has scales along the summed dimension}}
  %2 = graph.matmul %x, %w8 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its right operand has a scale for each block}}
  %3 = graph.matmul %x, %wb : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its left operand has a scale for each block}}
  %xbw = graph.matmul %xb, %wf : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: the scale of its right operand is not a normal number}}
  %4 = graph.matmul %x, %wt : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its weight has zero point 1}}
  %5 = graph.matmul %x, %wz : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its weight has zero points that differ or are not known yet}}
  %6 = graph.matmul %x, %wz2 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its right operand is quantized to i32}}
  %7 = graph.matmul %x, %w16 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its left operand is not quantized}}
  %8 = graph.matmul %f, %wf : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// Scales that the program computes: of the weight, or not one for each row that is multiplied.
// CHECK-LABEL: func.func @scales(
// CHECK-NOT: -> tensor<{{.*}}i32>
func.func @scales(%q: tensor<4x8xi8>, %r: tensor<4x1xf32>, %d: tensor<f32>, %c: tensor<1x2x3x3xi8>, %t: tensor<1x2x3x1xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant dense<2> : tensor<8x2xi8>
  %v = graph.constant dense<2> : tensor<2x2x1x1xi8>
  %u = graph.constant dense<2> : tensor<4x4xi8>
  %x = graph.dequantize %q, %s : (tensor<4x8xi8>, tensor<f32>) -> tensor<4x8xf32>
  %xr = graph.dequantize %q, %r axis 1 block_size 8 : (tensor<4x8xi8>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %xc = graph.dequantize %c, %t axis 3 block_size 3 : (tensor<1x2x3x3xi8>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x3xf32>
  %wd = graph.dequantize %w, %d : (tensor<8x2xi8>, tensor<f32>) -> tensor<8x2xf32>
  %vf = graph.dequantize %v, %s : (tensor<2x2x1x1xi8>, tensor<f32>) -> tensor<2x2x1x1xf32>
  %uf = graph.dequantize %u, %s : (tensor<4x4xi8>, tensor<f32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{lower-quantization missed: the scale of its weight is known only at run time}}
  %0 = graph.matmul %x, %wd : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its input has scales that differ within a row}}
  %1 = graph.matmul %xr, %uf transpose_lhs true : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // expected-remark@+1 {{lower-quantization missed: its input has scales that differ within a row}}
  %2 = graph.matmul %uf, %xr : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{lower-quantization missed: the scales of its weight, or of each row, are known only at run time}}
  %3 = graph.conv %xc, %vf : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

// CHECK-LABEL: func.func @computed(
// CHECK-NOT: -> tensor<{{.*}}i32>
func.func @computed(%q: tensor<4x8xi8>, %r: tensor<8x4xi8>, %c: tensor<1x2x4xi8>, %w: tensor<2x2x3xi8>, %b: tensor<2xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<1> : tensor<i8>
  %v = graph.constant dense<2> : tensor<2x2x3xi8>
  %x = graph.dequantize %q, %s, %z : (tensor<4x8xi8>, tensor<f32>, tensor<i8>) -> tensor<4x8xf32>
  %y = graph.dequantize %r, %s : (tensor<8x4xi8>, tensor<f32>) -> tensor<8x4xf32>
  %cf = graph.dequantize %c, %s, %z : (tensor<1x2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4xf32>
  %wf = graph.dequantize %w, %s : (tensor<2x2x3xi8>, tensor<f32>) -> tensor<2x2x3xf32>
  %vf = graph.dequantize %v, %s : (tensor<2x2x3xi8>, tensor<f32>) -> tensor<2x2x3xf32>
  // expected-remark@+1 {{lower-quantization missed: both operands are computed, and one has a zero point}}
  %0 = graph.matmul %x, %y : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{lower-quantization missed: its weight is computed}}
  %1 = graph.conv %cf, %wf : (tensor<1x2x4xf32>, tensor<2x2x3xf32>) -> tensor<1x2x2xf32>
  // expected-remark@+1 {{lower-quantization missed: its bias is computed}}
  %2 = graph.conv %cf, %vf bias %b : (tensor<1x2x4xf32>, tensor<2x2x3xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  // expected-remark@+1 {{lower-quantization missed: it is transposed, and its input has a zero point}}
  %3 = graph.conv_transpose %cf, %vf : (tensor<1x2x4xf32>, tensor<2x2x3xf32>) -> tensor<1x2x6xf32>
  func.return
}

// -----

// The weight's scale is raised for a bias of 5 in units of 5e-12.
// CHECK-LABEL: func.func @overflow(
// CHECK: graph.constant dense<[1073741824, 0]> : tensor<2xi32>
// CHECK: graph.matmul {{.*}} -> tensor<4x2xi32>
func.func @overflow(%q: tensor<4x8xi8>) -> tensor<4x2xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %t = graph.constant dense<1.0e-11> : tensor<f32>
  %w = graph.constant dense<2> : tensor<8x2xi8>
  %b = graph.constant dense<[5.0, 0.0]> : tensor<2xf32>
  %x = graph.dequantize %q, %s : (tensor<4x8xi8>, tensor<f32>) -> tensor<4x8xf32>
  %wf = graph.dequantize %w, %t : (tensor<8x2xi8>, tensor<f32>) -> tensor<8x2xf32>
  %0 = graph.matmul %x, %wf : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark@-1 {{lower-quantization applied: the weight's scale is raised}}
  %1 = graph.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return %1 : tensor<4x2xf32>
}

// -----

// What lies between a dequantize and a quantize but does not go together.
// CHECK-LABEL: func.func @pairs(
// CHECK-NOT: graph.requantize
// CHECK-NOT: graph.lookup
func.func @pairs(%q: tensor<4x8xi8>, %d: tensor<f32>) -> (tensor<4x8xi8>, tensor<4x8xi8>, tensor<4x10xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %s8 = graph.constant dense<0.5> : tensor<8xf32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %x = graph.dequantize %q, %s : (tensor<4x8xi8>, tensor<f32>) -> tensor<4x8xf32>
  %0 = graph.quantize %x, %d to i8 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi8>
  %1 = graph.quantize %x, %s8 to i8 axis 1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi8>
  %2 = graph.pad %x pads [1, 1] axes [1] value %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x10xf32>
  %3 = graph.quantize %2, %s to i8 : (tensor<4x10xf32>, tensor<f32>) -> tensor<4x10xi8>
  func.return %0, %1, %3 : tensor<4x8xi8>, tensor<4x8xi8>, tensor<4x10xi8>
}
