// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'grow-state{capacity="past=64"},fold-constants' | filecheck %s

// A cache has room for 64 rows; attention reads those that hold values. What says how many there
// are is a constant as a shape, and computed as data.

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %k: tensor<2x4x64x16xf32> {graph.name = "k", graph.dims = ["", "", "past", ""], graph.state = "a"}
// CHECK-SAME:  %m: tensor<2x64xf32> {graph.name = "m", graph.dims = ["", "past + 1"]}
// CHECK-SAME:  %length: tensor<i64> {graph.name = "past.length", graph.length = "past", graph.step = 1 : i64}
// CHECK:       %[[K:.*]] = graph.append %k, %new at %length axis 2 : {{.*}} -> tensor<2x4x64x16xf32>
// CHECK:       %[[M:.*]] = graph.reshape %m shape [2, 1, 1, 64]
// CHECK:       %[[N:.*]] = graph.add %length, %{{.*}} : (tensor<i64>, tensor<1xi64>)
// CHECK:       graph.compare le %{{.*}}, %[[N]] : (tensor<64xi64>
// CHECK:       graph.attention %q, %[[K]], %[[K]] mask %[[M]],
func.func @main(%q: tensor<2x4x1x16xf32> {graph.name = "q"}, %new: tensor<2x4x1x16xf32> {graph.name = "new"},
                %k: tensor<2x4x?x16xf32> {graph.name = "k", graph.dims = ["", "", "past", ""], graph.state = "a"},
                %m: tensor<2x?xf32> {graph.name = "m", graph.dims = ["", "past + 1"]})
    -> (tensor<2x4x1x16xf32> {graph.name = "y"}, tensor<2x4x?x16xf32> {graph.name = "a"}) {
  %z = graph.constant dense<0> : tensor<i64>
  %o = graph.constant dense<1> : tensor<i64>
  %t = graph.constant dense<[2, 1, 1]> : tensor<3xi64>
  %0 = graph.concat %k, %new axis 2 : (tensor<2x4x?x16xf32>, tensor<2x4x1x16xf32>) -> tensor<2x4x?x16xf32>
  %1 = graph.shape_of %m start 1 : (tensor<2x?xf32>) -> tensor<1xi64>
  %2 = graph.concat %t, %1 axis 0 : (tensor<3xi64>, tensor<1xi64>) -> tensor<4xi64>
  %3 = graph.reshape %m shape %2 : (tensor<2x?xf32>, tensor<4xi64>) -> tensor<2x1x1x?xf32>
  %4 = graph.squeeze %1 axes [0] : (tensor<1xi64>) -> tensor<i64>
  %5 = graph.range %z, %4, %o : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %6 = graph.compare le %5, %1 : (tensor<?xi64>, tensor<1xi64>) -> tensor<?xi1>
  %7 = graph.attention %q, %0, %0 mask %3, %6 : (tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>, tensor<2x1x1x?xf32>, tensor<?xi1>) -> tensor<2x4x1x16xf32>
  func.return %7, %0 : tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>
}

// -----

// A sum over rows would count those that hold no values.

func.func @main(%new: tensor<1x16xf32>, %k: tensor<?x16xf32> {graph.name = "k", graph.dims = ["past", ""], graph.state = "a"})
    -> (tensor<1x16xf32> {graph.name = "y"}, tensor<?x16xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 0 : (tensor<?x16xf32>, tensor<1x16xf32>) -> tensor<?x16xf32>
  // expected-error@+1 {{graph.reduce may read rows that hold no values}}
  %1 = graph.reduce sum %0 axes [0] : (tensor<?x16xf32>) -> tensor<1x16xf32>
  func.return %1, %0 : tensor<1x16xf32>, tensor<?x16xf32>
}

// -----

// expected-error@+1 {{output 'y' grows with 'past'}}
func.func @main(%new: tensor<1x16xf32>, %k: tensor<?x16xf32> {graph.name = "k", graph.dims = ["past", ""], graph.state = "a"})
    -> (tensor<?x16xf32> {graph.name = "y"}, tensor<?x16xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 0 : (tensor<?x16xf32>, tensor<1x16xf32>) -> tensor<?x16xf32>
  %1 = graph.exp %0 : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %1, %0 : tensor<?x16xf32>, tensor<?x16xf32>
}

// -----

// expected-error@+1 {{no state has a dimension 'past'}}
func.func @main(%k: tensor<?x16xf32> {graph.name = "k", graph.dims = ["seq", ""], graph.state = "a"})
    -> (tensor<?x16xf32> {graph.name = "a"}) {
  func.return %k : tensor<?x16xf32>
}
