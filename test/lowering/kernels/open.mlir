// RUN: ge-compile %s --tiles --target 910b2 --tile-cache off -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: ge-check %t.mlir | filecheck %s --check-prefix OPEN
// RUN: ge-check %t.mlir --dim b=1..3 --dim s=17 | filecheck %s --check-prefix BOUND
// RUN: ge-check %t.mlir --dim b=2 --dim s=17 | filecheck %s --check-prefix ONE

// Sizes are arguments: of programs for vector cores loops run to them,
// CHECK:      tile.kernel @softmax_0_tiles(%in0: memref<?x?xf32>, %out0: memref<?x?xf32>) sizes ["b", "s", "b", "s"] cores 48 attributes
// CHECK-DAG:    [[S:%.+]] = tile.size "s"
// CHECK-DAG:    [[B:%.+]] = tile.size "b"
// what is beyond the end of a row is written over before it is reduced,
// CHECK:        tile.index columns %{{.+}} to [[N:%.+]]{{$}}
// CHECK:        scf.for
// CHECK:          tile.load %{{.+}} to {{%.+}} pad 1.0{{$}}
// CHECK:          tile.map ins([[N]], %{{.+}})
// CHECK:            graph.compare lt
// CHECK:            graph.select

// and so do loops of cores that multiply; tiles have fixed sizes, and end with the memref.
// CHECK:      tile.kernel @linear_0_tiles(%in0: memref<?x64xf32>, %in1: memref<64x32xf32>, %out0: memref<?x32xf32>) {{.*}}sizes ["b * s", "b * s"] cores 24 attributes
// CHECK:        tile.size "b"
// CHECK:        tile.size "s"
// CHECK:        tile.view %in0[%{{.+}}, %{{.+}}] : memref<?x64xf32> -> !tile.box<{{[0-9]+}}x{{[0-9]+}}xf32>

// OPEN: proved
// OPEN-SAME: nothing yet of the tile programs of 2 kernels, whose sizes are arguments
// BOUND: proved at all 3 sizes of b=1..3, s=17:
// BOUND-SAME: tile programs of at most 2 kernels
// ONE: at b=2, s=17: proved
// ONE-SAME: tile programs of 2 kernels
func.func @main(%x: tensor<?x?xf32> {graph.name = "x", graph.dims = ["b", "s"]},
    %z: tensor<?x64xf32> {graph.name = "z", graph.dims = ["b * s", ""]},
    %w: tensor<64x32xf32> {graph.name = "w"})
    -> (tensor<?x?xf32> {graph.name = "y"}, tensor<?x32xf32> {graph.name = "v"}) {
  %0 = graph.softmax %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = graph.matmul %z, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %2 = graph.relu %1 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  func.return %0, %2 : tensor<?x?xf32>, tensor<?x32xf32>
}
