// RUN: ge-opt %s -p simplify-movement,prepare-weights,eliminate-dead-code | filecheck %s

// A rule tries the product without the broadcast, but a product is of matrices, not of a vector.
// What it tried keeps nothing alive.
func.func @main(%x: tensor<?x8xf16>) -> tensor<1x8xf16> {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf16>
  %0 = graph.broadcast_to %w shape [1, 4] : tensor<4xf16> -> tensor<1x4xf16>
  %1 = graph.matmul %0, %x : (tensor<1x4xf16>, tensor<?x8xf16>) -> tensor<1x8xf16>
  func.return %1 : tensor<1x8xf16>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:  %[[W:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<1x4xf16>
// CHECK-NEXT:  graph.matmul %[[W]], %x
