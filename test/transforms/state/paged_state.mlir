// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'grow-state{capacity="past=64" layout="paged:16"}' | filecheck %s

// Rows of states lie in blocks of 16; those of a mask do not.

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %table: tensor<4xi64> {graph.name = "past.table", graph.block = 16 : i64}
// CHECK:       %[[K:.*]] = graph.append %k, %new at %length table %table axis 2 :
// CHECK-NEXT:  %[[E:.*]] = graph.abs %[[K]] :
// CHECK-NEXT:  graph.append %m, %one at %length axis 1 :
// CHECK-NEXT:  graph.attention %q, %[[E]], %[[E]] mask {{.*}}length %length table %table
func.func @main(%q: tensor<2x4x1x16xf32>, %new: tensor<2x4x1x16xf32>, %one: tensor<1x1xf32>,
                %k: tensor<2x4x?x16xf32> {graph.name = "k", graph.dims = ["", "", "past", ""], graph.state = "a"},
                %m: tensor<1x?xf32> {graph.name = "m", graph.dims = ["", "past"]})
    -> (tensor<2x4x1x16xf32> {graph.name = "y"}, tensor<2x4x?x16xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 2 : (tensor<2x4x?x16xf32>, tensor<2x4x1x16xf32>) -> tensor<2x4x?x16xf32>
  %1 = graph.abs %0 : (tensor<2x4x?x16xf32>) -> tensor<2x4x?x16xf32>
  %2 = graph.concat %m, %one axis 1 : (tensor<1x?xf32>, tensor<1x1xf32>) -> tensor<1x?xf32>
  %3 = graph.attention %q, %1, %1 mask %2 : (tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>, tensor<1x?xf32>) -> tensor<2x4x1x16xf32>
  func.return %3, %0 : tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>
}

// -----

// Positions are in order, and rows of the cache are not.

func.func @main(%q: tensor<2x4x1x16xf32>, %new: tensor<2x4x1x16xf32>,
                %k: tensor<2x4x?x16xf32> {graph.name = "k", graph.dims = ["", "", "past", ""], graph.state = "a"},
                %p: tensor<?x16xf32> {graph.name = "p", graph.dims = ["past + 1", ""]})
    -> (tensor<2x4x1x16xf32> {graph.name = "y"}, tensor<2x4x?x16xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 2 : (tensor<2x4x?x16xf32>, tensor<2x4x1x16xf32>) -> tensor<2x4x?x16xf32>
  // expected-error@+1 {{graph.add reads rows in blocks beside others, or by their number}}
  %1 = graph.add %0, %p : (tensor<2x4x?x16xf32>, tensor<?x16xf32>) -> tensor<2x4x?x16xf32>
  %2 = graph.attention %q, %1, %1 : (tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>) -> tensor<2x4x1x16xf32>
  func.return %2, %0 : tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>
}

// -----

// A mask of what is in blocks.

func.func @main(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x64x16xf32>, %new: tensor<1x1xf32>,
                %m: tensor<1x?xf32> {graph.name = "m", graph.dims = ["", "past"], graph.state = "a"},
                %c: tensor<2x4x?x16xf32> {graph.name = "c", graph.dims = ["", "", "past + 1", ""]})
    -> (tensor<2x4x1x16xf32> {graph.name = "y"}, tensor<1x?xf32> {graph.name = "a"}) {
  %0 = graph.concat %m, %new axis 1 : (tensor<1x?xf32>, tensor<1x1xf32>) -> tensor<1x?xf32>
  // expected-error@+1 {{graph.attention has a mask whose rows lie in blocks}}
  %1 = graph.attention %q, %c, %c mask %0 : (tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>, tensor<1x?xf32>) -> tensor<2x4x1x16xf32>
  func.return %1, %0 : tensor<2x4x1x16xf32>, tensor<1x?xf32>
}
