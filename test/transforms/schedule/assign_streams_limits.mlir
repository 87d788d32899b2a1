// RUN: ge-opt %s -p 'assign-streams{target="%S/Inputs/narrow.toml"},verify-schedule{target="%S/Inputs/narrow.toml"}' | filecheck %s --check-prefix=STREAMS
// RUN: ge-opt %s -p 'assign-streams{in-order=true target="%S/Inputs/forgetful.toml"},verify-schedule{target="%S/Inputs/forgetful.toml"}' | filecheck %s --check-prefix=EVENTS
// RUN: ge-opt %s -p 'assign-streams{target="%S/Inputs/forgetful.toml"},verify-schedule{target="%S/Inputs/forgetful.toml"}' | filecheck %s --check-prefix=ANY
// RUN: ge-opt %s -p 'assign-streams{single=true target="%S/Inputs/narrow.toml"}' | filecheck %s --check-prefix=SINGLE

// A target with three streams: all copies share one of them.
// STREAMS:     npu_task.streams = 3 :
// STREAMS:     npu_task.copy %x to %0 on 2 :
// STREAMS:     npu_task.launch @neg_0 on 1 ins
// STREAMS:     npu_task.copy %2 to %z on 2 :

// A target with one event: streams for each engine would need two at one time, one needs none.
// EVENTS:      npu_task.events = 0 :
// EVENTS-NOT:  npu_task.wait
// ANY:         npu_task.events = {{[01]}} :

// SINGLE:      npu_task.streams = 1 :

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32, "host">, %y: memref<4xf32, "host">, %z: memref<4xf32, "host">) {
  %0 = memref.alloc() : memref<4xf32, "hbm">
  %1 = memref.alloc() : memref<4xf32, "hbm">
  %2 = memref.alloc() : memref<4xf32, "hbm">
  npu_task.copy %x to %0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.launch @neg_0 ins(%0 : memref<4xf32, "hbm">) outs(%2 : memref<4xf32, "hbm">)
  npu_task.copy %y to %1 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.launch @neg_0 ins(%1 : memref<4xf32, "hbm">) outs(%2 : memref<4xf32, "hbm">)
  npu_task.copy %2 to %z : memref<4xf32, "hbm"> to memref<4xf32, "host">
  func.return
}
