// RUN: ge-compile %s --quantize w8a16 --calibration %S/Inputs/fitted.toml --until graph -o - --remarks 2>&1 | filecheck %s

// A layer takes the codes that the table has: nearest ones plus differences. Scales are constants
// then too, so that nothing needs the floats. Differences for another number of weights are left.
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x3xf32>) {
  %w = graph.constant dense<[[127.0, 1.0], [2.0, 3.0], [4.0, 127.0], [5.0, 6.0]]> : tensor<4x2xf32>
  %v = graph.constant dense<127.0> : tensor<4x3xf32>
  %0 = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32> loc("/linear")
  %1 = graph.matmul %x, %v : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32> loc("/short")
  func.return %0, %1 : tensor<1x2xf32>, tensor<1x3xf32>
}
// CHECK-DAG: '/short' is not fitted: the table has other codes
// CHECK-DAG: graph.constant dense<{{\[\[}}127, 2], [1, 3], [4, 127], [5, 6]]> : tensor<4x2xi8>
