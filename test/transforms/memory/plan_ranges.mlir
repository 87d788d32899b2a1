// RUN: ge-opt %s --split-input-file -p express-sizes,plan-ranges | filecheck %s

// Places of the largest sizes; the first one is free again when the third begins. What has no bound
// is allocated as it comes.

// CHECK:      npu_task.dynamic_bytes = 4096 : i64}
// CHECK-NEXT: npu_task.transfer %x on 0 {npu_task.bytes = ["256 * batch"], npu_task.offsets = array<i64: 0>}
// CHECK-NEXT: npu_task.launch @exp_0 on 0 ins(%0 {{.*}}) {npu_task.bytes = ["256 * batch"], npu_task.offsets = array<i64: 2048>}
// CHECK-NEXT: npu_task.launch @exp_0 on 0 ins(%1 {{.*}}) {npu_task.bytes = ["256 * batch"], npu_task.offsets = array<i64: 0>}
// CHECK-NEXT: npu_task.transfer %z on 0 {npu_task.bytes = ["256 * rows"]} :

npu_task.kernel @exp_0 on vector {
^bb0(%a: tensor<?x64xf32>):
  %0 = graph.exp %a : (tensor<?x64xf32>) -> tensor<?x64xf32>
  npu_task.return %0 : tensor<?x64xf32>
}
func.func @main(
    %x: memref<?x64xf32, "host"> {graph.name = "x", graph.dims = ["batch", ""]},
    %z: memref<?x64xf32, "host"> {graph.name = "z", graph.dims = ["rows", ""]})
    attributes {graph.dim_ranges = {batch = array<i64: 1, 8>, rows = array<i64: 1, -1>},
                npu_task.streams = 1 : i64, npu_task.alignment = 512 : i64} {
  %0 = npu_task.transfer %x on 0 : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
  %1 = npu_task.launch @exp_0 on 0 ins(%0 : memref<?x64xf32, "hbm">) -> memref<?x64xf32, "hbm">
  %2 = npu_task.launch @exp_0 on 0 ins(%1 : memref<?x64xf32, "hbm">) -> memref<?x64xf32, "hbm">
  %3 = npu_task.transfer %z on 0 : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
  func.return
}

// -----

// Without ranges, nothing has a place.

// CHECK-LABEL: func.func @main(%y
// CHECK-NOT:   npu_task.offsets
// CHECK:       func.return
func.func @main(%y: memref<?x64xf32, "host"> {graph.name = "y", graph.dims = ["batch", ""]})
    attributes {npu_task.streams = 1 : i64, npu_task.alignment = 512 : i64} {
  %0 = npu_task.transfer %y on 0 : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
  func.return
}

// -----

// Nor where the device has not as much memory: 64 GiB and more.

// CHECK-LABEL: func.func @main(%y
// CHECK-NOT:   npu_task.offsets
// CHECK:       func.return
func.func @main(%y: memref<?x64xf32, "host"> {graph.name = "y", graph.dims = ["batch", ""]})
    attributes {graph.dim_ranges = {batch = array<i64: 1, 300000000>},
                npu_task.streams = 1 : i64, npu_task.alignment = 512 : i64} {
  %0 = npu_task.transfer %y on 0 : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
  func.return
}
