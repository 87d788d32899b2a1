// Examples of the ops of the dialect `npu_task`, a module each: the first one that has an op is its
// example. Tests verify them, print them and read them again.

// The level of tasks: kernels and their launches, on tensors.
npu_task.kernel @linear_0 on cube {
^bb0(%0: tensor<8x64xf32>, %1: tensor<64x32xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  npu_task.return %2 : tensor<8x32xf32>
}
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x32xf32> {
  %w = npu_task.constant #graph.weight<"w"> as tensor<64x32xf32>
  %0 = tensor.empty() : tensor<8x32xf32>
  %1 = npu_task.launch @linear_0 ins(%x, %w : tensor<8x64xf32>, tensor<64x32xf32>) outs(%0 : tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}

// -----

// The level of programs: slots of device memory, streams, and an event between two of them.
npu_task.kernel @relu_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32, "host">) -> memref<4xf32, "host"> {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  npu_task.copy %x to %0 on 2 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  %e0 = npu_task.record 0 on 2
  %1 = npu_task.slot io 512 : memref<4xf32, "hbm">
  npu_task.wait %e0 on 1
  npu_task.launch @relu_0 on 1 ins(%0 : memref<4xf32, "hbm">) outs(%1 : memref<4xf32, "hbm">)
  %e1 = npu_task.record 1 on 1
  %2 = memref.alloc() : memref<4xf32, "host">
  npu_task.wait %e1 on 3
  npu_task.copy %1 to %2 on 3 : memref<4xf32, "hbm"> to memref<4xf32, "host">
  func.return %2 : memref<4xf32, "host">
}

// -----

// Two small inputs cross the link as one copy.
func.func @main(%x: memref<4xf32, "host">, %y: memref<4xf32, "host">) {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  %1 = npu_task.slot io 512 : memref<4xf32, "hbm">
  npu_task.batch_copy %x, %y to %0, %1 on 1 : memref<4xf32, "host">, memref<4xf32, "host"> to memref<4xf32, "hbm">, memref<4xf32, "hbm">
  func.return
}

// -----

// A branch that writes a buffer of the caller.
func.func @main(%c: memref<i1, "hbm">, %x: memref<4xf32, "hbm">, %y: memref<4xf32, "hbm">) {
  npu_task.if %c : memref<i1, "hbm"> outs(%y : memref<4xf32, "hbm">) order [1] {
    npu_task.yield %x : memref<4xf32, "hbm">
  } else {
    npu_task.yield %y : memref<4xf32, "hbm">
  }
  func.return
}

// -----

// A loop that runs %n times, and a buffer that is carried from round to round.
npu_task.kernel @add_0 on vector {
^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %2 : tensor<4xf32>
}
func.func @main(%n: memref<i64, "hbm">, %x: memref<4xf32, "hbm">, %h: memref<4xf32, "hbm">) {
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%h : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %s: memref<4xf32, "hbm">):
    %t = memref.alloc() : memref<4xf32, "hbm">
    npu_task.launch @add_0 ins(%s, %x : memref<4xf32, "hbm">, memref<4xf32, "hbm">) outs(%t : memref<4xf32, "hbm">)
    npu_task.yield %go, %t : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

// Gears: a body for one row and one for two, chosen by the size of the input. What a body returns is
// of that size, which the caller does not know: the device allocates it.
func.func @main(%x: memref<?x4xf32, "host">) -> memref<?x4xf32, "host"> {
  %0 = npu_task.map_index %x axes [0] table [array<i64: 1>, array<i64: 2>] : (memref<?x4xf32, "host">) -> memref<i64, "host">
  %1 = npu_task.case %0 : memref<i64, "host"> -> memref<?x4xf32, "host"> order [0] {
    %2 = memref.alloc() : memref<1x4xf32, "hbm">
    npu_task.copy %x to %2 : memref<?x4xf32, "host"> to memref<1x4xf32, "hbm">
    %3 = npu_task.transfer %2 : memref<1x4xf32, "hbm"> to memref<?x4xf32, "host">
    npu_task.yield %3 : memref<?x4xf32, "host">
  } {
    %4 = memref.alloc() : memref<2x4xf32, "hbm">
    npu_task.copy %x to %4 : memref<?x4xf32, "host"> to memref<2x4xf32, "hbm">
    %5 = npu_task.transfer %4 : memref<2x4xf32, "hbm"> to memref<?x4xf32, "host">
    npu_task.yield %5 : memref<?x4xf32, "host">
  }
  func.return %1 : memref<?x4xf32, "host">
}

// -----

// A pipeline of two stages on two devices, for two microbatches.
graph.mesh @mesh ["microbatch"=2, "pp"=2] pipeline "pp"
builtin.module @stage_0 {
  graph.mesh @mesh ["microbatch"=2, "pp"=2] pipeline "pp"
  npu_task.send "h" to 1 slots 2 on comm
  npu_task.kernel @relu_0 on vector {
  ^bb0(%0: tensor<2xf32>):
    %1 = graph.relu %0 : (tensor<2xf32>) -> tensor<2xf32>
    npu_task.return %1 : tensor<2xf32>
  }
  func.func @main(%x: memref<2xf32, "host"> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"microbatch"}]>, graph.whole = array<i64: 4>}) -> (memref<2xf32, "hbm"> {graph.name = "h", graph.sharding = #graph.sharding<@mesh, [{"microbatch"}]>, graph.whole = array<i64: 4>}) {
    %0 = npu_task.slot io 0 : memref<2xf32, "hbm">
    npu_task.copy %x to %0 on 2 : memref<2xf32, "host"> to memref<2xf32, "hbm">
    %event = npu_task.record 0 on 2
    %1 = npu_task.slot io 512 : memref<2xf32, "hbm">
    npu_task.wait %event on 1
    npu_task.launch @relu_0 on 1 ins(%0 : memref<2xf32, "hbm">) outs(%1 : memref<2xf32, "hbm">)
    func.return %1 : memref<2xf32, "hbm">
  }
}
builtin.module @stage_1 {
  graph.mesh @mesh ["microbatch"=2, "pp"=2] pipeline "pp"
  npu_task.receive "h" from 0 slots 2 on comm
  func.func @main(%h: memref<2xf32, "hbm"> {graph.name = "h", graph.sharding = #graph.sharding<@mesh, [{"microbatch"}]>, graph.whole = array<i64: 4>}) -> (memref<2xf32, "host"> {graph.name = "y", graph.sharding = #graph.sharding<@mesh, [{"microbatch"}]>, graph.whole = array<i64: 4>}) {
    %0 = memref.alloc() : memref<2xf32, "host">
    npu_task.copy %h to %0 on 3 : memref<2xf32, "hbm"> to memref<2xf32, "host">
    func.return %0 : memref<2xf32, "host">
  }
}
func.func @main(%x: memref<4xf32, "host"> {graph.name = "x"}) -> (memref<4xf32, "host"> {graph.name = "y"}) {
  %y = npu_task.pipeline %x : (memref<4xf32, "host">) -> memref<4xf32, "host">
  func.return %y : memref<4xf32, "host">
}
