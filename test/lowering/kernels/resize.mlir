// RUN: ge-opt %s -p lower-kernels{target=910b2} --remarks | filecheck %s

// Lines of the result are sums of two lines; turned, so are its columns. The weights are the rests of
// the places' numbers.
// CHECK-LABEL: tile.kernel @linear_tiles(%in0: memref<1x16x16x32xf32>, %out0: memref<512x64xf32>) cores
// CHECK-NOT: tile.cube
// CHECK-COUNT-2: tile.load {{.*}} pad 0.0
// CHECK: tile.index columns [[REST:%[0-9]+]] to [[PART:%[a-z0-9_]+]]
// CHECK: tile.map ins({{.*}}[[PART]]
// CHECK: tile.move {{.*}} to [[TURNED:%[a-z0-9_]+]] transposed
// CHECK: scf.for
// CHECK-COUNT-2: tile.view [[TURNED]][
// CHECK: tile.map
// CHECK: tile.move {{.*}} to [[LINES:%[a-z0-9_]+]] transposed
// CHECK: tile.store [[LINES]]

npu_task.kernel @linear on vector {
^bb0(%x: tensor<1x16x16x32xf32>):
  %0 = graph.resize %x sizes [32, 64] {axes = array<i64: 2, 3>, mode = "linear"} : tensor<1x16x16x32xf32> -> tensor<1x16x32x64xf32>
  npu_task.return %0 : tensor<1x16x32x64xf32>
}

// The nearest elements are moved. Where channels are last, lines are as they come.
// CHECK-LABEL: tile.kernel @nearest_tiles(%in0: memref<1x16x16x64xf16>, %out0: memref<576x64xf16>) cores
// CHECK-COUNT-1: tile.load
// CHECK-NOT: tile.load
// CHECK-NOT: tile.map
// CHECK-NOT: transposed
// CHECK: tile.store

npu_task.kernel @nearest on vector {
^bb0(%x: tensor<1x16x16x64xf16>):
  %0 = graph.resize %x sizes [24, 24] {axes = array<i64: 1, 2>} : tensor<1x16x16x64xf16> -> tensor<1x24x24x64xf16>
  npu_task.return %0 : tensor<1x24x24x64xf16>
}

// Elements that come two times are copied, as other moves are.
// CHECK-LABEL: tile.kernel @twice_tiles(%in0: memref<1x16x16x32xf16>, %out0: memref<1x16x16x2x32x2xf16>) cores

npu_task.kernel @twice on vector {
^bb0(%x: tensor<1x16x16x32xf16>):
  %0 = graph.resize %x sizes [32, 64] {axes = array<i64: 2, 3>} : tensor<1x16x16x32xf16> -> tensor<1x16x32x64xf16>
  npu_task.return %0 : tensor<1x16x32x64xf16>
}
