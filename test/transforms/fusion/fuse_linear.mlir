// RUN: ge-opt %s --split-input-file -p fuse-linear | filecheck %s

// Matmul, constant bias and activation become one op.
func.func @case1(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<32xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = graph.relu %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %2 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:       %[[W:.*]] = graph.constant #graph.weight<"w">
// CHECK-NEXT:  %[[B:.*]] = graph.constant #graph.weight<"b">
// CHECK-NEXT:  %[[Y:.*]] = fused_op.linear(%x, %[[W]], %[[B]])
// CHECK-NEXT:  ^bb0(%[[X0:.*]]: tensor<8x64xf32>, %[[W0:.*]]: tensor<64x32xf32>, %[[B0:.*]]: tensor<32xf32>):
// CHECK-NEXT:    %[[P:.*]] = graph.matmul %[[X0]], %[[W0]]
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[P]], %[[B0]]
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[S]]
// CHECK-NEXT:    fused_op.yield %[[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return %[[Y]]

// -----

// An activation alone is fused too.
func.func @case2(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.gelu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         fused_op.linear(%x, %w)

// -----

// The product has another user: nothing is fused.
func.func @case3(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %0, %1 : tensor<8x32xf32>, tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The same value twice is two uses.
func.func @case4(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %0 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A residual is no bias: it is not constant.
func.func @case5(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %r : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case5(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A bias that makes the result larger is not added on the tile.
func.func @case6(%x: tensor<1x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %b = graph.constant #graph.weight<"b"> : tensor<8x32xf32>
  %0 = graph.matmul %x, %w : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  %1 = graph.add %0, %b : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case6(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// An activation that the vector unit does not apply to the tile: a reshape stands between.
func.func @case7(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<256xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.reshape %0 shape [256] : tensor<8x32xf32> -> tensor<256xf32>
  %2 = graph.relu %1 : (tensor<256xf32>) -> tensor<256xf32>
  func.return %2 : tensor<256xf32>
}
// CHECK-LABEL: func.func @case7(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Dynamic shapes stay apart: the kernel's tile is not known.
func.func @case8(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %1 = graph.relu %0 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  func.return %1 : tensor<?x32xf32>
}
// CHECK-LABEL: func.func @case8(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The user is in a branch, the product outside: nothing is fused.
func.func @case9(%c: tensor<i1>, %x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %x0: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.if %c : tensor<i1> -> (tensor<8x32xf32>) {
    %2 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
    graph.yield %2 : tensor<8x32xf32>
  } else {
    graph.yield %x0 : tensor<8x32xf32>
  }
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case9(
// CHECK-NOT:     fused_op
// CHECK:         func.return
