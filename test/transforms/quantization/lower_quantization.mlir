// RUN: ge-opt %s --split-input-file -p lower-quantization --validate | filecheck %s

// A padded convolution: the zero point is in the bias, in the padding, and relu is a limit.
func.func @conv(%q: tensor<1x2x4x4xi8>) -> tensor<1x3x4x4xi8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %w = graph.constant dense<2> : tensor<3x2x3x3xi8>
  %t = graph.constant dense<[0.25, 0.5, 1.0]> : tensor<3xf32>
  %b = graph.constant dense<[1.0, 2.0, -4.0]> : tensor<3xf32>
  %u = graph.constant dense<2.0> : tensor<f32>
  %y = graph.constant dense<-7> : tensor<i8>
  %0 = graph.dequantize %q, %s, %z : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.dequantize %w, %t axis 0 : (tensor<3x2x3x3xi8>, tensor<3xf32>) -> tensor<3x2x3x3xf32>
  %2 = graph.conv %0, %1 bias %b pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  %3 = graph.relu %2 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %4 = graph.quantize %3, %u, %y to i8 : (tensor<1x3x4x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x3x4x4xi8>
  func.return %4 : tensor<1x3x4x4xi8>
}
// CHECK-LABEL: func.func @conv(
// CHECK-NEXT:    %w = graph.constant dense<2>
// CHECK-NEXT:    %y = graph.constant dense<-7>
// CHECK-NEXT:    %0 = graph.constant dense<[-100, -100, -116]>
// CHECK-NEXT:    %1 = graph.conv %q, %w bias %0 pad_value 3 pads [1, 1, 1, 1]
// CHECK-NEXT:    %2 = graph.constant dense<[6.250000e-02, 1.250000e-01, 2.500000e-01]>
// CHECK-NEXT:    %3 = graph.requantize %1, %2 zero_point %y to i8 axis 1 rounding float32 low -7
// CHECK-NEXT:    func.return %3 :

// -----

