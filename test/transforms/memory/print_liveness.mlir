// RUN: ge-opt %s -p 'plan-memory{print-liveness=true}' -o %t.mlir 2>&1 | filecheck %s

// Who makes each buffer, its first and last use with their places, and the step at the peak.

npu_task.kernel @neg on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.neg %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">, %p: memref<i1, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %first = memref.alloc() : memref<128xf32, "hbm">
  %1 = memref.alloc() : memref<128xf32, "hbm">
  %last = memref.alloc() : memref<300xf32, "hbm">
  npu_task.copy %x to %first on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @neg on 1 ins(%first : memref<128xf32, "hbm">) outs(%1 : memref<128xf32, "hbm">)
  %v = memref.reinterpret_cast %last to offset: [0], sizes: [128], strides: [1] : memref<300xf32, "hbm"> to memref<128xf32, "hbm">
  npu_task.if %p : memref<i1, "hbm"> outs(%v : memref<128xf32, "hbm">) order [1] {
    npu_task.yield %1 : memref<128xf32, "hbm">
  } else {
    npu_task.yield %1 : memref<128xf32, "hbm">
  }
  func.return
}
// CHECK:      buffer  bytes  offset  stream  producer  first use last use live
// CHECK-NEXT: %first    512       0       0  copy      1 copy {{.*}}.mlir:14:3 2 @neg {{.*}}.mlir:17:3 --
// CHECK-NEXT: %1        512    1536       1  @neg      2 @neg {{.*}}.mlir:17:3 6 if {{.*}}.mlir:19:3 -#---
// CHECK-NEXT: %last    1536       0     all  if        3 if {{.*}}.mlir:19:3 6 if {{.*}}.mlir:19:3 #---
// CHECK-NEXT: the peak is at step 3, if {{.*}}.mlir:19:3: 2048 bytes in 2 buffers; the arena has 2048 bytes
