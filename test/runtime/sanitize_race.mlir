// The copy does not wait for the launch before it: --sanitize names both, and in some timings the
// result has other bits.
// RUN: not ge-run %s --sanitize 2>&1 | filecheck %s
// CHECK: sanitize_race.mlir:{{[0-9]+}}:3: error: the program is not safe: npu_task.copy reads what
// CHECK-SAME: launch of @double ({{.*}}sanitize_race.mlir:{{[0-9]+}}:3) may still be writing
// RUN: env GE_SANITIZE=0 not ge-run %s --fuzz-schedule 50 2>&1 | filecheck %s --check-prefix=FUZZ
// FUZZ: error: output 'y' has other bits in random timing {{[0-9]+}} of seed 0; --sanitize names
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
  npu_task.launch @double on 1 ins(%1 : memref<2xf32, "hbm">) outs(%2 : memref<2xf32, "hbm">)
  %y = memref.alloc() : memref<2xf32, "host">
  npu_task.copy %2 to %y on 0 : memref<2xf32, "hbm"> to memref<2xf32, "host">
  func.return %y : memref<2xf32, "host">
}