// A bias after a matmul, unsigned activations, which are shifted (their zero point is gone then),
// weights of one scale.
func.func @gemm(%q: tensor<?x4xui8>) -> tensor<?x2xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<128> : tensor<ui8>
  %w = graph.constant dense<[[1, 2, 3, 4], [5, 6, 7, -8]]> : tensor<2x4xi8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.dequantize %q, %s, %z : (tensor<?x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<?x4xf32>
  %1 = graph.dequantize %w, %t : (tensor<2x4xi8>, tensor<f32>) -> tensor<2x4xf32>
  %2 = graph.matmul %0, %1 transpose_rhs true : (tensor<?x4xf32>, tensor<2x4xf32>) -> tensor<?x2xf32>
  %3 = graph.add %2, %b : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  func.return %3 : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @gemm(
// CHECK-NEXT:    %w = graph.constant
// CHECK-NEXT:    %0 = graph.cast %q to i32 :
// CHECK-NEXT:    %1 = graph.constant dense<128>
// CHECK-NEXT:    %2 = graph.sub %0, %1 :
// CHECK-NEXT:    %3 = graph.cast %2 to i8 :
// CHECK-NEXT:    %4 = graph.constant dense<1.250000e-01>
// CHECK-NEXT:    %5 = graph.constant dense<[8, 16]>
// CHECK-NEXT:    %6 = graph.matmul %3, %w transpose_rhs true
// CHECK-NEXT:    %7 = graph.add %6, %5 :
// CHECK-NEXT:    %8 = graph.dequantize %7, %4 :
// CHECK-NEXT:    func.return %8 :

// -----

// Parameters of weights are expressions; the dequantize moves behind the transpose with its axis.
// A bias that is not known yet may raise the scale.
func.func @weights(%q: tensor<8x64xi8>) -> tensor<8x512xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<-1> : tensor<i8>
  %w = graph.constant #graph.weight<"w"> : tensor<512x64xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<512xf32>
  %0 = graph.dequantize %q, %s, %z : (tensor<8x64xi8>, tensor<f32>, tensor<i8>) -> tensor<8x64xf32>
  %1 = graph.dequantize %w, %t axis 0 : (tensor<512x64xi8>, tensor<512xf32>) -> tensor<512x64xf32>
  %2 = graph.transpose %1 permutation [1, 0] : (tensor<512x64xf32>) -> tensor<64x512xf32>
  %3 = graph.matmul %0, %2 : (tensor<8x64xf32>, tensor<64x512xf32>) -> tensor<8x512xf32>
  func.return %3 : tensor<8x512xf32>
}
// CHECK-LABEL: func.func @weights(
// CHECK-NEXT:    %s = graph.constant dense<5.000000e-01>
// CHECK-NEXT:    %w = graph.constant #graph.weight<"w">
// CHECK-NEXT:    %t = graph.constant #graph.weight<"t">
// CHECK-NEXT:    %0 = graph.transpose %w permutation [1, 0]
// CHECK-NEXT:    %1 = graph.mul %t, %s :
// CHECK-NEXT:    %2 = graph.cast %0 to i32 :
// CHECK-NEXT:    %3 = graph.reduce sum %2 axes [0] keep_dims false
// CHECK-NEXT:    %4 = graph.constant dense<-1>
// CHECK-NEXT:    %5 = graph.mul %3, %4 :
// CHECK-NEXT:    %6 = graph.neg %5 :
// CHECK-NEXT:    %7 = graph.matmul %q, %0 :
// CHECK-NEXT:    %8 = graph.add %7, %6 :
// CHECK-NEXT:    %9 = graph.dequantize %8, %1 axis 1
// CHECK-NEXT:    func.return %9 :

// -----

func.func @bias(%q: tensor<8x64xi8>) -> tensor<8x512xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x512xi8>
  %t = graph.constant dense<0.01> : tensor<f32>
  %b = graph.constant #graph.weight<"b"> : tensor<512xf32>
  %0 = graph.dequantize %q, %s : (tensor<8x64xi8>, tensor<f32>) -> tensor<8x64xf32>
  %1 = graph.dequantize %w, %t : (tensor<64x512xi8>, tensor<f32>) -> tensor<64x512xf32>
  %2 = graph.matmul %0, %1 : (tensor<8x64xf32>, tensor<64x512xf32>) -> tensor<8x512xf32>
  %3 = graph.add %2, %b : (tensor<8x512xf32>, tensor<512xf32>) -> tensor<8x512xf32>
  func.return %3 : tensor<8x512xf32>
}
// CHECK-LABEL: func.func @bias(
// CHECK-NEXT:    %s = graph.constant dense<5.000000e-01>
// CHECK-NEXT:    %w = graph.constant #graph.weight<"w">
// CHECK-NEXT:    %t = graph.constant dense<1.000000e-02>
// CHECK-NEXT:    %b = graph.constant #graph.weight<"b">
// CHECK-NEXT:    %0 = graph.constant dense<0x4E000000>
// CHECK-NEXT:    %1 = graph.div %b, %0 :
// CHECK-NEXT:    %2 = graph.abs %1 :
// CHECK-NEXT:    %3 = graph.constant dense<1.000000e-02>
// CHECK-NEXT:    %4 = graph.maximum %3, %2 :
// CHECK-NEXT:    %5 = graph.dequantize %w, %t :
// CHECK-NEXT:    %6 = graph.quantize %5, %4 to i8 axis 1
// CHECK-NEXT:    %7 = graph.mul %4, %s :
// CHECK-NEXT:    %8 = graph.quantize %b, %7 to i32 axis 0
// CHECK-NEXT:    %9 = graph.matmul %q, %6 :
// CHECK-NEXT:    %10 = graph.add %9, %8 :
// CHECK-NEXT:    %11 = graph.dequantize %10, %7 axis 1
// CHECK-NEXT:    func.return %11 :

// -----

