// RUN: ge-opt %s -p inline-vectors,eliminate-dead-code | filecheck %s

// Without a payload at hand weights stay for `@prepare`: test/unit/test_inline_vectors.py has one.
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %b = graph.constant #graph.weight<"b"> : tensor<4xf32>
  %0 = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %x, %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
// CHECK:      %b = graph.constant #graph.weight<"b"> : tensor<4xf32>
// CHECK-NEXT: %0 = graph.neg %b :
// CHECK-NEXT: %1 = graph.add %x, %0 :
