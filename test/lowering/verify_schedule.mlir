// RUN: ge-opt %s --split-input-file --verify-diagnostics -p verify-schedule | filecheck %s

// Covered by an event, and by another stream's event.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  %e1 = npu_task.record 1 on 1
  npu_task.wait %e1 on 0
  npu_task.launch @c on 0 ins(%b : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  func.return
}
// CHECK: npu_task.wait %e1 on 0{{$}}

// -----

// Wrong order: nothing makes the second launch wait.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  // expected-error@+1 {{the schedule is not safe: launch of @b}}
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// Wrong order: the first buffer is written again while it may be read.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  // expected-error@+1 {{the schedule is not safe: launch of @c}}
  npu_task.launch @c on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// Lost wake-up: recorded before a barrier, after which events are new.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">, %p: memref<i1, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  %e3 = npu_task.record 3 on 0
  npu_task.if %p : memref<i1, "hbm"> order [] {
    npu_task.yield
  } else {
    npu_task.yield
  }
  // expected-error@+1 {{event 3 is not recorded before launch of @a}}
  npu_task.wait %e3 on 1
  npu_task.launch @a on 1 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// Lost wake-up: recorded later. A circle of streams that wait for each other has such a wait.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  // expected-error@+1 {{operand #0 does not dominate this use}}
  npu_task.wait %e3 on 1
  npu_task.launch @b on 1 ins(%x : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  // expected-note@+1 {{operand defined here}}
  %e3 = npu_task.record 3 on 0
  func.return
}

// -----

// An event is recorded again while the wait for it may not have passed.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  npu_task.launch @c on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  // expected-error@+1 {{event 0 is recorded again after launch of @c}}
  %e0a = npu_task.record 0 on 0
  func.return
}

// -----

// Its number is recorded again before the wait: the device would wait for the later one.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  %e0a = npu_task.record 0 on 0
  // expected-error@+1 {{event 0 is recorded again after launch of @a}}
  npu_task.wait %e0 on 1
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  npu_task.launch @c on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// Not again when it is sure to have passed.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @b on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  %e1 = npu_task.record 1 on 1
  npu_task.wait %e1 on 0
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  %e0a = npu_task.record 0 on 0
  npu_task.wait %e0a on 1
  npu_task.launch @c on 1 ins(%a : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  func.return
}
// CHECK: npu_task.wait %e1 on 0{{$}}

// -----

// On a stream that the program does not have.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  // expected-error@+1 {{is on none of the 2 streams}}
  npu_task.launch @a on 2 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// More streams than the target has.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
// expected-error@+1 {{the program has 5000 streams, 910b2 has 1984}}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 5000 : i64} {
  func.return
}

// -----

// More bytes alive than stated when streams run apart: 512 for each buffer.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64, npu_task.cap_bytes = 1024 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  // expected-error@+1 {{1536 bytes may be live when stream 0 runs ahead, not 1024}}
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  npu_task.launch @b on 0 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  npu_task.launch @c on 1 ins(%x : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  func.return
}

// -----

// With an event there are never more.
npu_task.kernel @a on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @b on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @c on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">) attributes {npu_task.streams = 2 : i64, npu_task.cap_bytes = 1024 : i64} {
  %a = memref.alloc() : memref<4x4xf32, "hbm">
  %b = memref.alloc() : memref<4x4xf32, "hbm">
  %c = memref.alloc() : memref<4x4xf32, "hbm">
  npu_task.launch @a on 0 ins(%x : memref<4x4xf32, "hbm">) outs(%a : memref<4x4xf32, "hbm">)
  npu_task.launch @b on 0 ins(%a : memref<4x4xf32, "hbm">) outs(%b : memref<4x4xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.launch @c on 1 ins(%x : memref<4x4xf32, "hbm">) outs(%c : memref<4x4xf32, "hbm">)
  func.return
}
// CHECK: npu_task.wait %e0 on 1{{$}}
