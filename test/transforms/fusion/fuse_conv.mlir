// RUN: ge-opt %s --split-input-file -p fuse-conv | filecheck %s

func.func @case1(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4x3x3x3xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<4xf32>
  %0 = graph.conv %x, %w bias %b pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.relu %0 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %1 : tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:       fused_op.conv(%x, %w, %b)
// CHECK:         graph.conv
// CHECK-NEXT:    graph.relu
// CHECK-NEXT:    fused_op.yield

// -----

// A convolution with nothing to add stays alone: it is one launch as it is.
func.func @case2(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  func.return %0 : tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The convolution is used twice.
func.func @case3(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.relu %0 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %0, %1 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A pool is no activation.
func.func @case4(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.exp %0 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %1 : tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NOT:     fused_op
// CHECK:         func.return
