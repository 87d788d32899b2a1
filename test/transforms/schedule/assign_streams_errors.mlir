// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'assign-streams{in-order=true target="%S/Inputs/forgetful.toml"}'
// RUN: not ge-opt %s --split-input-file -p 'assign-streams{target="%S/Inputs/narrow.toml"}' 2>&1 | filecheck %s --check-prefix=STREAMS
// RUN: ge-opt %s --split-input-file -p 'assign-streams{single=true target="%S/Inputs/narrow.toml"}' | filecheck %s --check-prefix=SINGLE

// STREAMS: error: target narrow has 3 streams, 5 are needed; use single=true
// SINGLE: npu_task.streams = 1

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32, #npu_task<space host>>, %y: memref<4xf32, #npu_task<space host>>) {
  %0 = memref.alloc() : memref<4xf32, #npu_task<space hbm>>
  %1 = memref.alloc() : memref<4xf32, #npu_task<space hbm>>
  %2 = memref.alloc() : memref<4xf32, #npu_task<space hbm>>
  npu_task.copy %x to %0 : memref<4xf32, #npu_task<space host>> to memref<4xf32, #npu_task<space hbm>>
  npu_task.launch @neg_0 ins(%0 : memref<4xf32, #npu_task<space hbm>>) outs(%2 : memref<4xf32, #npu_task<space hbm>>)
  // expected-error@+1 {{more than 1 events are needed at one time; use one stream (single=true), or a target with a higher max_events}}
  npu_task.copy %y to %1 : memref<4xf32, #npu_task<space host>> to memref<4xf32, #npu_task<space hbm>>
  npu_task.launch @neg_0 ins(%1 : memref<4xf32, #npu_task<space hbm>>) outs(%2 : memref<4xf32, #npu_task<space hbm>>)
  func.return
}
