// RUN: ge-opt %s --split-input-file -p assign-offsets,check-capacity,certify-plan,verify-plan | filecheck %s
// RUN: ge-opt %s --split-input-file -p plan-memory,verify-plan | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'plan-memory{reuse=false},verify-plan' | filecheck %s --check-prefix=KEEP
// RUN: ge-opt %s --split-input-file -p 'plan-memory{alignment=64},verify-plan' | filecheck %s --check-prefix=ALIGN

// On one stream: a buffer that is not used any more gives its bytes to the next; inputs and outputs
// have their own; a buffer that nobody uses is gone; host memory is not planned.
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 1 : i64} {
  %0 = memref.alloc() {npu_task.io} : memref<128xf32, "hbm">
  %1 = memref.alloc() : memref<128xf32, "hbm">
  %2 = memref.alloc() : memref<100xf32, "hbm">
  %3 = memref.alloc() : memref<100xf32, "hbm">
  %4 = memref.alloc() : memref<128xf32, "hbm">
  %5 = memref.alloc() {npu_task.io} : memref<4xf32, "hbm">
  %w = npu_task.constant #graph.weight<"w"> as memref<130xf32, "hbm">
  %h = memref.alloc() : memref<128xf32, "host">
  npu_task.copy %x to %0 on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %0 to %1 on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
  %v = memref.reinterpret_cast %1 to offset: [28], sizes: [100], strides: [1] : memref<128xf32, "hbm"> to memref<100xf32, strided<[1], offset: 28>, "hbm">
  npu_task.copy %v to %2 on 0 : memref<100xf32, strided<[1], offset: 28>, "hbm"> to memref<100xf32, "hbm">
  npu_task.copy %0 to %4 on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
  npu_task.copy %4 to %h on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}
// CHECK:       npu_task.arena_bytes = 1024 : i64, npu_task.lower_bound_bytes = 1024 : i64, npu_task.no_reuse_bytes = 1536 : i64, npu_task.weight_bytes = 1024 : i64, npu_task.io_bytes = 1024 : i64, npu_task.alignment = 512 : i64,
// CHECK-NEXT:    npu_task.slot io 0 : memref<128xf32, "hbm">
// CHECK-NEXT:    npu_task.slot arena 0 : memref<128xf32, "hbm">
// CHECK-NEXT:    npu_task.slot arena 512 : memref<100xf32, "hbm">
// CHECK-NEXT:    npu_task.slot arena 0 : memref<128xf32, "hbm">
// CHECK-NEXT:    npu_task.slot io 512 : memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.constant
// CHECK-NEXT:    memref.alloc() : memref<128xf32, "host">
// KEEP:        npu_task.arena_bytes = 1536 : i64, npu_task.lower_bound_bytes = 1024 : i64, npu_task.no_reuse_bytes = 1536 : i64,
// KEEP:          npu_task.slot arena 0 : memref<128xf32,
// KEEP-NEXT:     npu_task.slot arena 512 : memref<100xf32,
// KEEP-NEXT:     npu_task.slot arena 1024 : memref<128xf32,
// ALIGN:       npu_task.arena_bytes = 960 : i64, npu_task.lower_bound_bytes = 960 : i64, npu_task.no_reuse_bytes = 1472 : i64, npu_task.weight_bytes = 576 : i64, npu_task.io_bytes = 576 : i64, npu_task.alignment = 64 : i64,

// -----

// Two streams that nothing orders would need bytes of their own; an event makes them share, in the
// order of the program.
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 2 : i64} {
  %0 = memref.alloc() : memref<128xf32, "hbm">
  %1 = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %x to %1 on 1 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  func.return
}
// CHECK:       npu_task.arena_bytes = 512 : i64, npu_task.lower_bound_bytes = 512 : i64,
// CHECK-SAME:  npu_task.certificate = {peak_bytes = 512 : i64, lower_bound_bytes = 512 : i64, gap_bytes = 0 : i64, optimal = true, live = array<i64: 0>}
// CHECK-NEXT:    npu_task.slot arena 0 :
// CHECK-NEXT:    npu_task.slot arena 0 :
// CHECK-NEXT:    npu_task.copy %x to %0 on 0 :
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 0{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:    npu_task.copy %x to %1 on 1 :

// -----

// With an event between them they share; one over a third stream orders too.
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 3 : i64} {
  %0 = memref.alloc() : memref<128xf32, "hbm">
  %1 = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 2
  %e1 = npu_task.record 1 on 2
  npu_task.wait %e1 on 1
  npu_task.copy %x to %1 on 1 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  func.return
}
// CHECK:       npu_task.arena_bytes = 512 : i64, npu_task.lower_bound_bytes = 512 : i64,
// CHECK-NEXT:    npu_task.slot arena 0 :
// CHECK-NEXT:    npu_task.slot arena 0 :

