// A buffer that nobody needs across the peak goes to the host and comes back before its next use; the
// copy back comes as early as the limit allows.
// RUN: ge-opt %s -p 'spill-buffers{limit=1536}' | filecheck %s
// RUN: ge-opt %s -p 'spill-buffers{limit=1536},assign-streams,plan-memory{limit=1536},verify-plan,verify-schedule' | filecheck %s --check-prefix=PLAN
// RUN: not ge-opt %s -p 'assign-streams,plan-memory{limit=1536}' 2>&1 | filecheck %s --check-prefix=OVER
// Nothing happens where the program keeps the limit.
// RUN: ge-opt %s -p 'spill-buffers{limit=2048}' | filecheck %s --check-prefix=NONE
// RUN: not ge-opt %s -p 'spill-buffers{limit=-1}' 2>&1 | filecheck %s --check-prefix=NEGATIVE

// CHECK:      attributes {npu_task.spilled_bytes = 512 : i64}
// CHECK:      npu_task.launch @neg ins(%0 : {{.*}}) outs(%a :
// CHECK-NEXT: %[[HOST:.*]] = memref.alloc() : memref<128xf32, "host">
// CHECK-NEXT: npu_task.copy %a to %[[HOST]] :
// CHECK-NEXT: npu_task.launch @neg {{.*}} outs(%b :
// CHECK-NEXT: npu_task.launch @add {{.*}} outs(%c :
// CHECK-NEXT: npu_task.launch @add {{.*}} outs(%d :
// CHECK-NEXT: %[[BACK:.*]] = memref.alloc() : memref<128xf32, "hbm">
// CHECK-NEXT: npu_task.copy %[[HOST]] to %[[BACK]] :
// CHECK-NEXT: npu_task.launch @neg ins(%d :
// CHECK:      npu_task.launch @add ins(%[[BACK]], %f :

// PLAN: npu_task.arena_bytes = 1536 :

// OVER: error: the arena needs 2048 bytes, its limit is 1536; use smaller shapes, or a target with more memory
// OVER: note: the peak is at @add ({{.*}}), with 4 buffers of 2048 bytes:
// OVER: note: 512 bytes (128xf32): made by @neg ({{.*}}), last used by @add (

// NONE-NOT: npu_task.spilled_bytes
// NONE-NOT: npu_task.copy %a

// NEGATIVE: error: the limit is at least 0 bytes, not -1 (
npu_task.kernel @neg on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.neg %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
npu_task.kernel @add on vector {
^bb0(%0: tensor<128xf32>, %1: tensor<128xf32>):
  %2 = graph.add %0, %1 : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %2 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) -> memref<128xf32, "host"> {
  %0 = memref.alloc() {npu_task.io} : memref<128xf32, "hbm">
  npu_task.copy %x to %0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %a = memref.alloc() : memref<128xf32, "hbm">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %c = memref.alloc() : memref<128xf32, "hbm">
  %d = memref.alloc() : memref<128xf32, "hbm">
  %e = memref.alloc() : memref<128xf32, "hbm">
  %f = memref.alloc() : memref<128xf32, "hbm">
  %g = memref.alloc() : memref<128xf32, "hbm">
  npu_task.launch @neg ins(%0 : memref<128xf32, "hbm">) outs(%a : memref<128xf32, "hbm">)
  npu_task.launch @neg ins(%0 : memref<128xf32, "hbm">) outs(%b : memref<128xf32, "hbm">)
  npu_task.launch @add ins(%b, %0 : memref<128xf32, "hbm">, memref<128xf32, "hbm">) outs(%c : memref<128xf32, "hbm">)
  npu_task.launch @add ins(%b, %c : memref<128xf32, "hbm">, memref<128xf32, "hbm">) outs(%d : memref<128xf32, "hbm">)
  npu_task.launch @neg ins(%d : memref<128xf32, "hbm">) outs(%e : memref<128xf32, "hbm">)
  npu_task.launch @neg ins(%e : memref<128xf32, "hbm">) outs(%f : memref<128xf32, "hbm">)
  npu_task.launch @add ins(%a, %f : memref<128xf32, "hbm">, memref<128xf32, "hbm">) outs(%g : memref<128xf32, "hbm">)
  %r = memref.alloc() : memref<128xf32, "host">
  npu_task.copy %g to %r : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return %r : memref<128xf32, "host">
}
