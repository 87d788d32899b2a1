// Each rule can be switched off by its name; the others stay.
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged},fuse-conv{target=910_merged},fuse-attention{target=910_merged},fuse-region{target=910_merged}' | filecheck %s --check-prefix=ALL
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=merge-siblings}' | filecheck %s --check-prefix=SIBLINGS
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-gate}' | filecheck %s --check-prefix=GATE
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-bias,fuse-residual}' | filecheck %s --check-prefix=ADD
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-activation}' | filecheck %s --check-prefix=ACTIVATION
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-store}' | filecheck %s --check-prefix=STORE
// RUN: ge-opt %s --split-input-file -p 'fuse-linear{target=910_merged disable=fuse-softmax}' | filecheck %s --check-prefix=SOFTMAX
// RUN: ge-opt %s --split-input-file -p 'fuse-attention{target=910_merged disable=fuse-loads}' | filecheck %s --check-prefix=LOADS
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged disable=fuse-users}' | filecheck %s --check-prefix=USERS
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged disable=fuse-siblings}' | filecheck %s --check-prefix=ALONE
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged disable=fuse-shape-arithmetic}' | filecheck %s --check-prefix=SHAPES
// RUN: ge-opt --list-rules | filecheck %s --check-prefix=LIST

// LIST-DAG: {{^}}merge-siblings
// LIST-DAG: {{^}}fuse-gate
// LIST-DAG: {{^}}find-silu

func.func @gated(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %v = graph.constant #graph.weight<"v"> : tensor<64x32xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %0 = graph.matmul %x, %v : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.silu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %3 = graph.mul %1, %2 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %3 : tensor<8x32xf32>
}
// ALL-LABEL:        func.func @gated(
// ALL:                fused_op.linear(%x, %v, %w) : {{.*}} -> tensor<8x32xf32>
// SIBLINGS-LABEL:   func.func @gated(
// SIBLINGS:           graph.matmul %x, %w :
// SIBLINGS:           fused_op.linear(%x, %v,
// GATE-LABEL:       func.func @gated(
// GATE:               %[[A:.*]], %[[B:.*]] = fused_op.linear(%x, %v, %w)
// GATE:               graph.mul %[[A]], %[[B]] :
// ACTIVATION-LABEL: func.func @gated(
// ACTIVATION:         %[[A:.*]], %[[B:.*]] = fused_op.linear(%x, %v, %w)
// ACTIVATION:         graph.silu %[[A]] :

// -----

func.func @sums(%x: tensor<32x64xf32>, %r: tensor<32x64xf32>) -> tensor<4x32x16xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<64xf32>
  %0 = graph.matmul %x, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %1 = graph.add %0, %b : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
  %2 = graph.add %1, %r : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %3 = graph.reshape %2 shape [32, 4, 16] : (tensor<32x64xf32>) -> tensor<32x4x16xf32>
  %4 = graph.transpose %3 permutation [1, 0, 2] : (tensor<32x4x16xf32>) -> tensor<4x32x16xf32>
  func.return %4 : tensor<4x32x16xf32>
}
// ALL-LABEL:   func.func @sums(
// ALL:           fused_op.linear(%x, %w, %b, %r) : {{.*}} -> tensor<4x32x16xf32>
// ADD-LABEL:   func.func @sums(
// ADD-NOT:       fused_op
// ADD:           func.return
// STORE-LABEL: func.func @sums(
// STORE:         fused_op.linear(%x, %w, %b, %r) : {{.*}} -> tensor<32x64xf32>
// STORE:         graph.transpose

// -----

func.func @scores(%q: tensor<64x32xf32>, %k: tensor<32x64xf32>) -> tensor<64x64xf32> {
  %0 = graph.matmul %q, %k : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %1 = graph.softmax %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %1 : tensor<64x64xf32>
}
// ALL-LABEL:     func.func @scores(
// ALL:             fused_op.linear(%q, %k)
// SOFTMAX-LABEL: func.func @scores(
// SOFTMAX-NOT:     fused_op
// SOFTMAX:         func.return

// -----

func.func @pooled(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.relu %0 : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.pool max %1 kernel [2, 2] strides [2, 2] : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  func.return %2 : tensor<1x4x4x4xf32>
}
// ALL-LABEL:  func.func @pooled(
// ALL:          %[[Y:.*]] = fused_op.conv(%x, %w) : {{.*}} -> tensor<1x4x8x8xf32>
// ALL:          graph.pool max %[[Y]] kernel

// -----

func.func @loaded(%q: tensor<1x8x2x16xf32>, %k: tensor<1x2x8x16xf32>, %v: tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32> {
  %0 = graph.transpose %q permutation [0, 2, 1, 3] : (tensor<1x8x2x16xf32>) -> tensor<1x2x8x16xf32>
  %1 = graph.attention %0, %k, %v : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32>
  func.return %1 : tensor<1x2x8x16xf32>
}
// ALL-LABEL:   func.func @loaded(
// ALL-NEXT:      fused_op.flash_attention(%q, %k, %v)
// LOADS-LABEL: func.func @loaded(
// LOADS-NEXT:    graph.transpose %q permutation

// -----

func.func @vector(%x: tensor<1024x32xf32>) -> (tensor<1024x32xf32>, tensor<1024x32xf32>) {
  %0 = graph.cos %x : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
  %1 = graph.neg %0 : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
  %2 = graph.sin %x : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
  func.return %1, %2 : tensor<1024x32xf32>, tensor<1024x32xf32>
}
// ALL-LABEL:   func.func @vector(
// ALL:           %{{.*}}, %{{.*}} = fused_op.region(%x)
// USERS-LABEL: func.func @vector(
// USERS:         %[[C:.*]], %{{.*}} = fused_op.region(%x)
// USERS:         graph.neg %[[C]] :
// ALONE-LABEL: func.func @vector(
// ALONE:         fused_op.region(%x) : (tensor<1024x32xf32>) -> tensor<1024x32xf32>
// ALONE:         graph.sin %x :

// -----

func.func @shapes(%x: tensor<?x32xf32>, %i: tensor<1xi64>) -> tensor<1xi64> {
  %0 = graph.shape_of %x : (tensor<?x32xf32>) -> tensor<2xi64>
  %1 = graph.slice %0 starts [0] ends [1] axes [0] : (tensor<2xi64>) -> tensor<1xi64>
  %2 = graph.mul %1, %i : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  func.return %2 : tensor<1xi64>
}
// ALL-LABEL:    func.func @shapes(
// ALL:            fused_op.region(%x, %i)
// SHAPES-LABEL: func.func @shapes(
// SHAPES-NOT:     fused_op
// SHAPES:         func.return
