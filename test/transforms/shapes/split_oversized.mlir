// RUN: ge-opt %s --split-input-file -p split-oversized | filecheck %s

// A tile of what is transposed and broadcast takes more rows than a core holds.
func.func @oversized(%x: tensor<2x4x128x128xf32>, %p: tensor<128x128xi64>, %q: tensor<128x128xi64>, %t: tensor<16x4xf32>) -> tensor<2x4x128x128xf32> {
  %y = fused_op.region(%x, %p, %q, %t) : (tensor<2x4x128x128xf32>, tensor<128x128xi64>, tensor<128x128xi64>, tensor<16x4xf32>) -> tensor<2x4x128x128xf32> {
  ^bb0(%0: tensor<2x4x128x128xf32>, %1: tensor<128x128xi64>, %2: tensor<128x128xi64>, %3: tensor<16x4xf32>):
    %i = graph.minimum %1, %2 : (tensor<128x128xi64>, tensor<128x128xi64>) -> tensor<128x128xi64>
    %g = graph.gather %3, %i : (tensor<16x4xf32>, tensor<128x128xi64>) -> tensor<128x128x4xf32>
    %b = graph.transpose %g permutation [2, 0, 1] : tensor<128x128x4xf32> -> tensor<4x128x128xf32>
    %s = graph.add %0, %b : (tensor<2x4x128x128xf32>, tensor<4x128x128xf32>) -> tensor<2x4x128x128xf32>
    fused_op.yield %s : tensor<2x4x128x128xf32>
  }
  func.return %y : tensor<2x4x128x128xf32>
}
// CHECK-LABEL: func.func @oversized(
// CHECK-NEXT:    %[[B:.*]] = fused_op.region(%p, %q, %t) {{.*}} -> tensor<4x128x128xf32> {
// CHECK:           graph.minimum
// CHECK-NEXT:      graph.gather
// CHECK-NEXT:      %[[T:.*]] = graph.transpose
// CHECK-NEXT:      fused_op.yield %[[T]]
// CHECK:         %[[Y:.*]] = graph.add %x, %[[B]]
// CHECK-NEXT:    func.return %[[Y]]

// -----

// What fits stays: without a broadcast each core makes the rows of its own tiles.
func.func @fits(%x: tensor<4x128x128xf32>, %p: tensor<128x128xi64>, %q: tensor<128x128xi64>, %t: tensor<16x4xf32>) -> tensor<4x128x128xf32> {
  %y = fused_op.region(%x, %p, %q, %t) : (tensor<4x128x128xf32>, tensor<128x128xi64>, tensor<128x128xi64>, tensor<16x4xf32>) -> tensor<4x128x128xf32> {
  ^bb0(%0: tensor<4x128x128xf32>, %1: tensor<128x128xi64>, %2: tensor<128x128xi64>, %3: tensor<16x4xf32>):
    %i = graph.minimum %1, %2 : (tensor<128x128xi64>, tensor<128x128xi64>) -> tensor<128x128xi64>
    %g = graph.gather %3, %i : (tensor<16x4xf32>, tensor<128x128xi64>) -> tensor<128x128x4xf32>
    %b = graph.transpose %g permutation [2, 0, 1] : tensor<128x128x4xf32> -> tensor<4x128x128xf32>
    %s = graph.add %0, %b : (tensor<4x128x128xf32>, tensor<4x128x128xf32>) -> tensor<4x128x128xf32>
    fused_op.yield %s : tensor<4x128x128xf32>
  }
  func.return %y : tensor<4x128x128xf32>
}
// CHECK-LABEL: func.func @fits(
// CHECK-NEXT:    fused_op.region(%x, %p, %q, %t)
// CHECK-NOT:     graph.add %x

// -----

// Of unknown sizes nothing is known.
func.func @unknown(%x: tensor<2x4x?x?xf32>, %p: tensor<?x?xi64>, %t: tensor<16x4xf32>) -> tensor<2x4x?x?xf32> {
  %y = fused_op.region(%x, %p, %t) : (tensor<2x4x?x?xf32>, tensor<?x?xi64>, tensor<16x4xf32>) -> tensor<2x4x?x?xf32> {
  ^bb0(%0: tensor<2x4x?x?xf32>, %1: tensor<?x?xi64>, %3: tensor<16x4xf32>):
    %g = graph.gather %3, %1 : (tensor<16x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>
    %b = graph.transpose %g permutation [2, 0, 1] : tensor<?x?x4xf32> -> tensor<4x?x?xf32>
    %s = graph.add %0, %b : (tensor<2x4x?x?xf32>, tensor<4x?x?xf32>) -> tensor<2x4x?x?xf32>
    fused_op.yield %s : tensor<2x4x?x?xf32>
  }
  func.return %y : tensor<2x4x?x?xf32>
}
// CHECK-LABEL: func.func @unknown(
// CHECK-NEXT:    fused_op.region(%x, %p, %t)

// -----

// A value that another part, and the function, use is a result of its part.
func.func @used(%x: tensor<2x4x128x128xf32>, %p: tensor<128x128xi64>, %q: tensor<128x128xi64>, %t: tensor<16x4xf32>) -> (tensor<2x4x128x128xf32>, tensor<128x128xi64>) {
  %y, %j = fused_op.region(%x, %p, %q, %t) : (tensor<2x4x128x128xf32>, tensor<128x128xi64>, tensor<128x128xi64>, tensor<16x4xf32>) -> (tensor<2x4x128x128xf32>, tensor<128x128xi64>) {
  ^bb0(%0: tensor<2x4x128x128xf32>, %1: tensor<128x128xi64>, %2: tensor<128x128xi64>, %3: tensor<16x4xf32>):
    %i = graph.minimum %1, %2 : (tensor<128x128xi64>, tensor<128x128xi64>) -> tensor<128x128xi64>
    %g = graph.gather %3, %i : (tensor<16x4xf32>, tensor<128x128xi64>) -> tensor<128x128x4xf32>
    %b = graph.transpose %g permutation [2, 0, 1] : tensor<128x128x4xf32> -> tensor<4x128x128xf32>
    %s = graph.add %0, %b : (tensor<2x4x128x128xf32>, tensor<4x128x128xf32>) -> tensor<2x4x128x128xf32>
    fused_op.yield %s, %i : tensor<2x4x128x128xf32>, tensor<128x128xi64>
  }
  func.return %y, %j : tensor<2x4x128x128xf32>, tensor<128x128xi64>
}
// CHECK-LABEL: func.func @used(
// CHECK-NEXT:    %[[I:.*]], %[[B:.*]] = fused_op.region(%p, %q, %t) {{.*}} -> (tensor<128x128xi64>, tensor<4x128x128xf32>) {
// CHECK:         %[[Y:.*]] = graph.add %x, %[[B]]
// CHECK-NEXT:    func.return %[[Y]], %[[I]]
