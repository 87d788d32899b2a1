// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910b2}' | filecheck %s

// Two ops with one table, of two products: what the first one makes is under way while the second
// product is computed. In one launch it would wait for that.
// CHECK-LABEL: func.func @sent(
// CHECK-NOT: fused_op.region
// CHECK: return
graph.mesh @mesh ["tp"=4]
func.func @sent(%x: tensor<512x4096xf16>, %t: tensor<512x4096xf16>) -> (tensor<2048x4096xf16>, tensor<512x4096xf16>) {
  %v = graph.constant #graph.weight<"v"> : tensor<4096x4096xf16>
  %w = graph.constant #graph.weight<"w"> : tensor<4096x4096xf16>
  %0 = graph.matmul %x, %v : (tensor<512x4096xf16>, tensor<4096x4096xf16>) -> tensor<512x4096xf16>
  %1 = graph.mul %0, %t : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  %2 = graph.all_gather %1 dim 0 over <"tp"=4> : (tensor<512x4096xf16>) -> tensor<2048x4096xf16>
  %3 = graph.matmul %x, %w : (tensor<512x4096xf16>, tensor<4096x4096xf16>) -> tensor<512x4096xf16>
  %4 = graph.mul %3, %t : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  return %2, %4 : tensor<2048x4096xf16>, tensor<512x4096xf16>
}

// -----

// Of one product nothing is left to hide behind.
// CHECK-LABEL: func.func @one_product(
// CHECK: fused_op.region(
// CHECK: graph.all_gather
graph.mesh @mesh ["tp"=4]
func.func @one_product(%x: tensor<512x4096xf16>, %s: tensor<512x4096xf16>, %t: tensor<512x4096xf16>) -> (tensor<2048x4096xf16>, tensor<512x4096xf16>) {
  %v = graph.constant #graph.weight<"v"> : tensor<4096x4096xf16>
  %0 = graph.matmul %x, %v : (tensor<512x4096xf16>, tensor<4096x4096xf16>) -> tensor<512x4096xf16>
  %1 = graph.mul %0, %s : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  %2 = graph.all_gather %1 dim 0 over <"tp"=4> : (tensor<512x4096xf16>) -> tensor<2048x4096xf16>
  %3 = graph.mul %0, %t : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  return %2, %3 : tensor<2048x4096xf16>, tensor<512x4096xf16>
}

// -----

// Nothing is sent.
// CHECK-LABEL: func.func @alone(
// CHECK: fused_op.region(
func.func @alone(%x: tensor<512x4096xf16>, %t: tensor<512x4096xf16>) -> (tensor<512x4096xf16>, tensor<512x4096xf16>) {
  %v = graph.constant #graph.weight<"v"> : tensor<4096x4096xf16>
  %w = graph.constant #graph.weight<"w"> : tensor<4096x4096xf16>
  %0 = graph.matmul %x, %v : (tensor<512x4096xf16>, tensor<4096x4096xf16>) -> tensor<512x4096xf16>
  %1 = graph.mul %0, %t : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  %2 = graph.matmul %x, %w : (tensor<512x4096xf16>, tensor<4096x4096xf16>) -> tensor<512x4096xf16>
  %3 = graph.mul %2, %t : (tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<512x4096xf16>
  return %1, %3 : tensor<512x4096xf16>, tensor<512x4096xf16>
}
