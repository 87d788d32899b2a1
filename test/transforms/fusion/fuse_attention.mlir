// RUN: ge-opt %s --split-input-file -p 'fuse-attention{target=910_merged}' | filecheck %s

// Attention alone: the algorithm is another one.
func.func @case1(%q: tensor<1x2x8x16xf32>, %k: tensor<1x2x8x16xf32>, %v: tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32> {
  %0 = graph.attention %q, %k, %v : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32>
  func.return %0 : tensor<1x2x8x16xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:         fused_op.flash_attention(%q, %k, %v)
// CHECK:           graph.attention
// CHECK-NEXT:      fused_op.yield

// -----

// A KV cache: past and new keys are read where they are, the longer cache is written on the way.
// No program has the transposition behind them.
func.func @case2(%q: tensor<1x2x1x16xf32>, %pk: tensor<1x2x7x16xf32>, %k: tensor<1x2x1x16xf32>, %pv: tensor<1x2x7x16xf32>, %v: tensor<1x2x1x16xf32>) -> (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x32xf32>) {
  %0 = graph.concat %pk, %k axis 2 : (tensor<1x2x7x16xf32>, tensor<1x2x1x16xf32>) -> tensor<1x2x8x16xf32>
  %1 = graph.concat %pv, %v axis 2 : (tensor<1x2x7x16xf32>, tensor<1x2x1x16xf32>) -> tensor<1x2x8x16xf32>
  %2 = graph.attention %q, %0, %1 : (tensor<1x2x1x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x1x16xf32>
  %3 = graph.transpose %2 permutation [0, 2, 1, 3] : (tensor<1x2x1x16xf32>) -> tensor<1x1x2x16xf32>
  %4 = graph.reshape %3 shape [1, 1, 32] : (tensor<1x1x2x16xf32>) -> tensor<1x1x32xf32>
  func.return %0, %1, %4 : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x1x32xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         %[[K:.*]], %[[V:.*]], %[[A:.*]] = fused_op.flash_attention(
// CHECK-DAG:       graph.concat
// CHECK-DAG:       graph.concat
// CHECK:           graph.attention
// CHECK-NEXT:      fused_op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[A]] permutation
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[T]] shape
// CHECK-NEXT:    func.return %[[K]], %[[V]], %[[R]] :

// -----

// Many queries: each tile of them loads the keys again, so what is computed on keys stays out;
// a cast is part of loading.
func.func @case3(%q: tensor<1x2x1024x16xf32>, %k: tensor<1x2x1024x16xf32>, %v: tensor<1x2x1024x16xf16>) -> tensor<1x2x1024x16xf32> {
  %0 = graph.tanh %q : (tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  %1 = graph.tanh %k : (tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  %2 = graph.cast %v to f32 : (tensor<1x2x1024x16xf16>) -> tensor<1x2x1024x16xf32>
  %3 = graph.attention %0, %1, %2 : (tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  func.return %3 : tensor<1x2x1024x16xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         %[[K:.*]] = graph.tanh %k :
// CHECK-NEXT:    fused_op.flash_attention(%q, %v, %[[K]])

// -----

// Dynamic shapes.
func.func @case4(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %v: tensor<?x2x?x16xf32>) -> tensor<?x?x2x16xf32> {
  %0 = graph.attention %q, %k, %v : (tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>) -> tensor<?x2x?x16xf32>
  %1 = graph.transpose %0 permutation [0, 2, 1, 3] : (tensor<?x2x?x16xf32>) -> tensor<?x?x2x16xf32>
  func.return %1 : tensor<?x?x2x16xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK:         fused_op.flash_attention(%q, %k, %v)
// CHECK:           graph.transpose
