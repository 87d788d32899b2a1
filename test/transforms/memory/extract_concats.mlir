// RUN: ge-opt %s --split-input-file -p extract-concats | filecheck %s

// A cache that the fused op begins with and gives comes before it.
func.func @main(%q: tensor<1x4x1x16xf32>, %past: tensor<1x4x7x16xf32>, %x: tensor<1x4x1x16xf32>) -> (tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>) {
  %new = graph.exp %x : (tensor<1x4x1x16xf32>) -> tensor<1x4x1x16xf32>
  %0, %1 = fused_op.flash_attention(%q, %past, %new) : (tensor<1x4x1x16xf32>, tensor<1x4x7x16xf32>, tensor<1x4x1x16xf32>) -> (tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>) {
  ^bb0(%2: tensor<1x4x1x16xf32>, %3: tensor<1x4x7x16xf32>, %4: tensor<1x4x1x16xf32>):
    %5 = graph.concat %3, %4 axis 2 : (tensor<1x4x7x16xf32>, tensor<1x4x1x16xf32>) -> tensor<1x4x8x16xf32>
    %6 = graph.attention %2, %5, %5 : (tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x1x16xf32>
    fused_op.yield %6, %5 : tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>
  }
  func.return %0, %1 : tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>
}
// CHECK:       [[J:%.*]] = graph.concat %past, %new axis 2 :
// CHECK-NEXT:  [[Y:%.*]] = fused_op.flash_attention(%q, [[J]]) : (tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x1x16xf32> {
// CHECK-NOT:   graph.concat
// CHECK:       func.return [[Y]], [[J]] :

// -----

// It stays where it is no result, and where an operand is used elsewhere.
func.func @main(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<4x16xf32>) {
  %c = graph.exp %a : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %d = graph.tanh %b : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = fused_op.region(%c, %d) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%2: tensor<4x16xf32>, %3: tensor<4x16xf32>):
    %4 = graph.concat %2, %3 axis 0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %5 = graph.softmax %4 : (tensor<8x16xf32>) -> tensor<8x16xf32>
    fused_op.yield %5 : tensor<8x16xf32>
  }
  %e = graph.neg %a : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %f = graph.abs %b : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %6, %7 = fused_op.region(%e, %f) : (tensor<4x16xf32>, tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  ^bb0(%2: tensor<4x16xf32>, %3: tensor<4x16xf32>):
    %4 = graph.concat %2, %3 axis 0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %5 = graph.softmax %4 : (tensor<8x16xf32>) -> tensor<8x16xf32>
    fused_op.yield %5, %4 : tensor<8x16xf32>, tensor<8x16xf32>
  }
  %8 = graph.neg %f : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %0, %6, %7, %8 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<4x16xf32>
}
// CHECK-NOT:   graph.concat
// CHECK:       fused_op.region(%c, %d)
// CHECK:       graph.concat
// CHECK:       }
// CHECK-NOT:   graph.concat
// CHECK:       fused_op.region(%e, %f)
// CHECK:       graph.concat
// CHECK:       func.return