// A bias in units of the sums stays as it is, and serves two convolutions; so does their weight.
func.func @shared(%q: tensor<1x2x4xi8>, %r: tensor<1x2x4xi8>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %v = graph.constant dense<0.125> : tensor<f32>
  %w = graph.constant dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xi8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %b = graph.constant dense<[100000001, 5]> : tensor<2xi32>
  %0 = graph.dequantize %q, %s : (tensor<1x2x4xi8>, tensor<f32>) -> tensor<1x2x4xf32>
  %1 = graph.dequantize %r, %s : (tensor<1x2x4xi8>, tensor<f32>) -> tensor<1x2x4xf32>
  %2 = graph.dequantize %w, %t : (tensor<2x2x1xi8>, tensor<f32>) -> tensor<2x2x1xf32>
  %3 = graph.dequantize %b, %v : (tensor<2xi32>, tensor<f32>) -> tensor<2xf32>
  %4 = graph.conv %0, %2 bias %3 : (tensor<1x2x4xf32>, tensor<2x2x1xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  %5 = graph.conv %1, %2 bias %3 : (tensor<1x2x4xf32>, tensor<2x2x1xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %4, %5 : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %w = graph.constant
// CHECK-NEXT:    %b = graph.constant dense<[100000001, 5]>
// CHECK-NEXT:    %0 = graph.constant dense<1.250000e-01>
// CHECK-NEXT:    %1 = graph.conv %q, %w bias %b :
// CHECK-NEXT:    %2 = graph.dequantize %1, %0 :
// CHECK-NEXT:    %3 = graph.conv %r, %w bias %b :
// CHECK-NEXT:    %4 = graph.dequantize %3, %0 :
// CHECK-NEXT:    func.return %2, %4 :

// -----

// Unsigned weights around 128 are signed ones; groups; a factor of a weight goes into its scale.
func.func @unsigned(%q: tensor<1x4x4x4xi8>) -> tensor<1x4x2x2xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant dense<130> : tensor<4x1x3x3xui8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %m = graph.constant dense<128> : tensor<ui8>
  %f = graph.constant dense<[[[[1.0]]], [[[2.0]]], [[[4.0]]], [[[8.0]]]]> : tensor<4x1x1x1xf32>
  %0 = graph.dequantize %q, %s : (tensor<1x4x4x4xi8>, tensor<f32>) -> tensor<1x4x4x4xf32>
  %1 = graph.dequantize %w, %t, %m : (tensor<4x1x3x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x1x3x3xf32>
  %2 = graph.mul %1, %f : (tensor<4x1x3x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x1x3x3xf32>
  %3 = graph.conv %0, %2 group 4 : (tensor<1x4x4x4xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x2x2xf32>
  func.return %3 : tensor<1x4x2x2xf32>
}
// CHECK-LABEL: func.func @unsigned(
// CHECK-NEXT:    %0 = graph.constant dense<2>
// CHECK-NEXT:    %1 = graph.constant dense<[1.250000e-01, 2.500000e-01, 5.000000e-01, 1.000000e+00]>
// CHECK-NEXT:    %2 = graph.conv %q, %0 group 4
// CHECK-NEXT:    %3 = graph.dequantize %2, %1 axis 1
// CHECK-NEXT:    func.return %3 :

// -----

// Computed operands without zero points; the weight on the left; half precision.
func.func @operands(%q: tensor<2x4x8xi8>, %r: tensor<2x8x4xi8>, %h: tensor<8x2xi8>) -> (tensor<2x4x4xf32>, tensor<2x2xf16>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<0> : tensor<i8>
  %0 = graph.dequantize %q, %s, %z : (tensor<2x4x8xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4x8xf32>
  %1 = graph.dequantize %r, %s, %z : (tensor<2x8x4xi8>, tensor<f32>, tensor<i8>) -> tensor<2x8x4xf32>
  %2 = graph.matmul %0, %1 : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  %w = graph.constant dense<[[1, 2, 3, 4, 5, 6, 7, 8], [-1, -2, -3, -4, -5, -6, -7, -8]]> : tensor<2x8xi8>
  %t = graph.constant dense<[0.25, 0.5]> : tensor<2xf16>
  %u = graph.constant dense<0.5> : tensor<f16>
  %x = graph.constant dense<9> : tensor<i8>
  %3 = graph.dequantize %w, %t axis 0 : (tensor<2x8xi8>, tensor<2xf16>) -> tensor<2x8xf16>
  %4 = graph.dequantize %h, %u, %x : (tensor<8x2xi8>, tensor<f16>, tensor<i8>) -> tensor<8x2xf16>
  %5 = graph.matmul %3, %4 : (tensor<2x8xf16>, tensor<8x2xf16>) -> tensor<2x2xf16>
  func.return %2, %5 : tensor<2x4x4xf32>, tensor<2x2xf16>
}
// CHECK-LABEL: func.func @operands(
// CHECK-NEXT:    %0 = graph.constant dense<2.500000e-01>
// CHECK-NEXT:    %1 = graph.matmul %q, %r :
// CHECK-NEXT:    %2 = graph.dequantize %1, %0 :
// CHECK-NEXT:    %w = graph.constant
// CHECK-NEXT:    %3 = graph.constant dense<[1.250000e-01, 2.500000e-01]>
// CHECK-NEXT:    %4 = graph.matmul %w, %h :
// CHECK-NEXT:    %5 = graph.constant
// CHECK-NEXT:    %6 = graph.add %4, %5 :
// CHECK-NEXT:    %7 = graph.dequantize %6, %3 axis 0
// CHECK-NEXT:    %8 = graph.cast %7 to f16 :
// CHECK-NEXT:    func.return %2, %8 :

// -----

// Nothing is left of a pair around movement.
func.func @movement(%q: tensor<1x2x4x4xi8>) -> tensor<8x4xi8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %0 = graph.dequantize %q, %s, %z : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = graph.pool max %0 kernel [2, 2] strides [2, 2] : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.pad %1 pads [0, 0, 1, 1, 0, 0, 1, 1] : (tensor<1x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  %3 = graph.relu %2 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %4, %5 = graph.split %3 sizes [1, 1] axis 1 : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %6 = graph.concat %5, %4 axis 1 : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %7 = graph.transpose %6 permutation [0, 1, 3, 2] : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %8 = graph.reshape %7 shape [8, 4] : (tensor<1x2x4x4xf32>) -> tensor<8x4xf32>
  %9 = graph.quantize %8, %s, %z to i8 : (tensor<8x4xf32>, tensor<f32>, tensor<i8>) -> tensor<8x4xi8>
  func.return %9 : tensor<8x4xi8>
}
// CHECK-LABEL: func.func @movement(
// CHECK-NEXT:    %0 = graph.pool max %q kernel [2, 2] strides [2, 2]
// CHECK-NEXT:    %1 = graph.constant dense<3>
// CHECK-NEXT:    %2 = graph.pad %0 pads [0, 0, 1, 1, 0, 0, 1, 1] value %1
// CHECK-NEXT:    %3 = graph.clamp %2 low %1
// CHECK-NEXT:    %4, %5 = graph.split %3 sizes [1, 1] axis 1
// CHECK-NEXT:    %6 = graph.concat %5, %4 axis 1 :
// CHECK-NEXT:    %7 = graph.transpose %6 permutation [0, 1, 3, 2]
// CHECK-NEXT:    %8 = graph.reshape %7 shape [8, 4]
// CHECK-NEXT:    func.return %8 :

// -----

// Another grid: integers become integers. The quantize moves to the parts of a concatenation.
func.func @grids(%q: tensor<2x4xi8>, %r: tensor<2x4xui8>) -> (tensor<4x4xui8>, tensor<2x4xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<i8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %0 = graph.dequantize %q, %s, %z : (tensor<2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4xf32>
  %1 = graph.dequantize %r, %t : (tensor<2x4xui8>, tensor<f32>) -> tensor<2x4xf32>
  %2 = graph.concat %0, %1 axis 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %3 = graph.quantize %2, %t to ui8 : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xui8>
  %l = graph.constant dense<0.0> : tensor<f32>
  %h = graph.constant dense<6.0> : tensor<f32>
  %4 = graph.clamp %0 low %l high %h : (tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = graph.quantize %4, %s, %z to i8 : (tensor<2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4xi8>
  func.return %3, %5 : tensor<4x4xui8>, tensor<2x4xi8>
}
// CHECK-LABEL: func.func @grids(
// CHECK-NEXT:    %z = graph.constant dense<3>
// CHECK-NEXT:    %0 = graph.constant dense<2.000000e+00>
// CHECK-NEXT:    %1 = graph.requantize %q, %0 offset %z to ui8 rounding float32
// CHECK-NEXT:    %2 = graph.concat %1, %r axis 0 :
// CHECK-NEXT:    %3 = graph.constant dense<15>
// CHECK-NEXT:    %4 = graph.clamp %q low %z high %3
// CHECK-NEXT:    func.return %2, %4 :

// -----

// What floats need as well is dequantized once, and moved as it was.
func.func @other_users(%q: tensor<2x4xi8>) -> (tensor<2x4xf32>, tensor<4x2xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.dequantize %q, %s : (tensor<2x4xi8>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.exp %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.transpose %0 permutation [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %3 = graph.exp %2 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %1, %3 : tensor<2x4xf32>, tensor<4x2xf32>
}
// CHECK-LABEL: func.func @other_users(
// CHECK-NEXT:    %s = graph.constant dense<5.000000e-01>
// CHECK-NEXT:    %0 = graph.dequantize %q, %s :
// CHECK-NEXT:    %1 = graph.exp %0 :
// CHECK-NEXT:    %2 = graph.transpose %0 permutation [1, 0]
// CHECK-NEXT:    %3 = graph.exp %2 :
// CHECK-NEXT:    func.return %1, %3 :

// -----

// A table of embeddings stays integers; so does what is read from it.
func.func @table(%i: tensor<3xi64>) -> tensor<3x4xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant #graph.weight<"w"> : tensor<9x4xi8>
  %0 = graph.dequantize %w, %s : (tensor<9x4xi8>, tensor<f32>) -> tensor<9x4xf32>
  %1 = graph.gather %0, %i : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}
// CHECK-LABEL: func.func @table(
// CHECK-NEXT:    %s = graph.constant dense<5.000000e-01>
// CHECK-NEXT:    %w = graph.constant #graph.weight<"w">
// CHECK-NEXT:    %0 = graph.gather %w, %i :
// CHECK-NEXT:    %1 = graph.dequantize %0, %s :
// CHECK-NEXT:    func.return %1 :

// -----

// Scales of groups that were rounded to f16 are stored so; those of columns are kept as they are.
func.func @scales_of_groups(%x: tensor<2x64xf32>, %s: tensor<2x4xf16>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %g = graph.constant #graph.weight<"g"> : tensor<2x4xf16>
  %c = graph.constant #graph.weight<"c"> : tensor<4xf16>
  %w = graph.constant #graph.weight<"w"> : tensor<64x4xi4>
  %0 = graph.cast %g to f32 : (tensor<2x4xf16>) -> tensor<2x4xf32>
  %1 = graph.dequantize %w, %0 axis 0 block_size 32 : (tensor<64x4xi4>, tensor<2x4xf32>) -> tensor<64x4xf32>
  %2 = graph.matmul %x, %1 : (tensor<2x64xf32>, tensor<64x4xf32>) -> tensor<2x4xf32>
  %3 = graph.cast %c to f32 : (tensor<4xf16>) -> tensor<4xf32>
  %4 = graph.dequantize %w, %3 axis 1 : (tensor<64x4xi4>, tensor<4xf32>) -> tensor<64x4xf32>
  %5 = graph.matmul %x, %4 : (tensor<2x64xf32>, tensor<64x4xf32>) -> tensor<2x4xf32>
  %6 = graph.cast %s to f32 : (tensor<2x4xf16>) -> tensor<2x4xf32>
  %7 = graph.dequantize %w, %6 axis 0 block_size 32 : (tensor<64x4xi4>, tensor<2x4xf32>) -> tensor<64x4xf32>
  %8 = graph.matmul %x, %7 : (tensor<2x64xf32>, tensor<64x4xf32>) -> tensor<2x4xf32>
  func.return %2, %5, %8 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
// CHECK-LABEL: func.func @scales_of_groups(
// CHECK:         graph.dequantize %w, %g to f32 axis 0 block_size 32 : (tensor<64x4xi4>, tensor<2x4xf16>) -> tensor<64x4xf32>
// CHECK:         [[C:%[0-9]+]] = graph.cast %c to f32 :
// CHECK:         graph.dequantize %w, [[C]] axis 1
// CHECK:         [[S:%[0-9]+]] = graph.cast %s to f32 :
// CHECK-NEXT:    graph.dequantize %w, [[S]] axis 0 block_size

// -----

// The scales of its columns are those of columns of what is read; scales of its rows would have to be
// read as well.
func.func @scales_of_columns(%i: tensor<3x2xi64>) -> (tensor<3x2x4xf32>, tensor<3x2x4xf32>) {
  %s = graph.constant #graph.weight<"s"> : tensor<4xf32>
  %r = graph.constant #graph.weight<"r"> : tensor<9xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<9x4xi8>
  %0 = graph.dequantize %w, %s axis 1 : (tensor<9x4xi8>, tensor<4xf32>) -> tensor<9x4xf32>
  %1 = graph.gather %0, %i : (tensor<9x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  %2 = graph.dequantize %w, %r axis 0 : (tensor<9x4xi8>, tensor<9xf32>) -> tensor<9x4xf32>
  %3 = graph.gather %2, %i axis -2 : (tensor<9x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  func.return %1, %3 : tensor<3x2x4xf32>, tensor<3x2x4xf32>
}
// CHECK-LABEL: func.func @scales_of_columns(
// CHECK:         %0 = graph.gather %w, %i :
// CHECK-NEXT:    %1 = graph.dequantize %0, %s axis 2
// CHECK-NEXT:    %2 = graph.dequantize %w, %r axis
// CHECK-NEXT:    %3 = graph.gather %2, %i :

// -----

// Limits by channel are integers too.
func.func @limits(%q: tensor<2x2xi32>) -> tensor<2x2xi8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<-128> : tensor<i8>
  %l = graph.constant dense<[3.0, 6.0]> : tensor<2xf32>
  %0 = graph.dequantize %q, %s : (tensor<2x2xi32>, tensor<f32>) -> tensor<2x2xf32>
  %1 = graph.relu %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.minimum %1, %l : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %3 = graph.quantize %2, %s, %z to i8 : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8>
  func.return %3 : tensor<2x2xi8>
}
// CHECK-LABEL: func.func @limits(
// CHECK-NEXT:    %z = graph.constant dense<-128>
// CHECK-NEXT:    %0 = graph.constant dense<1.000000e+00>
// CHECK-NEXT:    %1 = graph.requantize %q, %0 zero_point %z to i8 rounding float32
// CHECK-NEXT:    %2 = graph.constant dense<[-122, -116]>
// CHECK-NEXT:    %3 = graph.minimum %1, %2 :
// CHECK-NEXT:    func.return %3 :

// -----

// A transposed convolution of integers without a zero point.
func.func @transposed(%q: tensor<1x2x4xi8>) -> tensor<1x3x9xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant dense<2> : tensor<2x3x3xi8>
  %t = graph.constant dense<[0.25, 0.5, 1.0]> : tensor<3xf32>
  %0 = graph.dequantize %q, %s : (tensor<1x2x4xi8>, tensor<f32>) -> tensor<1x2x4xf32>
  %1 = graph.dequantize %w, %t axis 1 : (tensor<2x3x3xi8>, tensor<3xf32>) -> tensor<2x3x3xf32>
  %2 = graph.conv_transpose %0, %1 strides [2] : (tensor<1x2x4xf32>, tensor<2x3x3xf32>) -> tensor<1x3x9xf32>
  func.return %2 : tensor<1x3x9xf32>
}
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT:    %w = graph.constant dense<2>
// CHECK-NEXT:    %0 = graph.constant dense<[1.250000e-01, 2.500000e-01, 5.000000e-01]>
// CHECK-NEXT:    %1 = graph.conv_transpose %q, %w strides [2]
// CHECK-NEXT:    %2 = graph.dequantize %1, %0 axis 1
// CHECK-NEXT:    func.return %2 :

// -----

// Integers of 16 bits are multiplied byte by byte; the floats of both products are added, and so is
// a bias.
func.func @wide(%q: tensor<4x8xi16>) -> tensor<4x2xi8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant dense<2> : tensor<8x2xi8>
  %t = graph.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.dequantize %q, %s : (tensor<4x8xi16>, tensor<f32>) -> tensor<4x8xf32>
  %1 = graph.dequantize %w, %t axis 1 : (tensor<8x2xi8>, tensor<2xf32>) -> tensor<8x2xf32>
  %2 = graph.matmul %0, %1 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %3 = graph.add %2, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %4 = graph.quantize %3, %s to i8 : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xi8>
  func.return %4 : tensor<4x2xi8>
}
// CHECK-LABEL: func.func @wide(
// CHECK:         [[F:%[0-9]+]] = graph.cast %q to f32 :
// CHECK:         [[HIGH:%[0-9]+]] = graph.floor
// CHECK:         [[H:%[0-9]+]] = graph.cast [[HIGH]] to i8 :
// CHECK:         graph.matmul [[H]], %w : (tensor<4x8xi8>, tensor<8x2xi8>) -> tensor<4x2xi32>
// CHECK-NEXT:    [[A:%[0-9]+]] = graph.dequantize
// CHECK:         [[Z:%[0-9]+]] = graph.constant dense<2048>
// CHECK-NEXT:    [[M:%[0-9]+]] = graph.matmul %{{[0-9]+}}, %w :
// CHECK-NEXT:    [[S:%[0-9]+]] = graph.add [[M]], [[Z]] :
// CHECK-NEXT:    [[B:%[0-9]+]] = graph.dequantize [[S]],
// CHECK-NEXT:    [[D:%[0-9]+]] = graph.add [[A]], [[B]] :
// CHECK-NEXT:    [[A:%[0-9]+]] = graph.add [[D]], %b :
// CHECK-NEXT:    graph.quantize [[A]], %s to i8 :

// -----

// A zero point of 16 bits has bytes, too: they are in the biases, and what padding holds.
func.func @wide_conv(%q: tensor<1x2x4x4xui16>, %c: tensor<1x2x4x4xi16>) -> (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<40000> : tensor<ui16>
  %w = graph.constant dense<100> : tensor<3x2x3x3xi8>
  %b = graph.constant dense<[1.0, 2.0, -4.0]> : tensor<3xf32>
  %0 = graph.dequantize %q, %s, %z : (tensor<1x2x4x4xui16>, tensor<f32>, tensor<ui16>) -> tensor<1x2x4x4xf32>
  %1 = graph.dequantize %w, %s : (tensor<3x2x3x3xi8>, tensor<f32>) -> tensor<3x2x3x3xf32>
  %2 = graph.conv %0, %1 pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
  %3 = graph.dequantize %c, %s : (tensor<1x2x4x4xi16>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %4 = graph.conv %3, %1 bias %b pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  func.return %2, %4 : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
}
// CHECK-LABEL: func.func @wide_conv(
// CHECK:         [[Z:%[0-9]+]] = graph.constant dense<-50400> : tensor<3xi32>
// CHECK-NEXT:    graph.conv %{{[0-9]+}}, %w bias [[Z]] pad_value 28 pads [1, 1, 1, 1]
// CHECK:         [[Z:%[0-9]+]] = graph.constant dense<115200> : tensor<3xi32>
// CHECK-NEXT:    graph.conv %{{[0-9]+}}, %w bias [[Z]] pad_value -64 pads [1, 1, 1, 1]
// CHECK:         graph.conv %{{[0-9]+}}, %w pads [1, 1, 1, 1] :
// CHECK:         graph.conv %{{[0-9]+}}, %w bias %{{[0-9]+}} pad_value -128 pads [1, 1, 1, 1]
// CHECK:         [[D:%[0-9]+]] = graph.add
// CHECK:         graph.add [[D]], %{{[0-9]+}} : (tensor<1x3x4x4xf32>, tensor<3x1x1xf32>)

// -----

// Scales that the program computes, of rows and of samples, multiply what becomes of the sums;
// unsigned codes are shifted.
func.func @rows(%q: tensor<4x8xi8>, %r: tensor<4x1xf16>, %c: tensor<3x2x4x4xui8>, %t: tensor<3xf32>) -> (tensor<4x2xf16>, tensor<3x3x4x4xf32>) {
  %w = graph.constant dense<2> : tensor<8x2xi8>
  %sw = graph.constant dense<[0.25, 0.5]> : tensor<2xf16>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf16>
  %s = graph.constant dense<0.5> : tensor<f32>
  %v = graph.constant dense<100> : tensor<3x2x3x3xi8>
  %rows = graph.sigmoid %r : (tensor<4x1xf16>) -> tensor<4x1xf16>
  %samples = graph.sigmoid %t : (tensor<3xf32>) -> tensor<3xf32>
  %0 = graph.dequantize %q, %rows axis 1 block_size 8 : (tensor<4x8xi8>, tensor<4x1xf16>) -> tensor<4x8xf16>
  %1 = graph.dequantize %w, %sw axis 1 : (tensor<8x2xi8>, tensor<2xf16>) -> tensor<8x2xf16>
  %2 = graph.matmul %0, %1 : (tensor<4x8xf16>, tensor<8x2xf16>) -> tensor<4x2xf16>
  %3 = graph.add %2, %b : (tensor<4x2xf16>, tensor<2xf16>) -> tensor<4x2xf16>
  %4 = graph.dequantize %c, %samples axis 0 : (tensor<3x2x4x4xui8>, tensor<3xf32>) -> tensor<3x2x4x4xf32>
  %5 = graph.dequantize %v, %s : (tensor<3x2x3x3xi8>, tensor<f32>) -> tensor<3x2x3x3xf32>
  %6 = graph.conv %4, %5 pads [1, 1, 1, 1] : (tensor<3x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<3x3x4x4xf32>
  func.return %3, %6 : tensor<4x2xf16>, tensor<3x3x4x4xf32>
}
// CHECK-LABEL: func.func @rows(
// CHECK:         [[M:%[0-9]+]] = graph.matmul %q, %w : (tensor<4x8xi8>, tensor<8x2xi8>) -> tensor<4x2xi32>
// CHECK-NEXT:    [[D:%[0-9]+]] = graph.dequantize [[M]], %{{[0-9]+}} axis 1 : (tensor<4x2xi32>, tensor<2xf32>)
// CHECK-NEXT:    [[R:%[0-9]+]] = graph.cast %rows to f32 :
// CHECK-NEXT:    [[P:%[0-9]+]] = graph.mul [[D]], [[R]] :
// CHECK-NEXT:    [[H:%[0-9]+]] = graph.cast [[P]] to
// CHECK-NEXT:    graph.add [[H]], %b :
// CHECK:         [[Z:%[0-9]+]] = graph.constant dense<230400> : tensor<3xi32>
// CHECK-NEXT:    [[C:%[0-9]+]] = graph.conv %{{[0-9]+}}, %v bias [[Z]] pad_value -128 pads [1, 1, 1, 1]
// CHECK-NEXT:    [[T:%[0-9]+]] = graph.unsqueeze %samples axes [1, 2, 3]
// CHECK-NEXT:    [[D:%[0-9]+]] = graph.dequantize [[C]], %s :
// CHECK-NEXT:    graph.mul [[D]], [[T]] :
