// Times of a program: streams, events, launch costs, engines, loops.
// RUN: ge-run %s --timing-only --report %t.json --trace %t.trace.json --op-summary %t.csv --op-statistic %t.stat.csv 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=REPORT < %t.json
// RUN: filecheck %s --check-prefix=TRACE < %t.trace.json
// RUN: filecheck %s --check-prefix=SUMMARY < %t.csv
// RUN: filecheck %s --check-prefix=STATISTIC < %t.stat.csv
// RUN: ge-run %s --timing-only --target 310p3 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK:      latency {{[0-9.]+}} us, lower bound {{[0-9.]+}} us, 9 tasks on 910b2, estimated
// CHECK-NEXT: engine        busy us   used
// CHECK-NEXT: cube
// CHECK-NEXT: vector
// CHECK-NEXT: dma_in
// CHECK-NEXT: dma_out
// CHECK-NEXT: idle us of the busiest:
// OTHER:      9 tasks on 310p3, estimated

// REPORT:      "model": "clock"
// REPORT:      "ops": {
// REPORT-NEXT:   "launches": 3{{$}}
// REPORT:      "time": {
// REPORT-NEXT:   "machine": "910b2, estimated",
// REPORT-NEXT:   "latency_us":
// REPORT-NEXT: "first_us": 0.0,
// REPORT-NEXT:   "lower_bound_us":
// REPORT-NEXT:   "engines": {
// REPORT-NEXT:     "cube": {
// REPORT-NEXT:       "busy_us":
// REPORT-NEXT:       "utilization":
// REPORT:        "idle": {
// REPORT-NEXT:     "compute":
// REPORT-NEXT:     "memory":
// REPORT-NEXT:     "schedule":
// REPORT-NEXT:     "sync":
// REPORT-NOT:  "numerics"

// TRACE:      "traceEvents"
// TRACE:      "stream 0"
// TRACE:      "ph": "X"
// TRACE:      "ph": "s"
// TRACE:      "ph": "f"

// SUMMARY:      Model Name,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Num
// SUMMARY-NEXT: clock,0,2,x,copy,MEMCPY_H2D,2.0,
// SUMMARY-NEXT: clock,1,0,matmul,graph.matmul,AI_CORE,
// SUMMARY-SAME: "512,512;512,512",FLOAT32;FLOAT32,"512,512",FLOAT32,

// STATISTIC:     Model Name,OP Type,Core Type,Count,Total Time(us)
// STATISTIC-DAG: clock,graph.matmul,AI_CORE,2,
// STATISTIC-DAG: clock,graph.relu,AI_VECTOR_CORE,5,
// STATISTIC-DAG: clock,copy,MEMCPY_D2H,1,
!host = memref<512x512xf32, "host">
!hbm = memref<512x512xf32, "hbm">
npu_task.kernel @matmul on cube {
^bb0(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>):
  %0 = graph.matmul %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  npu_task.return %0 : tensor<512x512xf32>
}
npu_task.kernel @relu on vector {
^bb0(%x: tensor<512x512xf32>):
  %0 = graph.relu %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  npu_task.return %0 : tensor<512x512xf32>
}
func.func @main(%x: !host {graph.name = "x"}) -> (!host {graph.name = "y"}) {
  %0 = npu_task.slot io 0 : !hbm
  npu_task.copy %x to %0 on 2 : !host to !hbm
  %e0 = npu_task.record 0 on 2
  %1 = npu_task.slot arena 0 : !hbm
  npu_task.wait %e0 on 0
  npu_task.launch @matmul on 0 ins(%0, %0 : !hbm, !hbm) outs(%1 : !hbm)
  %e1 = npu_task.record 1 on 0
  // the cube goes on while the vector cores are at work
  %2 = npu_task.slot arena 1048576 : !hbm
  npu_task.launch @matmul on 0 ins(%0, %1 : !hbm, !hbm) outs(%2 : !hbm)
  npu_task.wait %e1 on 1
  %three = npu_task.constant dense<5> : tensor<i64> as memref<i64, "hbm">
  npu_task.loop trip %three : memref<i64, "hbm"> carried(%1 : !hbm) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %state: !hbm):
    npu_task.launch @relu on 1 ins(%state : !hbm) outs(%state : !hbm)
    npu_task.yield %go, %state : memref<i1, "hbm">, !hbm
  }
  %4 = memref.alloc() : !host
  npu_task.copy %1 to %4 on 3 : !hbm to !host
  func.return %4 : !host
}
