// RUN: ge-opt %s --split-input-file -p 'fuse-conv{target=910_merged}' | filecheck %s

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
// The convolution is used twice: a second result. Scales, residual and activation join.
func.func @case3(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %r: tensor<1x4x8x8xf32>, %p: tensor<4x1x1xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.mul %0, %p : (tensor<1x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.add %r, %1 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.silu %2 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %0, %3 : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         %[[A:.*]], %[[B:.*]] = fused_op.conv(%x, %w, %p, %r)
// CHECK:         func.return %[[A]], %[[B]] :

// -----

// Two convolutions and their sum: the sum joins one of them, after the other.
func.func @case4(%x: tensor<1x4x8x8xf32>, %v: tensor<4x4x3x3xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %0 = graph.conv %x, %v pads [1, 1, 1, 1] : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.add %0, %1 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.relu %2 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %3 : tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK:         %[[S:.*]] = graph.conv %x, %w :
// CHECK-NEXT:    fused_op.conv(%x, %v, %[[S]])

// -----

// A pool stays apart, and what follows.
func.func @case5(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.pool max %0 kernel [2, 2] strides [2, 2] : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %2 = graph.pad %1 pads [0, 0, 1, 1, 0, 0, 1, 1] : (tensor<1x4x4x4xf32>) -> tensor<1x4x6x6xf32>
  func.return %2 : tensor<1x4x6x6xf32>
}
// CHECK-LABEL: func.func @case5(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Channels last: a transpose behind the convolution is how it stores its result.
func.func @case7(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<1x8x8x4xf32> {
  %0 = graph.conv %x, %w : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.transpose %0 permutation [0, 2, 3, 1] : (tensor<1x4x8x8xf32>) -> tensor<1x8x8x4xf32>
  func.return %1 : tensor<1x8x8x4xf32>
}
// CHECK-LABEL: func.func @case7(
// CHECK:         fused_op.conv(%x, %w) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x8x8x4xf32>

// -----

// The sum joins the convolution that another one precedes, so that %short runs beside the two.
func.func @shortcut(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %short = graph.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %a = graph.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %r = graph.relu %a : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %b = graph.conv %r, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %t = graph.tanh %b : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %sum = graph.add %short, %t : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %sum : tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @shortcut(
// CHECK-NEXT:    %short = graph.conv %x, %w :
// CHECK:         fused_op.conv(%r, %w, %short)
// CHECK:         graph.tanh
// CHECK-NEXT:    graph.add

// -----

// Where what comes later is not elementwise, the sum joins the one that it can.
func.func @used(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %short = graph.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %a = graph.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %b = graph.conv %a, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %t = graph.softmax %b : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %sum = graph.add %short, %t : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %sum, %t : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @used(
// CHECK:         fused_op.conv(%x, %w, %t)
