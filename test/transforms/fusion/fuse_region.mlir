// RUN: ge-opt %s --split-input-file -p fuse-region | filecheck %s

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
// CHECK-NEXT:    %[[M:.*]] = graph.mul %[[A]], %[[B]] :
// CHECK-NEXT:    %[[T:.*]] = graph.tanh %[[M]] :
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[A]], %[[T]] :
// CHECK-NEXT:    fused_op.yield %[[S]] :
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return %[[Y]] :

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
// A short value that is broadcast is computed by each core.
func.func @case3(%x: tensor<1x32xf32>, %y: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.exp %x : (tensor<1x32xf32>) -> tensor<1x32xf32>
  %1 = graph.add %0, %y : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         fused_op.region(%x, %y)

// -----
// One op alone is a launch already.
func.func @case4(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Composition: an op in a branch is fused within the branch.
func.func @case5(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
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
// -----
// Rotary embedding as exporters write it out: halves, negation, concat, two products, a sum.
func.func @case6(%x: tensor<1x4x8x16xf32>, %c: tensor<1x1x8x16xf32>, %s: tensor<1x1x8x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = graph.mul %x, %c : (tensor<1x4x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x8x16xf32>
  %1 = graph.slice %x starts [0] ends [8] axes [3] : (tensor<1x4x8x16xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.slice %x starts [8] ends [16] axes [3] : (tensor<1x4x8x16xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.neg %2 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %4 = graph.concat %3, %1 axis 3 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x16xf32>
  %5 = graph.mul %4, %s : (tensor<1x4x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x8x16xf32>
  %6 = graph.add %0, %5 : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32>
  func.return %6 : tensor<1x4x8x16xf32>
}
// CHECK-LABEL: func.func @case6(
// CHECK:         %[[Y:.*]] = fused_op.region(%x, %c, %s)
// CHECK:           fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// Siblings: two users of one input read it once. The one with more results comes out whole.
func.func @case7(%x: tensor<1024x32xf32>) -> (tensor<1024x32xf32>, tensor<1024x32xf32>) {
  %0 = graph.cos %x : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
  %1 = graph.sin %x : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
  func.return %0, %1 : tensor<1024x32xf32>, tensor<1024x32xf32>
}
// CHECK-LABEL: func.func @case7(
// CHECK:         %[[A:.*]], %[[B:.*]] = fused_op.region(%x)
// CHECK:         func.return %[[A]], %[[B]] :

// -----

// A norm spelled out: statistics of rows and what uses them, in one walk over the rows.
func.func @case8(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.reduce mean %x axes [1] : (tensor<8x32xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
  %2 = graph.mul %1, %1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x32xf32>) -> tensor<8x1xf32>
  %4 = graph.sqrt %3 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %5 = graph.div %1, %4 : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
  func.return %5 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case8(
// CHECK:         %[[Y:.*]] = fused_op.region(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
// CHECK:         func.return %[[Y]] :

// -----

// Rows and columns: the two reductions do not have the same tiles.
func.func @case9(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.softmax %x : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = graph.softmax %0 axis 0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case9(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Between two softmaxes along what looks the same data moves from row to row.
func.func @case10(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = graph.softmax %x : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = graph.softmax %1 : (tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %2 : tensor<16x16xf32>
}
// CHECK-LABEL: func.func @case10(
// CHECK:         fused_op.region
// CHECK:           graph.softmax
// CHECK-NEXT:      graph.transpose
// CHECK-NEXT:      fused_op.yield
// CHECK:         graph.softmax

// -----

// A lookup reads a table in memory, not one that is still on the cores.
func.func @case11(%t: tensor<64x8xf32>, %u: tensor<8xf32>, %i: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = graph.add %t, %u : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  %1 = graph.gather %0, %i : (tensor<64x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %2 = graph.neg %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @case11(
// CHECK:         %[[T:.*]] = graph.add %t, %u :
// CHECK-NEXT:    fused_op.region(%[[T]], %i)

// -----

// A function of one element is computed on what was looked up: a mask of integers, its truth at
// some places, and what follows.
func.func @case16(%m: tensor<1x128xi64>, %i: tensor<1x128x2xi64>, %x: tensor<1x128xf32>, %y: tensor<f32>) -> tensor<1x128xf32> {
  %0 = graph.cast %m to i1 : (tensor<1x128xi64>) -> tensor<1x128xi1>
  %1 = graph.gather_nd %0, %i : (tensor<1x128xi1>, tensor<1x128x2xi64>) -> tensor<1x128xi1>
  %2 = graph.select %1, %x, %y : (tensor<1x128xi1>, tensor<1x128xf32>, tensor<f32>) -> tensor<1x128xf32>
  func.return %2 : tensor<1x128xf32>
}
// CHECK-LABEL: func.func @case16(
// CHECK-NEXT:    %[[Y:.*]] = fused_op.region(%m, %i, %x, %y)
// CHECK:         func.return %[[Y]] :

// -----

// A path around: the product is between the two, so they cannot be one.
func.func @case12(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = graph.exp %x : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = graph.matmul %0, %0 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = graph.add %0, %1 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %2 : tensor<16x16xf32>
}
// CHECK-LABEL: func.func @case12(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Views at the ends stay outside, they cost nothing there.
func.func @case13(%x: tensor<4x8xf32>) -> tensor<2x16xf32> {
  %0 = graph.reshape %x shape [32] : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = graph.exp %0 : (tensor<32xf32>) -> tensor<32xf32>
  %2 = graph.neg %1 : (tensor<32xf32>) -> tensor<32xf32>
  %3 = graph.reshape %2 shape [2, 16] : (tensor<32xf32>) -> tensor<2x16xf32>
  func.return %3 : tensor<2x16xf32>
}
// CHECK-LABEL: func.func @case13(
// CHECK:         %[[V:.*]] = graph.reshape %x shape
// CHECK-NEXT:    %[[Y:.*]] = fused_op.region(%[[V]]) : (tensor<32xf32>) -> tensor<32xf32>
// CHECK:         graph.reshape %[[Y]] shape

// -----

// Dynamic shapes: what belongs together at any size.
func.func @case14(%x: tensor<?x32xf32>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = graph.add %x, %y : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %1 = graph.softmax %0 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  func.return %1 : tensor<?x32xf32>
}
// CHECK-LABEL: func.func @case14(
// CHECK:         fused_op.region(%x, %y)

// -----

// Shape arithmetic is one task of the control processor.
func.func @case15(%x: tensor<?x32xf32>, %i: tensor<1xi64>) -> tensor<2xi64> {
  %0 = graph.shape_of %x : (tensor<?x32xf32>) -> tensor<2xi64>
  %1 = graph.slice %0 starts [0] ends [1] axes [0] : (tensor<2xi64>) -> tensor<1xi64>
  %2 = graph.mul %1, %i : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %3 = graph.concat %2, %i axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  func.return %3 : tensor<2xi64>
}
// CHECK-LABEL: func.func @case15(
// CHECK:         %[[Y:.*]] = fused_op.region(%x, %i)
// CHECK:         func.return %[[Y]] :

// -----

// The shapes of two inputs: one task, before any launch.
func.func @case17(%x: tensor<?x32xf32>, %y: tensor<?x32xf32>) -> (tensor<2xi64>, tensor<2xi64>) {
  %0 = graph.shape_of %x : (tensor<?x32xf32>) -> tensor<2xi64>
  %1 = graph.shape_of %y : (tensor<?x32xf32>) -> tensor<2xi64>
  func.return %0, %1 : tensor<2xi64>, tensor<2xi64>
}
// CHECK-LABEL: func.func @case17(
// CHECK:         %[[A:.*]], %[[B:.*]] = fused_op.region(%x, %y)
// CHECK:         func.return %[[A]], %[[B]] :

// -----

// The shape of what a launch gives waits for it; that of the input does not.
func.func @case18(%x: tensor<?x32xf32>) -> (tensor<2xi64>, tensor<2xi64>) {
  %0 = graph.shape_of %x : (tensor<?x32xf32>) -> tensor<2xi64>
  %1 = graph.nonzero %x : (tensor<?x32xf32>) -> tensor<2x?xi64>
  %2 = graph.shape_of %1 : (tensor<2x?xi64>) -> tensor<2xi64>
  func.return %0, %2 : tensor<2xi64>, tensor<2xi64>
}
// CHECK-LABEL: func.func @case18(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The same of a flat view of the mask; a range is elementwise, its end a scalar.
func.func @case17(%m: tensor<2x64xi64>, %n: tensor<i64>, %x: tensor<1xf32>, %y: tensor<f32>) -> tensor<?xf32> {
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %0 = graph.cast %m to i1 : (tensor<2x64xi64>) -> tensor<2x64xi1>
  %1 = graph.reshape %0 shape [128] : (tensor<2x64xi1>) -> tensor<128xi1>
  %2 = graph.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %3 = graph.gather %1, %2 : (tensor<128xi1>, tensor<?xi64>) -> tensor<?xi1>
  %4 = graph.select %3, %x, %y : (tensor<?xi1>, tensor<1xf32>, tensor<f32>) -> tensor<?xf32>
  func.return %4 : tensor<?xf32>
}
// CHECK-LABEL: func.func @case17(
// CHECK:         %[[Y:.*]] = fused_op.region(
// CHECK:           graph.range
// CHECK:         func.return %[[Y]] :
