// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910b2}' --validate | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910b2 disable=fuse-weights}' | filecheck %s --check-prefix=OFF

// Weights that are dequantized by launches of their own are so together, with a cast of the input.
func.func @together(%x: tensor<64x256xf32>) -> tensor<64x128xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<256x256xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<256xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<128x256xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<128xf16>
  %0 = graph.cast %x to f16 : (tensor<64x256xf32>) -> tensor<64x256xf16>
  %1 = graph.dequantize %w, %s axis 0 : (tensor<256x256xi8>, tensor<256xf16>) -> tensor<256x256xf16>
  %2 = graph.matmul %0, %1 transpose_rhs true : (tensor<64x256xf16>, tensor<256x256xf16>) -> tensor<64x256xf16>
  %3 = graph.dequantize %v, %t axis 0 : (tensor<128x256xi8>, tensor<128xf16>) -> tensor<128x256xf16>
  %4 = graph.matmul %2, %3 transpose_rhs true : (tensor<64x256xf16>, tensor<128x256xf16>) -> tensor<64x128xf16>
  func.return %4 : tensor<64x128xf16>
}
// CHECK-LABEL: func.func @together(
// CHECK:         [[W:%[0-9]+]], [[V:%[0-9]+]], [[U:%[0-9]+]] = fused_op.region({{.*}}) {{.*}} -> (tensor<64x256xf16>, tensor<256x256xf16>, tensor<128x256xf16>)
// CHECK:         graph.matmul [[W]], [[V]] transpose_rhs true
// CHECK-NEXT:    graph.matmul {{%[0-9]+}}, [[U]] transpose_rhs true
// OFF-LABEL:   func.func @together(
// OFF-NOT:       fused_op.region

// -----

// All at once would take more memory than weights of floats do: the last one comes with a launch
// before its user.
func.func @memory(%x: tensor<16x4096xf16>) -> tensor<16x4096xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<4096x4096xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<4096xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<4096x4096xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<4096xf16>
  %u = graph.constant #graph.weight<"u"> : tensor<4096x4096xi8>
  %r = graph.constant #graph.weight<"r"> : tensor<4096xf16>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<4096x4096xi8>, tensor<4096xf16>) -> tensor<4096x4096xf16>
  %1 = graph.matmul %x, %0 transpose_rhs true : (tensor<16x4096xf16>, tensor<4096x4096xf16>) -> tensor<16x4096xf16>
  %2 = graph.dequantize %v, %t axis 0 : (tensor<4096x4096xi8>, tensor<4096xf16>) -> tensor<4096x4096xf16>
  %3 = graph.matmul %1, %2 transpose_rhs true : (tensor<16x4096xf16>, tensor<4096x4096xf16>) -> tensor<16x4096xf16>
  %4 = graph.tanh %3 : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %5 = graph.dequantize %u, %r axis 0 : (tensor<4096x4096xi8>, tensor<4096xf16>) -> tensor<4096x4096xf16>
  %6 = graph.matmul %4, %5 transpose_rhs true : (tensor<16x4096xf16>, tensor<4096x4096xf16>) -> tensor<16x4096xf16>
  func.return %6 : tensor<16x4096xf16>
}
// CHECK-LABEL: func.func @memory(
// CHECK:         fused_op.region({{.*}}) {{.*}} -> (tensor<4096x4096xf16>, tensor<4096x4096xf16>)
// CHECK:         fused_op.region({{.*}}) {{.*}} -> (tensor<16x4096xf16>, tensor<4096x4096xf16>)
// CHECK:           graph.tanh
// CHECK:           graph.dequantize

// -----

// What is computed of an input alone comes with them.
func.func @mask(%x: tensor<64x256xf16>, %m: tensor<64x128xi64>) -> (tensor<64x128xf16>, tensor<64x128xf16>) {
  %w = graph.constant #graph.weight<"w"> : tensor<256x256xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<256xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<128x256xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<128xf16>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<256x256xi8>, tensor<256xf16>) -> tensor<256x256xf16>
  %1 = graph.matmul %x, %0 transpose_rhs true : (tensor<64x256xf16>, tensor<256x256xf16>) -> tensor<64x256xf16>
  %2 = graph.dequantize %v, %t axis 0 : (tensor<128x256xi8>, tensor<128xf16>) -> tensor<128x256xf16>
  %3 = graph.matmul %1, %2 transpose_rhs true : (tensor<64x256xf16>, tensor<128x256xf16>) -> tensor<64x128xf16>
  %4 = graph.cast %m to f16 : (tensor<64x128xi64>) -> tensor<64x128xf16>
  %5 = graph.abs %4 : (tensor<64x128xf16>) -> tensor<64x128xf16>
  func.return %3, %5 : tensor<64x128xf16>, tensor<64x128xf16>
}
// CHECK-LABEL: func.func @mask(
// CHECK:         fused_op.region({{.*}}) {{.*}} -> (tensor<256x256xf16>, tensor<128x256xf16>, tensor<64x128xf16>)
// CHECK:           graph.abs
// CHECK:         func.return
// OFF-LABEL:   func.func @mask(
// OFF:           fused_op.region({{.*}}) {{.*}} -> tensor<64x128xf16>

// -----

// A weight of which the launch has no tile program does not keep the others apart.
func.func @without_program(%x: tensor<64x256xf16>, %y: tensor<8x3xf16>) -> (tensor<64x128xf16>, tensor<8x32xf16>) {
  %w = graph.constant #graph.weight<"w"> : tensor<256x256xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<256xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<128x256xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<128xf16>
  %u = graph.constant #graph.weight<"u"> : tensor<32x3xi4>
  %r = graph.constant #graph.weight<"r"> : tensor<32x1xf16>
  %z = graph.constant #graph.weight<"z"> : tensor<32x1xi4>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<256x256xi8>, tensor<256xf16>) -> tensor<256x256xf16>
  %1 = graph.matmul %x, %0 transpose_rhs true : (tensor<64x256xf16>, tensor<256x256xf16>) -> tensor<64x256xf16>
  %2 = graph.dequantize %v, %t axis 0 : (tensor<128x256xi8>, tensor<128xf16>) -> tensor<128x256xf16>
  %3 = graph.matmul %1, %2 transpose_rhs true : (tensor<64x256xf16>, tensor<128x256xf16>) -> tensor<64x128xf16>
  %4 = graph.dequantize %u, %r, %z axis 1 block_size 32 : (tensor<32x3xi4>, tensor<32x1xf16>, tensor<32x1xi4>) -> tensor<32x3xf16>
  %5 = graph.matmul %y, %4 transpose_rhs true : (tensor<8x3xf16>, tensor<32x3xf16>) -> tensor<8x32xf16>
  func.return %3, %5 : tensor<64x128xf16>, tensor<8x32xf16>
}
// CHECK-LABEL: func.func @without_program(
// CHECK:         fused_op.region({{.*}}) {{.*}} -> (tensor<256x256xf16>, tensor<128x256xf16>)
// CHECK:           fused_op.yield
// CHECK:         graph.dequantize {{.*}} block_size 32
