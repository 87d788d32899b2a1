// Programs that cannot be run or timed.
// RUN: not ge-run %s 2>&1 | filecheck %s --check-prefix=KERNEL
// RUN: not ge-run %s --timing-only 2>&1 | filecheck %s --check-prefix=EVENT
// KERNEL: error: there is no kernel @nothing{{$}}
// EVENT: error: event 7 is waited for but was not recorded before
func.func @main(%x: memref<2xf32, "host"> {graph.name = "x"}) -> () {
  %0 = npu_task.slot "arena" 0 : memref<2xf32, "hbm">
  npu_task.copy %x to %0 on 2 : memref<2xf32, "host"> to memref<2xf32, "hbm">
  npu_task.wait 7 on 0
  npu_task.launch @nothing on 0 ins(%0 : memref<2xf32, "hbm">)
  func.return
}
