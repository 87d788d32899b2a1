// RUN: ge-opt %s --split-input-file --verify-diagnostics --load-plugin %S/Inputs/siblings.py -p fuse_custom_attention | filecheck %s
// RUN: ge-opt %s --split-input-file --load-plugin %S/Inputs/after_norm.py -p fuse_projections 2>&1 | filecheck %s --check-prefix=NORM

// Operands that are weights and computed ones; the inputs are those of the matmuls, each once.
func.func @fires(%x: tensor<8x64xf32>, %u: tensor<64x32xf32>) -> tensor<8x96xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %e = graph.exp %u : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.matmul %x, %e : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %x, %u : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  // expected-remark@+1 {{fuse_custom_attention applied}}
  %3 = graph.concat %0, %1, %2 axis 1 : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x96xf32>
  func.return %3 : tensor<8x96xf32>
}
// CHECK-LABEL: func.func @fires(
// CHECK:         %[[E:.*]] = graph.exp %u :
// CHECK-NEXT:    %[[Y:.*]] = fused_op.custom "CustomGroupedGemm"(%x, %w, %[[E]], %u)
// CHECK-COUNT-3:   graph.matmul
// CHECK:           graph.concat
// CHECK:         func.return %[[Y]] :

// -----

// A concat of other things too: those are not siblings, and the miss says how far it went.
func.func @two_of_three(%x: tensor<8x8xf32>, %u: tensor<8x8xf32>) -> tensor<8x24xf32> {
  %0 = graph.matmul %x, %u : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %u, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-warning@+2 {{fuse_custom_attention: nothing matches MatMul, MatMul, MatMul, Concat: at the nearest miss 3 of 4 ops match, then 2 of its operands fit as graph.matmul, of 3}}
  // expected-remark@+1 {{fuse_custom_attention missed: 2 of its operands fit as graph.matmul, of 3}}
  %2 = graph.concat %0, %x, %1 axis 1 : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x24xf32>
  func.return %2 : tensor<8x24xf32>
}
// CHECK-LABEL: func.func @two_of_three(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// One of them is used elsewhere.
func.func @used_outside(%x: tensor<8x8xf32>, %u: tensor<8x8xf32>) -> (tensor<8x24xf32>, tensor<8x8xf32>) {
  %0 = graph.matmul %x, %u : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %u, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-warning@+1 {{the result of graph.matmul is used elsewhere too}}
  %2 = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-remark@+1 {{the result of graph.matmul is used elsewhere too}}
  %3 = graph.concat %0, %1, %2 axis 1 : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x24xf32>
  func.return %3, %2 : tensor<8x24xf32>, tensor<8x8xf32>
}
// CHECK-LABEL: func.func @used_outside(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// No siblings, but products of products: a chain, as before.
func.func @chain(%x: tensor<8x8xf32>) -> tensor<8x16xf32> {
  %0 = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.matmul %x, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-remark@+1 {{fuse_custom_attention applied}}
  %3 = graph.concat %2, %x axis 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>
  func.return %3 : tensor<8x16xf32>
}
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    fused_op.custom "CustomGroupedGemm"(%x)

// -----

// No op of a type: the warning says which.
// expected-warning@+1 {{fuse_custom_attention: nothing matches MatMul, MatMul, MatMul, Concat: there is no graph.matmul and no graph.concat}}
func.func @absent(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %0 : tensor<8x8xf32>
}

// -----

// What all siblings read is the op before them.
func.func @shared_operand(%x: tensor<8x8xf32>) -> tensor<8x16xf32> {
  %0 = graph.softmax %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.matmul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-remark@+2 {{missed}}
  // expected-warning@+1 {{nothing matches}}
  %3 = graph.concat %1, %2 axis 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>
  func.return %3 : tensor<8x16xf32>
}
// NORM-LABEL: func.func @shared_operand(
// NORM-NEXT:    fused_op.custom "Projections"(%x)
// NORM-NOT:     graph.softmax %x

// -----

func.func @not_of_all(%x: tensor<8x8xf32>) -> tensor<8x16xf32> {
  %0 = graph.softmax %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.matmul %0, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-remark@+2 {{missed}}
  // expected-warning@+1 {{nothing matches}}
  %3 = graph.concat %1, %2 axis 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>
  func.return %3 : tensor<8x16xf32>
}
// NORM:        3 of 4 ops match, then they do not all read the same op
// NORM:        func.func @not_of_all(
// NORM-NOT:     fused_op
// NORM:         func.return
