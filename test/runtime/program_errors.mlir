// Programs that cannot be timed.
// RUN: not ge-run %s --timing-only 2>&1 | filecheck %s
// CHECK: error: event 7 is waited for, but was not recorded since the last barrier
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<2xf32>):
  %1 = graph.neg %0 : (tensor<2xf32>) -> tensor<2xf32>
  npu_task.return %1 : tensor<2xf32>
}
func.func @main(%x: memref<2xf32, "host"> {graph.name = "x"}, %c: memref<i1, "hbm">) -> () {
  %0 = npu_task.slot arena 0 : memref<2xf32, "hbm">
  npu_task.copy %x to %0 on 2 : memref<2xf32, "host"> to memref<2xf32, "hbm">
  %e7 = npu_task.record 7 on 2
  npu_task.if %c : memref<i1, "hbm"> order [] {
    npu_task.yield
  } else {
    npu_task.yield
  }
  npu_task.wait %e7 on 0
  npu_task.launch @neg_0 on 0 ins(%0 : memref<2xf32, "hbm">) outs(%0 : memref<2xf32, "hbm">)
  func.return
}
