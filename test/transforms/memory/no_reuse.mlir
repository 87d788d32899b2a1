// RUN: ge-opt %s -p 'plan-memory{no-reuse=exp},verify-plan' | filecheck %s
// RUN: ge-opt %s -p 'plan-memory{no-reuse=graph.exp},verify-plan' | filecheck %s
// RUN: ge-opt %s -p 'plan-memory{no-reuse=graph.relu,neg},verify-plan' | filecheck %s --check-prefix=NEG

// What a launch with an exp writes keeps bytes of its own after those that the others share, also
// where the exp is one op of several in the launch.

npu_task.kernel @neg on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.neg %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
npu_task.kernel @region on vector {
^bb0(%0: tensor<128xf32>):
  %1 = fused_op.region(%0) : (tensor<128xf32>) -> tensor<128xf32> {
  ^bb0(%2: tensor<128xf32>):
    %3 = graph.exp %2 : (tensor<128xf32>) -> tensor<128xf32>
    %4 = graph.abs %3 : (tensor<128xf32>) -> tensor<128xf32>
    fused_op.yield %4 : tensor<128xf32>
  }
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 1 : i64} {
  %0 = memref.alloc() : memref<128xf32, "hbm">
  %1 = memref.alloc() : memref<128xf32, "hbm">
  %2 = memref.alloc() : memref<128xf32, "hbm">
  %3 = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.launch @region on 0 ins(%0 : memref<128xf32, "hbm">) outs(%1 : memref<128xf32, "hbm">)
  npu_task.launch @neg on 0 ins(%1 : memref<128xf32, "hbm">) outs(%2 : memref<128xf32, "hbm">)
  npu_task.launch @neg on 0 ins(%2 : memref<128xf32, "hbm">) outs(%3 : memref<128xf32, "hbm">)
  %y = memref.alloc() : memref<128xf32, "host">
  npu_task.copy %3 to %y on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}
// CHECK:       npu_task.arena_bytes = 1536 : i64, npu_task.lower_bound_bytes = 1536 : i64, npu_task.no_reuse_bytes = 2048 : i64,
// CHECK-NEXT:    npu_task.slot arena 0 :
// CHECK-NEXT:    npu_task.slot arena 1024 {npu_task.pinned} :
// CHECK-NEXT:    npu_task.slot arena 0 :
// CHECK-NEXT:    npu_task.slot arena 512 :
// NEG:         npu_task.arena_bytes = 2048 : i64,
// NEG-NEXT:      npu_task.slot arena 0 :
// NEG-NEXT:      npu_task.slot arena 512 :
// NEG-NEXT:      npu_task.slot arena 1024 {npu_task.pinned} :
// NEG-NEXT:      npu_task.slot arena 1536 {npu_task.pinned} :
