// RUN: ge-opt %s --split-input-file -p 'annotate-shardings{mesh="dp=2,tp=4" rules="{\"x\": [[\"dp\"]], \"y\": [[], [\"tp:(1)2\", \"?\"]], \"w_*\": [[], [\"tp\"]], \"h\": [[\"dp\"], [\"tp\"]]}"}' | filecheck %s

// Inputs and outputs get attributes, weights and other values an op that all users read. Dimensions
// that a rule leaves out are not cut.

// CHECK:      graph.mesh @mesh ["dp"=2, "tp"=4]
// CHECK-NEXT: func.func @main(%x: tensor<8x16xf32> {graph.name = "x",
// CHECK-SAME:   graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>})
// CHECK-SAME:   graph.sharding = #graph.sharding<@mesh, [{}, {"tp":(1)2, ?}]>})
// CHECK:      [[W:%.*]] = graph.constant #graph.weight<"w_up">
// CHECK-NEXT: [[S:%.*]] = graph.shard [[W]] sharding <@mesh, [{}, {"tp"}]>
// CHECK-NEXT: [[H:%.*]] = graph.matmul %x, [[S]]
// CHECK-NEXT: [[T:%.*]] = graph.shard [[H]] sharding <@mesh, [{"dp"}, {"tp"}]>
// CHECK-NEXT: [[E:%.*]] = graph.exp [[T]]
// CHECK-NEXT: graph.add [[E]], [[T]]
func.func @main(%x: tensor<8x16xf32> {graph.name = "x"}) -> (tensor<8x32xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w_up"> : tensor<16x32xf32>
  %h = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %0 = graph.exp %h : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %h : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}

// -----

// What stands there already, and is the same, stays as it is. 7 rows are cut inside, not at the border.

// CHECK:      graph.mesh @mesh ["dp"=2, "tp"=4]
// CHECK-NOT:  graph.mesh
// CHECK:      func.func @main(%x: tensor<7x16xf32> {graph.name = "x2"},
// CHECK:      graph.constant #graph.weight<"w_1">
// CHECK-NEXT: graph.shard
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.shard %{{.*}} sharding <@mesh, [{"dp"}, {"tp":(1)4}]>
// CHECK-NEXT: graph.neg
graph.mesh @mesh ["dp"=2, "tp"=4]
func.func @main(%x: tensor<7x16xf32> {graph.name = "x2"}, %z: tensor<8xf32> {graph.name = "x"})
    -> (tensor<7x16xf32> {graph.name = "y2"}, tensor<8x8xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w_1"> : tensor<8x8xf32>
  %h = graph.exp %x : (tensor<7x16xf32>) -> tensor<7x16xf32>
  %0 = graph.shard %h sharding <@mesh, [{"dp"}, {"tp":(1)4}]> : (tensor<7x16xf32>) -> tensor<7x16xf32>
  %1 = graph.neg %z : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.add %w, %1 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  func.return %0, %2 : tensor<7x16xf32>, tensor<8x8xf32>
}
