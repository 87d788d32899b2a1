// RUN: ge-opt %s --split-input-file --verify-diagnostics -p partition-spmd

graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<16x16xf32>
  // expected-warning @below {{'graph.matmul' (and 1 more): a product of unknown size is computed whole on each device, of whole weights; give the size by --dim or --shape}}
  %0 = graph.matmul %x, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %1 = graph.matmul %0, %w : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}

// -----

// Known ones are not warned about.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<16x16xf32>
  %0 = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
