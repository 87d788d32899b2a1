// The bytes of %1 are given away while it is still to be read.
// RUN: not ge-run %s --sanitize 2>&1 | filecheck %s
// CHECK: sanitize_recycled.mlir:{{[0-9]+}}:3: error: the program is not safe: launch of @double reads bytes
// CHECK-SAME: that launch of @double ({{.*}}sanitize_recycled.mlir:{{[0-9]+}}:3) has overwritten
npu_task.kernel @double on vector {
^bb0(%x: tensor<2xf32>):
  %0 = graph.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  npu_task.return %0 : tensor<2xf32>
}
func.func @main(%x: memref<2xf32, "host">) -> (memref<2xf32, "host"> {graph.name = "y"}) attributes {npu_task.streams = 3 : i64} {
  %0 = npu_task.slot io 0 : memref<2xf32, "hbm">
  npu_task.copy %x to %0 on 2 : memref<2xf32, "host"> to memref<2xf32, "hbm">
  %1 = npu_task.slot arena 0 : memref<2xf32, "hbm">
  %e0 = npu_task.record 0 on 2
  npu_task.wait %e0 on 1
  npu_task.launch @double on 1 ins(%0 : memref<2xf32, "hbm">) outs(%1 : memref<2xf32, "hbm">)
  %2 = npu_task.slot arena 0 : memref<2xf32, "hbm">
  npu_task.launch @double on 1 ins(%0 : memref<2xf32, "hbm">) outs(%2 : memref<2xf32, "hbm">)
  %3 = npu_task.slot arena 512 : memref<2xf32, "hbm">
  npu_task.launch @double on 1 ins(%1 : memref<2xf32, "hbm">) outs(%3 : memref<2xf32, "hbm">)
  %e2 = npu_task.record 2 on 1
  npu_task.wait %e2 on 0
  %y = memref.alloc() : memref<2xf32, "host">
  npu_task.copy %3 to %y on 0 : memref<2xf32, "hbm"> to memref<2xf32, "host">
  func.return %y : memref<2xf32, "host">
}
