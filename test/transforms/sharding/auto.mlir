// RUN: ge-opt %s -split-input-file -p 'partition-spmd{auto=true}' --remarks 2>&1 | filecheck %s
// RUN: ge-opt %s -split-input-file -p 'partition-spmd{auto=true memory_limit=300000000}' | filecheck %s --check-prefix=SMALL

// Of few rows the weights take longest to read: each device reads a part of them, and sums are added.
// CHECK: shard-auto applied: shard auto: weights along tp: {{.*}} 32.0 MiB of parameters
// CHECK-NEXT: 1 x layers.*.up [4096, 16384] [{}, {"tp":(1)8}]
// CHECK-NEXT: 1 x layers.*.down [16384, 4096] [{"tp":(1)8}, {}]
// CHECK-NEXT: 1 x all_reduce along tp of 32.0 KiB: {{.*}} us
// CHECK-NEXT: next best: nothing along tp: {{.*}} 256.0 MiB of parameters
// CHECK: graph.matmul %x, {{.*}} -> tensor<4x2048xf16>
// CHECK: graph.all_reduce sum
graph.mesh @mesh ["tp"=8]
func.func @main(%x: tensor<4x4096xf16>) -> (tensor<4x4096xf16> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>}) {
  %up = graph.constant #graph.weight<"layers.0.up"> : tensor<4096x16384xf16>
  %down = graph.constant #graph.weight<"layers.0.down"> : tensor<16384x4096xf16>
  %0 = graph.matmul %x, %up : (tensor<4x4096xf16>, tensor<4096x16384xf16>) -> tensor<4x16384xf16>
  %1 = graph.relu %0 : (tensor<4x16384xf16>) -> tensor<4x16384xf16>
  %2 = graph.matmul %1, %down : (tensor<4x16384xf16>, tensor<16384x4096xf16>) -> tensor<4x4096xf16>
  func.return %2 : tensor<4x4096xf16>
}

// -----

// Of many rows each device takes some, with whole weights, and nothing is sent; unless these do not
// fit.
// CHECK: 1 x up [4096, 16384] whole
// CHECK-NOT: all_reduce
// SMALL-LABEL: builtin.module
// SMALL-LABEL: builtin.module
// SMALL: graph.matmul {{.*}}2048xf16>)
graph.mesh @mesh ["tp"=8]
func.func @main(%x: tensor<8192x4096xf16>) -> tensor<8192x4096xf16> {
  %up = graph.constant #graph.weight<"up"> : tensor<4096x16384xf16>
  %down = graph.constant #graph.weight<"down"> : tensor<16384x4096xf16>
  %0 = graph.matmul %x, %up : (tensor<8192x4096xf16>, tensor<4096x16384xf16>) -> tensor<8192x16384xf16>
  %1 = graph.relu %0 : (tensor<8192x16384xf16>) -> tensor<8192x16384xf16>
  %2 = graph.matmul %1, %down : (tensor<8192x16384xf16>, tensor<16384x4096xf16>) -> tensor<8192x4096xf16>
  func.return %2 : tensor<8192x4096xf16>
}

// -----

// A weight that is stated to be cut is told as one that is found to be.
// CHECK: shard auto: weights along tp: {{.*}} 32.0 MiB of parameters
// CHECK-NEXT: 1 x up [4096, 16384] [{}, {"tp":(1)8}]
// CHECK-NEXT: 1 x down [16384, 4096] [{"tp":(1)8}, {}]
graph.mesh @mesh ["tp"=8]
func.func @main(%x: tensor<4x4096xf16>) -> (tensor<4x4096xf16> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>}) {
  %w = graph.constant #graph.weight<"up"> : tensor<4096x16384xf16>
  %up = graph.shard %w sharding <@mesh, [{}, {"tp"}]> : (tensor<4096x16384xf16>) -> tensor<4096x16384xf16>
  %down = graph.constant #graph.weight<"down"> : tensor<16384x4096xf16>
  %0 = graph.matmul %x, %up : (tensor<4x4096xf16>, tensor<4096x16384xf16>) -> tensor<4x16384xf16>
  %1 = graph.relu %0 : (tensor<4x16384xf16>) -> tensor<4x16384xf16>
  %2 = graph.matmul %1, %down : (tensor<4x16384xf16>, tensor<16384x4096xf16>) -> tensor<4x4096xf16>
  func.return %2 : tensor<4x4096xf16>
}
