// RUN: ge-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{tile sizes and blocks are at least 1}}
npu_task.kernel @k on vector tiling <[0] blocks 1 buffers 1> {
^bb0(%0: tensor<4xf32>):
  npu_task.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{buffers is 1 or 2, not 3}}
npu_task.kernel @k on vector tiling <[4] blocks 1 buffers 3> {
^bb0(%0: tensor<4xf32>):
  npu_task.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{Expected `cube`, `vector`, `dma`, `host`, or `comm`}}
npu_task.kernel @k on gpu {
^bb0(%0: tensor<4xf32>):
  npu_task.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{the body ends in npu_task.return}}
npu_task.kernel @k on vector {
^bb0(%0: tensor<4xf32>):
  fused_op.yield %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{the body is empty}}
npu_task.kernel @k on vector {
^bb0(%0: tensor<4xf32>):
  npu_task.return %0 : tensor<4xf32>
}

// -----

func.func @main() {
  // expected-error@+1 {{segment is one of arena, io, state, not 'heap'}}
  %0 = npu_task.slot "heap" 0 : memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main() {
  // expected-error@+1 {{offset is at least 0, got -512}}
  %0 = npu_task.slot arena -512 : memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main() {
  // expected-error@+1 {{a slot has a static shape, not memref<?xf32, "hbm">}}
  %0 = npu_task.slot arena 0 : memref<?xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">, %y: memref<5xf32, "hbm">) {
  // expected-error@+1 {{memref<4xf32, "host"> does not fit into memref<5xf32, "hbm">}}
  npu_task.copy %x to %y : memref<4xf32, "host"> to memref<5xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<?xf32, "host">) {
  // expected-error@+1 {{memref<?xf32, "host"> does not become memref<?xi32, "hbm">}}
  %0 = npu_task.transfer %x : memref<?xf32, "host"> to memref<?xi32, "hbm">
  func.return
}

// -----

func.func @main(%c: memref<i1, "hbm">, %x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{a branch yields 0 values, 1 are expected}}
  npu_task.if %c : memref<i1, "hbm"> outs(%x : memref<4xf32, "hbm">) order [1] {
    npu_task.yield
  } else {
    npu_task.yield %x : memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%c: memref<i1, "hbm">, %x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{'order' must have 1 times 1 and 0 times 0}}
  npu_task.if %c : memref<i1, "hbm"> outs(%x : memref<4xf32, "hbm">) order [0] {
    npu_task.yield %x : memref<4xf32, "hbm">
  } else {
    npu_task.yield %x : memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%c: memref<i1, "hbm">, %x: memref<4xf32, "hbm">, %y: memref<5xf32, "hbm">) {
  // expected-error@+1 {{memref<5xf32, "hbm"> does not fit into memref<4xf32, "hbm">}}
  npu_task.if %c : memref<i1, "hbm"> outs(%x : memref<4xf32, "hbm">) order [1] {
    npu_task.yield %y : memref<5xf32, "hbm">
  } else {
    npu_task.yield %x : memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{the body yields 1 values; 1 condition, 1 carried and 0 scanned ones are expected}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%x : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %a: memref<4xf32, "hbm">):
    npu_task.yield %go : memref<i1, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{the body takes 3 arguments}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%x : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">):
    npu_task.yield %go, %x : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error@+1 {{operand 'source': expected a memref of elements that ge has, not tensor<4xf32>}}
  npu_task.copy %x to %x : tensor<4xf32> to tensor<4xf32>
  func.return
}

// -----

// expected-error@+1 {{a tile has one size or three, not 2}}
npu_task.kernel @k on vector tiling <[4, 4] blocks 1 buffers 1> {
^bb0(%0: tensor<4xf32>):
  npu_task.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{a tile of three sizes is for matmuls}}
npu_task.kernel @k on vector tiling <[16, 16, 16] blocks 1 buffers 1> {
^bb0(%0: tensor<4xf32>):
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}

// -----

func.func @main(%n: memref<i32, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the trip count is one i64 of the device}}
  npu_task.loop trip %n : memref<i32, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<2xi64, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the trip count is one i64 of the device}}
  npu_task.loop trip %n : memref<2xi64, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "host">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the trip count is one i64 of the device}}
  npu_task.loop trip %n : memref<i64, "host"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the iteration number is one i64 of the device}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i32, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the condition in the body is one i1 of the device}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i8, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i8, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{the next condition is one i1 of the device}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a0, %a2 : memref<i64, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, strided<[2]>, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{argument 2 is memref<4xf32, "hbm">, not}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, strided<[2]>, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "host">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{is not in the memory of the device}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "host">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "host">):
    npu_task.yield %a1, %a2 : memref<i1, "hbm">, memref<4xf32, "host">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{does not fit into memref<4xf32, "hbm">}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) order [1] stacked [] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %v : memref<i1, "hbm">, memref<5xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %w: memref<3x5xf32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{does not fit into a row of}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) scans(%w : memref<3x5xf32, "hbm">) order [1] stacked [1] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %w: memref<3x4xi32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{does not fit into a row of}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) scans(%w : memref<3x4xi32, "hbm">) order [1] stacked [1] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%n: memref<i64, "hbm">, %c: memref<4xf32, "hbm">, %w: memref<f32, "hbm">, %v: memref<5xf32, "hbm">) {
  // expected-error@+1 {{has no rows}}
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%c : memref<4xf32, "hbm">) scans(%w : memref<f32, "hbm">) order [1] stacked [1] {
  ^bb0(%a0: memref<i64, "hbm">, %a1: memref<i1, "hbm">, %a2: memref<4xf32, "hbm">):
    npu_task.yield %a1, %a2, %a2 : memref<i1, "hbm">, memref<4xf32, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%c: memref<i1, "hbm">, %x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{a buffer takes two of the values}}
  npu_task.if %c : memref<i1, "hbm"> outs(%x, %x : memref<4xf32, "hbm">, memref<4xf32, "hbm">) order [1, 1] {
    npu_task.yield %x, %x : memref<4xf32, "hbm">, memref<4xf32, "hbm">
  } else {
    npu_task.yield %x, %x : memref<4xf32, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}

