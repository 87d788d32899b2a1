// RUN: ge-opt %s --view-op-graph 2>&1 -o /dev/null | filecheck %s
// RUN: ge-opt %s --fuse-linear=target=910_merged --view-op-graph=file=- -o /dev/null | filecheck %s --check-prefix=FUSED
// RUN: ge-opt %s --view-op-graph | filecheck %s --check-prefix=MODULE

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = graph.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.add %1, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}
// CHECK:      digraph "graph" {
// CHECK:      n0 [label="input\nx\n4x8xf32", fillcolor=lightgrey];
// CHECK:      n2 [label="graph.matmul\n4x8xf32", fillcolor=aliceblue];
// CHECK:      n0 -> n2 [label="4x8xf32"];
// CHECK-NEXT: n1 -> n2 [label="8x8xf32"];
// CHECK-NEXT: n2 -> n3 [label="4x8xf32"];
// CHECK-NEXT: n3 -> n4 [label="4x8xf32"];
// CHECK-NEXT: n4 -> n5 [
// CHECK-NEXT: }

// The body of a fused op is a cluster: what leaves it comes from its last op.
// FUSED:      digraph "fused" {
// FUSED:      subgraph cluster_2 {
// FUSED-NEXT:   label="fused_op.linear"
// FUSED-NEXT:   n3 [label="graph.matmul
// FUSED-NEXT:   n4 [label="graph.relu
// FUSED-NEXT:   n5 [label="graph.add
// FUSED:      n0 -> n3 [
// FUSED:      n5 -> n6 [

// MODULE: func.func @main(
