// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} | filecheck %s

// The rows alone are written, where the length says: the result is the cache's memory.
npu_task.kernel @append on vector {
^bb0(%0: tensor<1x4x64x16xf32>, %1: tensor<1x4x1x16xf32>, %2: tensor<i64>):
  %3 = graph.append %0, %1 at %2 axis 2 : (tensor<1x4x64x16xf32>, tensor<1x4x1x16xf32>, tensor<i64>) -> tensor<1x4x64x16xf32>
  npu_task.return %3 : tensor<1x4x64x16xf32>
}
func.func @main(%cache: memref<1x4x64x16xf32, "hbm">, %rows: memref<1x4x1x16xf32, "hbm">, %n: memref<i64, "hbm">) {
  npu_task.launch @append on 0 ins(%cache, %rows, %n : memref<1x4x64x16xf32, "hbm">, memref<1x4x1x16xf32, "hbm">, memref<i64, "hbm">) outs(%cache : memref<1x4x64x16xf32, "hbm">)
  func.return
}
// CHECK:       tile.kernel @append_tiles(%in0: memref<1x4x64x16xf32>, %in1: memref<1x4x1x16xf32>, %in2: memref<1xi64>, %out0: memref<1x4x64x16xf32>) cores 1 {
// CHECK:         %[[ROWS:.*]] = tile.view %in1[
// CHECK:         tile.load %[[ROWS]] to
// CHECK:         %[[END:.*]] = tile.read %in2[
// CHECK:         %[[PLACE:.*]] = tile.view %out0[{{.*}}] sizes [1, 4, 1, 16]
// CHECK:         tile.store {{.*}} to %[[PLACE]]{{$}}

// -----

// A copy of the cache would be missing.
npu_task.kernel @beside on vector {
^bb0(%0: tensor<1x4x64x16xf32>, %1: tensor<1x4x1x16xf32>, %2: tensor<i64>):
  %3 = graph.append %0, %1 at %2 axis 2 : (tensor<1x4x64x16xf32>, tensor<1x4x1x16xf32>, tensor<i64>) -> tensor<1x4x64x16xf32>
  npu_task.return %3 : tensor<1x4x64x16xf32>
}
func.func @main(%cache: memref<1x4x64x16xf32, "hbm">, %rows: memref<1x4x1x16xf32, "hbm">, %n: memref<i64, "hbm">, %new: memref<1x4x64x16xf32, "hbm">) {
  npu_task.launch @beside on 0 ins(%cache, %rows, %n : memref<1x4x64x16xf32, "hbm">, memref<1x4x1x16xf32, "hbm">, memref<i64, "hbm">) outs(%new : memref<1x4x64x16xf32, "hbm">)
  func.return
}
// CHECK-NOT:   tile.kernel
// CHECK:       npu_task.no_tiles = "appended rows are written alone, and the cache is elsewhere"
