// Rows that no core holds are read in parts, also where one pass over them is enough.
// RUN: ge-compile %s --fusion-disable fuse-siblings -o %t.mlir 2>&1 | filecheck %s
// RUN: ge-check %t.mlir | filecheck %s --check-prefix=PROOF

// CHECK:     tile programs for 2 of 2 launches
// PROOF-DAG: @softmax_0_tiles: proved
// PROOF-DAG: @reduce_0_tiles: proved
func.func @main(%x: tensor<512x128xf32>) -> (tensor<1x1xf32>, tensor<1x65536xf32>) {
  %0 = graph.reduce sum_square %x axes [0, 1] : (tensor<512x128xf32>) -> tensor<1x1xf32>
  %1 = graph.reshape %x shape [1, 65536] : (tensor<512x128xf32>) -> tensor<1x65536xf32>
  %2 = graph.softmax %1 : (tensor<1x65536xf32>) -> tensor<1x65536xf32>
  func.return %0, %2 : tensor<1x1xf32>, tensor<1x65536xf32>
}
