// RUN: ge-opt %s --split-input-file --verify-diagnostics -p verify-plan

// Nothing orders the reader after the writer.
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.streams = 2 : i64, npu_task.io_bytes = 512 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  %1 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  // expected-error-re@+1 {{the plan is not safe: launch of @neg_0 reads what npu_task.copy ({{.*}}) may still be writing}}
  npu_task.launch @neg_0 on 1 ins(%0 : memref<4xf32, "hbm">) outs(%1 : memref<4xf32, "hbm">)
  func.return
}

// -----

// Two buffers in use at one time have common bytes.
func.func @main(%x: memref<4xf32, "host">) -> memref<4xf32, "host"> attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  %1 = npu_task.slot arena 8 : memref<4xf32, "hbm">
  %2 = memref.alloc() : memref<4xf32, "host">
  npu_task.copy %x to %0 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.copy %x to %1 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  // expected-error-re@+1 {{the plan is not safe: npu_task.copy reads bytes that npu_task.copy ({{.*}}) has overwritten}}
  npu_task.copy %0 to %2 on 0 : memref<4xf32, "hbm"> to memref<4xf32, "host">
  func.return %2 : memref<4xf32, "host">
}

// -----

// Nothing was written; a view goes too far.
func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  %1 = npu_task.slot arena 8 : memref<4xf32, "hbm">
  // expected-error@+1 {{npu_task.copy reads bytes that nothing has written [M2]; the view ends at byte 20 of 16 [M14]}}
  npu_task.copy %0 to %1 on 0 : memref<4xf32, "hbm"> to memref<4xf32, "hbm">
  %2 = memref.reinterpret_cast %1 to offset: [3], sizes: [2], strides: [1] : memref<4xf32, "hbm"> to memref<2xf32, strided<[1], offset: 3>, "hbm">
  func.return
}

// -----

// One task reads and writes the same bytes as parts of two buffers.
func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  %1 = npu_task.slot arena 8 : memref<4xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  // expected-error@+1 {{npu_task.copy writes bytes that it reads as operand 0}}
  npu_task.copy %0 to %1 on 0 : memref<4xf32, "hbm"> to memref<4xf32, "hbm">
  func.return
}

// -----

// In place: allowed to the elementwise kernel, not to the one that moves elements, nor elsewhere
// than at the same place.
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<2x2xf32>):
  %1 = graph.neg %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  npu_task.return %1 : tensor<2x2xf32>
}
npu_task.kernel @transpose_0 on vector {
^bb0(%0: tensor<2x2xf32>):
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  npu_task.return %1 : tensor<2x2xf32>
}
func.func @main(%x: memref<2x2xf32, "host">) attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<2x2xf32, "hbm">
  %1 = npu_task.slot arena 8 : memref<2x2xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<2x2xf32, "host"> to memref<2x2xf32, "hbm">
  npu_task.launch @neg_0 on 0 ins(%0 : memref<2x2xf32, "hbm">) outs(%0 : memref<2x2xf32, "hbm">)
  // expected-error@+1 {{the plan is not safe: launch of @transpose_0 writes bytes that it reads as operand 0 [M4]; launch of @neg_0 writes bytes that it reads as operand 0 [M4]}}
  npu_task.launch @transpose_0 on 0 ins(%0 : memref<2x2xf32, "hbm">) outs(%0 : memref<2x2xf32, "hbm">)
  npu_task.launch @neg_0 on 0 ins(%0 : memref<2x2xf32, "hbm">) outs(%1 : memref<2x2xf32, "hbm">)
  func.return
}

// -----

// The second iteration of a loop reads what the first one has overwritten.
func.func @main(%n: memref<i64, "hbm">, %x: memref<4xf32, "host">) attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 1024 : i64} {
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.loop trip %n : memref<i64, "hbm"> order [] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">):
    %1 = npu_task.slot arena 512 : memref<4xf32, "hbm">
    %2 = npu_task.slot arena 0 : memref<4xf32, "hbm">
    // expected-error-re@+1 {{the plan is not safe: npu_task.copy reads bytes that npu_task.copy ({{.*}}) has overwritten}}
    npu_task.copy %0 to %1 on 0 : memref<4xf32, "hbm"> to memref<4xf32, "hbm">
    npu_task.copy %1 to %2 on 0 : memref<4xf32, "hbm"> to memref<4xf32, "hbm">
    npu_task.yield %go : memref<i1, "hbm">
  }
  func.return
}

// -----

func.func @main(%c: memref<i1, "hbm">) attributes {npu_task.streams = 1 : i64} {
  %e3 = npu_task.record 3 on 0
  npu_task.if %c : memref<i1, "hbm"> order [] {
    npu_task.yield
  } else {
    npu_task.yield
  }
  // expected-error@+1 {{the plan is not safe: event 3 is waited for, but was not recorded since the last barrier}}
  npu_task.wait %e3 on 0
  func.return
}

// -----

// Views of packed elements: rows of whole bytes, and the odd end of the buffer; not parts of bytes.
func.func @main(%x: memref<3x5xi4, "host">) attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<3x5xi4, "hbm">
  npu_task.copy %x to %0 on 0 : memref<3x5xi4, "host"> to memref<3x5xi4, "hbm">
  %even = memref.reinterpret_cast %0 to offset: [2], sizes: [4], strides: [1] : memref<3x5xi4, "hbm"> to memref<4xi4, strided<[1], offset: 2>, "hbm">
  %end = memref.reinterpret_cast %0 to offset: [8], sizes: [7], strides: [1] : memref<3x5xi4, "hbm"> to memref<7xi4, strided<[1], offset: 8>, "hbm">
  %rows = memref.reinterpret_cast %0 to offset: [0], sizes: [2, 2], strides: [4, 1] : memref<3x5xi4, "hbm"> to memref<2x2xi4, strided<[4, 1]>, "hbm">
  // expected-error@+1 {{a view of packed i4 has whole bytes, not parts of them: copy it}}
  %odd = memref.reinterpret_cast %0 to offset: [1], sizes: [4], strides: [1] : memref<3x5xi4, "hbm"> to memref<4xi4, strided<[1], offset: 1>, "hbm">
  func.return
}

// -----

// A packed buffer has as many bytes as its elements: [0, 8) and [8, 24) are apart, [7, 15) is not.
func.func @main(%x: memref<3x5xi4, "host">, %y: memref<4xf32, "host">) -> memref<3x5xi4, "host"> attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 512 : i64} {
  %0 = npu_task.slot arena 0 : memref<3x5xi4, "hbm">
  %1 = npu_task.slot arena 8 : memref<4xf32, "hbm">
  %2 = npu_task.slot arena 7 : memref<3x5xi4, "hbm">
  %3 = memref.alloc() : memref<3x5xi4, "host">
  npu_task.copy %x to %0 on 0 : memref<3x5xi4, "host"> to memref<3x5xi4, "hbm">
  npu_task.copy %y to %1 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.copy %0 to %3 on 0 : memref<3x5xi4, "hbm"> to memref<3x5xi4, "host">
  npu_task.copy %x to %2 on 0 : memref<3x5xi4, "host"> to memref<3x5xi4, "hbm">
  // expected-error-re@+1 {{the plan is not safe: npu_task.copy reads bytes that npu_task.copy ({{.*}}) has overwritten}}
  npu_task.copy %0 to %3 on 0 : memref<3x5xi4, "hbm"> to memref<3x5xi4, "host">
  func.return %3 : memref<3x5xi4, "host">
}