// -----

// A buffer that a loop's body uses lives through the loop; buffers of the body share with each
// other and with what is dead outside.
func.func @main(%n: memref<i64, "hbm">, %x: memref<128xf32, "host">) attributes {npu_task.streams = 1 : i64} {
  %a = memref.alloc() : memref<128xf32, "hbm">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %c = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %a to %b on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
  npu_task.loop trip %n : memref<i64, "hbm"> order [] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">):
    %d = memref.alloc() : memref<128xf32, "hbm">
    %e = memref.alloc() : memref<128xf32, "hbm">
    %f = memref.alloc() : memref<128xf32, "hbm">
    npu_task.copy %b to %d on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
    npu_task.copy %d to %e on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
    npu_task.copy %e to %f on 0 : memref<128xf32, "hbm"> to memref<128xf32, "hbm">
    npu_task.yield %go : memref<i1, "hbm">
  }
  npu_task.copy %x to %c on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  func.return
}
// CHECK:       npu_task.arena_bytes = 1536 : i64, npu_task.lower_bound_bytes = 1536 : i64,
// CHECK-NEXT:    %a = npu_task.slot arena 0 :
// CHECK-NEXT:    %b = npu_task.slot arena 512 :
// CHECK-NEXT:    %c = npu_task.slot arena 0 :
// CHECK:         npu_task.loop
// CHECK:           %d = npu_task.slot arena 0 :
// CHECK-NEXT:      %e = npu_task.slot arena 1024 :
// CHECK-NEXT:      %f = npu_task.slot arena 0 :

// -----

// Branches share bytes with each other; what they write for later is apart from both.
func.func @main(%p: memref<i1, "hbm">, %x: memref<128xf32, "host">) -> memref<128xf32, "host"> attributes {npu_task.streams = 2 : i64} {
  %y = memref.alloc() : memref<128xf32, "hbm">
  npu_task.if %p : memref<i1, "hbm"> outs(%y : memref<128xf32, "hbm">) order [1] {
    %a = memref.alloc() : memref<128xf32, "hbm">
    npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
    npu_task.yield %a : memref<128xf32, "hbm">
  } else {
    %b = memref.alloc() : memref<256xf32, "hbm">
    %v = memref.reinterpret_cast %b to offset: [0], sizes: [128], strides: [1] : memref<256xf32, "hbm"> to memref<128xf32, "hbm">
    npu_task.copy %x to %v on 1 : memref<128xf32, "host"> to memref<128xf32, "hbm">
    npu_task.yield %v : memref<128xf32, "hbm">
  }
  %h = memref.alloc() : memref<128xf32, "host">
  npu_task.copy %y to %h on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return %h : memref<128xf32, "host">
}
// CHECK:       npu_task.arena_bytes = 1536 : i64, npu_task.lower_bound_bytes = 1536 : i64,
// CHECK-NEXT:    %y = npu_task.slot arena 0 :
// CHECK:           %a = npu_task.slot arena 512 :
// CHECK:           %b = npu_task.slot arena 512 :

// -----

// What the device allocates as it runs is not planned.
func.func @main(%x: memref<?xf32, "host">) -> memref<?xf32, "host"> attributes {npu_task.streams = 1 : i64} {
  %0 = npu_task.transfer %x on 0 : memref<?xf32, "host"> to memref<?xf32, "hbm">
  %1 = npu_task.transfer %0 on 0 : memref<?xf32, "hbm"> to memref<?xf32, "host">
  func.return %1 : memref<?xf32, "host">
}
// CHECK:       npu_task.arena_bytes = 0 : i64, npu_task.lower_bound_bytes = 0 : i64, npu_task.no_reuse_bytes = 0 : i64, npu_task.weight_bytes = 0 : i64, npu_task.io_bytes = 0 : i64,
// CHECK-NEXT:    npu_task.transfer
