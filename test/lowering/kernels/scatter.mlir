// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} --remarks --verify-diagnostics | filecheck %s

// A core has some columns of all rows: first the copy, then the updates in their order.
// CHECK-LABEL: tile.kernel @rows_tiles(%in0: memref<1x90x512xf32>, %in1: memref<30x1xi64>, %in2: memref<1x30x512xf32>, %out0: memref<1x90x512xf32>) cores 4
// CHECK:         scf.for
// CHECK:           tile.load
// CHECK:           tile.store
// CHECK:         scf.for
// CHECK:           tile.load
// CHECK:           tile.read %in1[{{.+}}] from -90 below 90 :
// CHECK:           tile.store
npu_task.kernel @rows on vector {
^bb0(%x: tensor<90x512xf32>, %i: tensor<30x1xi64>, %u: tensor<30x512xf32>):
  %r = graph.scatter_nd %x, %i, %u : (tensor<90x512xf32>, tensor<30x1xi64>, tensor<30x512xf32>) -> tensor<90x512xf32>
  npu_task.return %r : tensor<90x512xf32>
}

// -----

// Sums are added in device memory.
// CHECK-LABEL: tile.kernel @sums_tiles(
// CHECK:         tile.store {{.+}} add
npu_task.kernel @sums on vector {
^bb0(%x: tensor<90x512xf32>, %i: tensor<30x1xi64>, %u: tensor<30x512xf32>):
  %r = graph.scatter_nd %x, %i, %u reduction add : (tensor<90x512xf32>, tensor<30x1xi64>, tensor<30x512xf32>) -> tensor<90x512xf32>
  npu_task.return %r : tensor<90x512xf32>
}

// -----

// Each box selects the elements that an update's indices name.
// CHECK-LABEL: tile.kernel @elements_tiles(
// CHECK:         tile.load %{{.+}} to [[T:%.+]] pad
// CHECK:         tile.index rows
// CHECK:         scf.for
// CHECK:           tile.map ins({{.+}}) outs([[T]])
// CHECK:             graph.compare eq
// CHECK:             graph.select
// CHECK:         tile.store [[T]] to
npu_task.kernel @elements on vector {
^bb0(%x: tensor<9x6400xf32>, %i: tensor<3x6400xi64>, %u: tensor<3x6400xf32>):
  %r = graph.scatter_elements %x, %i, %u axis 0 : (tensor<9x6400xf32>, tensor<3x6400xi64>, tensor<3x6400xf32>) -> tensor<9x6400xf32>
  npu_task.return %r : tensor<9x6400xf32>
}

// -----

// The scalar unit puts elements along a long axis one by one.
// CHECK-LABEL: tile.kernel @long_tiles(
// CHECK:         tile.load %{{.+}} to [[T:%.+]] pad
// CHECK:         scf.for
// CHECK:           tile.scatter add %{{.+}} at %{{.+}} to [[T]]{{$}}
// CHECK:         tile.store [[T]] to
npu_task.kernel @long on vector {
^bb0(%x: tensor<900x64xf32>, %i: tensor<300x64xi64>, %u: tensor<300x64xf32>):
  %r = graph.scatter_elements %x, %i, %u axis 0 reduction add : (tensor<900x64xf32>, tensor<300x64xi64>, tensor<300x64xf32>) -> tensor<900x64xf32>
  npu_task.return %r : tensor<900x64xf32>
}

// -----

// Stores do not multiply.
// CHECK-NOT:  tile.kernel
// expected-remark@+1 {{@products has no tile program: stores do not combine by "mul"}}
npu_task.kernel @products on vector {
^bb0(%x: tensor<90x64xf32>, %i: tensor<30x1xi64>, %u: tensor<30x64xf32>):
  %r = graph.scatter_nd %x, %i, %u reduction mul : (tensor<90x64xf32>, tensor<30x1xi64>, tensor<30x64xf32>) -> tensor<90x64xf32>
  npu_task.return %r : tensor<90x64xf32>
}

// -----

// Where indices are of a part of the input, lines of the two are not side by side.
// CHECK-NOT:  tile.kernel
// expected-remark@+1 {{@part has no tile program: its indices are of a part of the input}}
npu_task.kernel @part on vector {
^bb0(%x: tensor<90x64xf32>, %i: tensor<3x60xi64>, %u: tensor<3x60xf32>):
  %r = graph.scatter_elements %x, %i, %u axis 0 : (tensor<90x64xf32>, tensor<3x60xi64>, tensor<3x60xf32>) -> tensor<90x64xf32>
  npu_task.return %r : tensor<90x64xf32>
}
