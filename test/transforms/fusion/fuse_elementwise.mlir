// RUN: ge-opt %s --split-input-file -p fuse-elementwise | filecheck %s

// A chain with side inputs is one pass over the data.
func.func @case1(%x: tensor<8x32xf32>, %y: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = graph.mul %x, %y : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %1 = graph.tanh %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = graph.add %x, %1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %2 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:       %[[Y:.*]] = fused_op.region(%x, %y) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> {
// CHECK-NEXT:  ^bb0(%[[A:.*]]: tensor<8x32xf32>, %[[B:.*]]: tensor<32xf32>):
// CHECK-NEXT:    %[[M:.*]] = graph.mul %[[A]], %[[B]]
// CHECK-NEXT:    %[[T:.*]] = graph.tanh %[[M]]
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[A]], %[[T]]
// CHECK-NEXT:    fused_op.yield %[[S]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return %[[Y]]

// -----

// The element type may change on the way.
func.func @case2(%x: tensor<4xf32>) -> tensor<4xi1> {
  %0 = graph.cast %x to f16 : (tensor<4xf32>) -> tensor<4xf16>
  %1 = graph.is_nan %0 : (tensor<4xf16>) -> tensor<4xi1>
  func.return %1 : tensor<4xi1>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xi1>

// -----

// A broadcast on the way breaks the chain: the second op is larger than the first.
func.func @case3(%x: tensor<1x32xf32>, %y: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.exp %x : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %1 = graph.add %0, %y : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// One op alone is a launch already; a value used twice ends the chain.
func.func @case4(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Composition: an op in a branch is fused within the branch.
func.func @case5(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : tensor<i1> -> (tensor<4xf32>) {
    %1 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.neg %1 : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @case5(
// CHECK:         graph.if
// CHECK-NEXT:      fused_op.region(%x)
