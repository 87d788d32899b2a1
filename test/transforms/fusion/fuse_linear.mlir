// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged}' | filecheck %s

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
// CHECK-NEXT:    %[[P:.*]] = graph.matmul %[[X0]], %[[W0]] :
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[P]], %[[B0]] :
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[S]] :
// CHECK-NEXT:    fused_op.yield %[[R]] :
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return %[[Y]] :

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
// The product has another user: it is a second result.
func.func @case3(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %0, %1 : tensor<8x32xf32>, tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         %[[P:.*]], %[[R:.*]] = fused_op.linear(%x, %w)
// CHECK:           fused_op.yield
// CHECK:         func.return %[[P]], %[[R]] :

// -----

// A product on its own is one launch as it is.
func.func @case4(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  func.return %0 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Bias, scale, residual.
func.func @case5(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %b = graph.constant #graph.weight<"b"> : tensor<32xf32>
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %2 = graph.mul %s, %1 : (tensor<f32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = graph.add %r, %2 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %3 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case5(
// CHECK:         %[[Y:.*]] = fused_op.linear(
// CHECK:           fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// What makes the product larger is not computed on its tile.
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

// A reshape in between is a view, the last one stays outside.
func.func @case7(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>) -> tensor<1x32x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %1 = graph.reshape %0 shape [2, 16, 32] : (tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %2 = graph.relu %1 : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %3 = graph.reshape %2 shape [1, 32, 32] : (tensor<2x16x32xf32>) -> tensor<1x32x32xf32>
  func.return %3 : tensor<1x32x32xf32>
}
// CHECK-LABEL: func.func @case7(
// CHECK:         %[[Y:.*]] = fused_op.linear(%x, %w) : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<2x16x32xf32> {
// CHECK:           graph.matmul
// CHECK-NEXT:      graph.reshape
// CHECK-NEXT:      graph.relu
// CHECK-NEXT:      fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    graph.reshape %[[Y]] shape

// -----

// Dynamic shapes: the bias and the activation join whatever the number of rows.
func.func @case8(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %1 = graph.relu %0 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  func.return %1 : tensor<?x32xf32>
}
// CHECK-LABEL: func.func @case8(
// CHECK:         fused_op.linear(%x, %w) : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>

// -----

// The user is in a branch, the product outside: nothing is fused.
func.func @case9(%c: tensor<i1>, %x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %x0: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.if %c : (tensor<i1>) -> tensor<8x32xf32> {
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

// -----

// A gated pair: two products of one input, one of them activated, multiplied (SwiGLU).
func.func @case10(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %v = graph.constant #graph.weight<"v"> : tensor<64x32xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %0 = graph.matmul %x, %v : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.silu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %3 = graph.mul %1, %2 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %3 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case10(
// CHECK:         %[[Y:.*]] = fused_op.linear(%x, %v, %w) : ({{.*}}) -> tensor<8x32xf32> {
// CHECK:           graph.matmul
// CHECK-NEXT:      graph.silu
// CHECK-NEXT:      graph.matmul
// CHECK-NEXT:      graph.mul
// CHECK-NEXT:      fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// One product split into gate and value (GEGLU).
func.func @case11(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1, %2 = graph.split %0 axis 1 : (tensor<8x64xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>)
  %3 = graph.gelu %2 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %4 = graph.mul %1, %3 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %4 : tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case11(
// CHECK:         %[[Y:.*]] = fused_op.linear(%x, %w) : ({{.*}}) -> tensor<8x32xf32> {
// CHECK:           fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// Query, key and value: one launch that stores the heads where attention reads them. Views of the
// input do not hide that it is one input.
func.func @case12(%x: tensor<1x8x64xf32>) -> (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) {
  %v = graph.constant #graph.weight<"v"> : tensor<64x64xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<64xf32>
  %0 = graph.reshape %x shape [8, 64] : (tensor<1x8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.matmul %0, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %2 = graph.add %1, %b : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %3 = graph.reshape %2 shape [1, 8, 4, 16] : (tensor<8x64xf32>) -> tensor<1x8x4x16xf32>
  %4 = graph.transpose %3 permutation [0, 2, 1, 3] : (tensor<1x8x4x16xf32>) -> tensor<1x4x8x16xf32>
  %5 = graph.matmul %x, %w : (tensor<1x8x64xf32>, tensor<64x64xf32>) -> tensor<1x8x64xf32>
  %6 = graph.reshape %5 shape [1, 8, 4, 16] : (tensor<1x8x64xf32>) -> tensor<1x8x4x16xf32>
  %7 = graph.transpose %6 permutation [0, 2, 1, 3] : (tensor<1x8x4x16xf32>) -> tensor<1x4x8x16xf32>
  func.return %4, %7 : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>
}
// CHECK-LABEL: func.func @case12(
// CHECK:         %[[Q:.*]], %[[K:.*]] = fused_op.linear(
// CHECK:           fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Q]], %[[K]] :

// -----

// Products of one input with computed values are no siblings.
func.func @case13(%x: tensor<8x64xf32>, %v: tensor<64x32xf32>, %w: tensor<64x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = graph.matmul %x, %v : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  func.return %0, %1 : tensor<8x32xf32>, tensor<8x32xf32>
}
// CHECK-LABEL: func.func @case13(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The second product depends on the first: together they would be a cycle.
func.func @case14(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %v = graph.constant #graph.weight<"v"> : tensor<64x64xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %0 = graph.matmul %x, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.matmul %0, %0 transpose_rhs true : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x8xf32>
  %2 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %3 = graph.matmul %1, %2 : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %3 : tensor<8x64xf32>
}
// CHECK-LABEL: func.func @case14(
// CHECK:         fused_op.linear(%x, %v, %w)
// CHECK:           fused_op.yield %{{.*}}, %{{.*}} :

// -----

// A residual that needs the product itself must not join: add would be inside and before.
func.func @case15(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1, %i = graph.top_k %0 k 64 : (tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xi64>)
  %2 = graph.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %2 : tensor<8x64xf32>
}
// CHECK-LABEL: func.func @case15(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// A function that the epilogue lacks.
func.func @case16(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.atan %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %1 : tensor<8x64xf32>
}
// CHECK-LABEL: func.func @case16(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// Softmax joins when a row of the product fits on the core.
func.func @case17(%q: tensor<4x64x32xf32>, %k: tensor<4x64x32xf32>, %m: tensor<64x64xf32>) -> tensor<4x64x64xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<4x64x32xf32>, tensor<4x64x32xf32>) -> tensor<4x64x64xf32>
  %1 = graph.add %0, %m : (tensor<4x64x64xf32>, tensor<64x64xf32>) -> tensor<4x64x64xf32>
  %2 = graph.softmax %1 : (tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  func.return %2 : tensor<4x64x64xf32>
}
// CHECK-LABEL: func.func @case17(
// CHECK:         %[[Y:.*]] = fused_op.linear(
// CHECK:           graph.softmax
// CHECK:         func.return %[[Y]] :

// -----

// A row of 65,536 scores does not fit: its largest one is not known before the last tile.
func.func @case18(%q: tensor<64x32xf32>, %k: tensor<65536x32xf32>) -> tensor<64x65536xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<64x32xf32>, tensor<65536x32xf32>) -> tensor<64x65536xf32>
  %1 = graph.softmax %0 : (tensor<64x65536xf32>) -> tensor<64x65536xf32>
  func.return %1 : tensor<64x65536xf32>
}
// CHECK-LABEL: func.func @case18(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// The residual sum could join the norm behind it. Here it saves more where it is made.
func.func @case19(%x: tensor<128x768xf32>, %w: tensor<768x768xf32>, %r: tensor<128x768xf32>, %s: tensor<768xf32>) -> tensor<128x768xf32> {
  %0 = graph.matmul %x, %w : (tensor<128x768xf32>, tensor<768x768xf32>) -> tensor<128x768xf32>
  %1 = graph.add %0, %r : (tensor<128x768xf32>, tensor<128x768xf32>) -> tensor<128x768xf32>
  %2 = graph.rms_norm %1, %s : (tensor<128x768xf32>, tensor<768xf32>) -> tensor<128x768xf32>
  func.return %2 : tensor<128x768xf32>
}
// CHECK-LABEL: func.func @case19(
// CHECK:         %[[S:.*]] = fused_op.linear(%x, %w, %r)
// CHECK:         graph.rms_norm %[[S]],

// -----

// The product is a result as it is; widened it is needed by the norm only, which widens it itself.
func.func @case20(%x: tensor<256x4096xf16>, %w: tensor<4096x4096xf16>, %s: tensor<4096xf32>) -> (tensor<256x4096xf16>, tensor<256x4096xf32>) {
  %0 = graph.matmul %x, %w : (tensor<256x4096xf16>, tensor<4096x4096xf16>) -> tensor<256x4096xf16>
  %1 = graph.cast %0 to f32 : (tensor<256x4096xf16>) -> tensor<256x4096xf32>
  %2 = graph.rms_norm %1, %s : (tensor<256x4096xf32>, tensor<4096xf32>) -> tensor<256x4096xf32>
  func.return %0, %2 : tensor<256x4096xf16>, tensor<256x4096xf32>
}
// CHECK-LABEL: func.func @case20(
// CHECK-NOT:     fused_op
// CHECK:         func.return

// -----

// No tile program has rows of a product beside each other in parts of 8: they are moved apart,
// although a plain loop over so few elements would be faster.
func.func @case21(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x2x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %1 = graph.reshape %0 shape [2, 8, 32] : (tensor<16x32xf32>) -> tensor<2x8x32xf32>
  %2 = graph.transpose %1 permutation [1, 0, 2] : (tensor<2x8x32xf32>) -> tensor<8x2x32xf32>
  func.return %2 : tensor<8x2x32xf32>
}
// CHECK-LABEL: func.func @case21(
// CHECK-NOT:     fused_op
// CHECK:         func.return