// -----

func.func @main(%c: memref<i8, "hbm">) {
  // expected-error@+1 {{the condition is one i1 of the device}}
  npu_task.if %c : memref<i8, "hbm"> order [] {
    npu_task.yield
  } else {
    npu_task.yield
  }
  func.return
}

// -----

// expected-error@+1 {{is not in the memory of the device}}
%0 = npu_task.slot arena 0 : memref<4xf32, "host">

// -----

// expected-error@+1 {{a buffer is dense; only views have a layout}}
%0 = npu_task.slot arena 0 : memref<4xf32, strided<[2]>, "hbm">

// -----

// expected-error@+1 {{a constant of tensor<4xf32> is read as memref<4xi32}}
%0 = npu_task.constant dense<1.0> : tensor<4xf32> as memref<4xi32, "hbm">

// -----

func.func @main(%x: memref<4xf32, "host">, %y: memref<4xf32, "host">) {
  // expected-error@+1 {{a copy is from or to the device}}
  npu_task.copy %x to %y : memref<4xf32, "host"> to memref<4xf32, "host">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{a batch copy has a target for each source, not 2 buffers to 1}}
  npu_task.batch_copy %x, %x to %0 : memref<4xf32, "host">, memref<4xf32, "host"> to memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) {
  %0 = npu_task.slot io 0 : memref<8xf32, "hbm">
  // expected-error@+1 {{does not fit into memref<8xf32}}
  npu_task.batch_copy %x to %0 : memref<4xf32, "host"> to memref<8xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{a batch copy is between host and device}}
  npu_task.batch_copy %0 to %0 : memref<4xf32, "hbm"> to memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{a batch copy is to the device or from it, not both}}
  npu_task.batch_copy %x, %0 to %0, %x : memref<4xf32, "host">, memref<4xf32, "hbm"> to memref<4xf32, "hbm">, memref<4xf32, "host">
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{there is no kernel @nope}}
  %0 = npu_task.launch @nope ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<8xf32, "hbm">, %y: memref<4xf32, "hbm">) {
  // expected-error@+1 {{ins differ from the inputs of @neg_0}}
  npu_task.launch @neg_0 ins(%x : memref<8xf32, "hbm">) outs(%y : memref<4xf32, "hbm">)
  func.return
}

// -----

// All streams are idle between blocks: an event is no value that passes from one to another.
func.func @main(%c: memref<i1, "hbm">) {
  %e = npu_task.record 0 on 1
  npu_task.if %c : memref<i1, "hbm"> order [] {
    // expected-error@+1 {{waits for an event that is recorded in another block}}
    npu_task.wait %e on 0
    npu_task.yield
  } else {
    npu_task.yield
  }
  func.return
}

// -----

func.func @main(%e: !npu_task.event) {
  // expected-error@+1 {{waits for an event that is recorded in another block}}
  npu_task.wait %e on 0
  func.return
}
