// --sanitize proves a program before it runs; --fuzz-schedule runs it in other legal timings too.
// RUN: ge-run %s --sanitize --fuzz-schedule 20 2>&1 | filecheck %s
// CHECK-DAG: 20 random timings: the same bits
// CHECK-DAG: note: {{.*}}sanitize.mlir:{{[0-9]+}}:9: npu_task.record of event 1 orders nothing
// CHECK-DAG: npu_task.wait of event 1 orders nothing
// CHECK-DAG: plan and schedule are proved; figures and capacity are not stated
// CHECK-DAG: y: float32[2]
// RUN: not ge-run %s --fuzz-schedule 0 2>&1 | filecheck %s --check-prefix=COUNT
// COUNT: ge-run: error: argument --fuzz-schedule: a whole number of at least 1, not '0'; see ge-run --help
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
  %2 = npu_task.slot arena 512 : memref<2xf32, "hbm">
  %e1 = npu_task.record 1 on 1
  npu_task.wait %e1 on 1
  npu_task.launch @double on 1 ins(%1 : memref<2xf32, "hbm">) outs(%2 : memref<2xf32, "hbm">)
  %e2 = npu_task.record 2 on 1
  npu_task.wait %e2 on 0
  %y = memref.alloc() : memref<2xf32, "host">
  npu_task.copy %2 to %y on 0 : memref<2xf32, "hbm"> to memref<2xf32, "host">
  func.return %y : memref<2xf32, "host">
}
