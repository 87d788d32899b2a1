// RUN: ge-opt %s -p lower-kernels{target=910b2} --remarks | filecheck %s

// Places and weights of columns come once, where a block has all of them. Lines of the result are
// sums of two lines, each with a weight of its own; columns are gathered of these, and are sums, too.
// CHECK-LABEL: tile.kernel @linear_tiles(%in0: memref<1x16x16x32xf32>, %out0: memref<1x16x32x64xf32>) cores
// CHECK-NOT: tile.cube
// CHECK-COUNT-2: graph.floor
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-2: tile.load {{.*}} pad 0.0{{$}}
// CHECK-COUNT-1: graph.floor
// CHECK: tile.gather [[LINES:%[a-z0-9_]+]] at [[BEFORE:%[a-z0-9_]+]] to
// CHECK-NEXT: tile.gather [[LINES]] at [[AFTER:%[a-z0-9_]+]] to
// CHECK: tile.map
// CHECK: tile.store

npu_task.kernel @linear on vector {
^bb0(%x: tensor<1x16x16x32xf32>):
  %0 = graph.resize %x sizes [32, 64] axes [2, 3] mode linear : (tensor<1x16x16x32xf32>) -> tensor<1x16x32x64xf32>
  npu_task.return %0 : tensor<1x16x32x64xf32>
}

// The nearest elements are moved. Where channels are last, lines are as they come.
// CHECK-LABEL: tile.kernel @nearest_tiles(%in0: memref<1x16x16x64xf16>, %out0: memref<1x24x24x64xf16>) cores
// CHECK-COUNT-1: tile.load
// CHECK-NOT: tile.load
// CHECK-NOT: tile.map
// CHECK-NOT: transposed
// CHECK: tile.store

npu_task.kernel @nearest on vector {
^bb0(%x: tensor<1x16x16x64xf16>):
  %0 = graph.resize %x sizes [24, 24] axes [1, 2] : (tensor<1x16x16x64xf16>) -> tensor<1x24x24x64xf16>
  npu_task.return %0 : tensor<1x24x24x64xf16>
}

// Elements that come two times are copied, as other moves are.
// CHECK-LABEL: tile.kernel @twice_tiles(%in0: memref<1x16x16x32xf16>, %out0: memref<1x16x16x2x32x2xf16>) cores

npu_task.kernel @twice on vector {
^bb0(%x: tensor<1x16x16x32xf16>):
  %0 = graph.resize %x sizes [32, 64] axes [2, 3] : (tensor<1x16x16x32xf16>) -> tensor<1x16x32x64xf16>
  npu_task.return %0 : tensor<1x16x32x64xf16>
}
