// RUN: ge-opt %s --split-input-file --verify-diagnostics -p relate-dims | filecheck %s

// As many keys as values; those of the second matmul follow from the first.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %k: tensor<1x?x16xf32> {graph.name = "k", graph.dims = ["", "past", ""]}
// CHECK-SAME:  %v: tensor<1x?x16xf32> {graph.name = "v", graph.dims = ["", "past", ""]}
// CHECK-SAME:  graph.dim_relations = {values = "past"}
func.func @main(%q: tensor<1x1x16xf32> {graph.name = "q"},
                %k: tensor<1x?x16xf32> {graph.name = "k", graph.dims = ["", "past", ""]},
                %v: tensor<1x?x16xf32> {graph.name = "v", graph.dims = ["", "values", ""]}) -> tensor<1x1x16xf32> {
  %0 = graph.concat %k, %q axis 1 : (tensor<1x?x16xf32>, tensor<1x1x16xf32>) -> tensor<1x?x16xf32>
  %1 = graph.concat %v, %q axis 1 : (tensor<1x?x16xf32>, tensor<1x1x16xf32>) -> tensor<1x?x16xf32>
  %2 = graph.matmul %q, %0 transpose_rhs true : (tensor<1x1x16xf32>, tensor<1x?x16xf32>) -> tensor<1x1x?xf32>
  %3 = graph.softmax %2 axis -1 : (tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
  %4 = graph.matmul %3, %1 : (tensor<1x1x?xf32>, tensor<1x?x16xf32>) -> tensor<1x1x16xf32>
  func.return %4 : tensor<1x1x16xf32>
}

// -----

// A size that stands alone is an expression of others, through shape arithmetic too; ranges meet.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]}
// CHECK-SAME:  %w: tensor<?x3xf32> {graph.name = "w", graph.dims = ["n + 2", ""]}
// CHECK-SAME:  %u: tensor<?x4xf32> {graph.name = "u", graph.dims = ["n", ""]}
// CHECK-SAME:  graph.dim_relations = {rows = "n + 2", m = "n"}, graph.dim_ranges = {n = array<i64: 2, 8>}
func.func @main(%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]},
                %w: tensor<?x3xf32> {graph.name = "w", graph.dims = ["rows", ""]},
                %u: tensor<?x4xf32> {graph.name = "u", graph.dims = ["m", ""]}) -> (tensor<4x3xf32>, tensor<?x8xf32>)
    attributes {graph.dim_ranges = {n = array<i64: 1, 8>, m = array<i64: 2, -1>}} {
  %two = graph.constant dense<2> : tensor<1xi64>
  %four = graph.constant dense<4> : tensor<1xi64>
  %0 = graph.shape_of %x start 0 end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
  %1 = graph.add %two, %0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %2 = graph.concat %1, %four axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %3 = graph.fill 1.0 : f32 shape %2 : (tensor<2xi64>) -> tensor<?x4xf32>
  %4 = graph.matmul %3, %w transpose_lhs true : (tensor<?x4xf32>, tensor<?x3xf32>) -> tensor<4x3xf32>
  %5 = graph.concat %x, %u axis 1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  func.return %4, %5 : tensor<4x3xf32>, tensor<?x8xf32>
}

// -----

// Sizes that broadcast may be 1; one that follows by halves has no expression; a branch may not run.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  graph.dims = ["a", ""]
// CHECK-SAME:  graph.dims = ["b", ""]
// CHECK-SAME:  graph.dims = ["", "c"]
// CHECK-NOT:   graph.dim_relations
func.func @main(%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["a", ""]},
                %y: tensor<?x4xf32> {graph.name = "y", graph.dims = ["b", ""]},
                %z: tensor<1x?xf32> {graph.name = "z", graph.dims = ["", "c"]}, %go: tensor<i1>)
    -> (tensor<?x4xf32>, tensor<1x?xf32>) {
  %0 = graph.add %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = graph.if %go : (tensor<i1>) -> tensor<1x?xf32> {
    %2 = graph.matmul %z, %x : (tensor<1x?xf32>, tensor<?x4xf32>) -> tensor<1x4xf32>
    graph.yield %2 : tensor<1x4xf32>
  } else {
    graph.yield %z : tensor<1x?xf32>
  }
  func.return %0, %1 : tensor<?x4xf32>, tensor<1x?xf32>
}

// -----

// What a user says must not contradict an op.
func.func @main(%k: tensor<?x4xf32> {graph.name = "k", graph.dims = ["past", ""]},
                %v: tensor<?x4xf32> {graph.name = "v", graph.dims = ["past + 1", ""]}) -> tensor<?x8xf32>
    attributes {graph.dim_relations = {values = "past + 1"}} {
  // expected-error@+1 {{--dim values=past + 1 contradicts the model: 'past' and 'past + 1' are to be one size here}}
  %0 = graph.concat %k, %v axis 1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  func.return %0 : tensor<?x8xf32>
}
