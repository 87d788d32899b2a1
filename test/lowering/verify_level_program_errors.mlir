// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'verify-level{level=program}'

func.func @main(%x: memref<4xf32, "host">) {
  // expected-error@+1 {{a buffer of the device has no slot: plan-memory was not run}}
  %0 = memref.alloc() : memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.io_bytes = 512 : i64} {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{@main does not say how many streams there are: assign-streams was not run}}
  npu_task.copy %x to %0 on 0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.io_bytes = 512 : i64, npu_task.streams = 2 : i64} {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{npu_task.copy is on no stream}}
  npu_task.copy %x to %0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main(%x: memref<4xf32, "host">) attributes {npu_task.io_bytes = 512 : i64, npu_task.streams = 2 : i64} {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  // expected-error@+1 {{stream 2 is not one of 2}}
  npu_task.copy %x to %0 on 2 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main() attributes {npu_task.streams = 5000 : i64, npu_task.events = 1 : i64} {
  // expected-error@+1 {{5000 streams are more than 910b2 has}}
  %e0 = npu_task.record 0 on 0
  func.return
}

// -----

func.func @main() attributes {npu_task.streams = 2 : i64, npu_task.events = 1 : i64} {
  // expected-error@+1 {{event 1 is not one of 1}}
  %e1 = npu_task.record 1 on 0
  func.return
}

// -----

func.func @main() attributes {npu_task.streams = 2 : i64, npu_task.events = 2000 : i64, npu_task.target = "310p3"} {
  // expected-error@+1 {{2000 events are more than 310p3 has}}
  %e1 = npu_task.record 1 on 0
  func.return
}

// -----

func.func @main() attributes {npu_task.arena_bytes = 1024 : i64} {
  // expected-error@+1 {{the slot ends at byte 1028, but the arena has 1024}}
  %0 = npu_task.slot arena 512 : memref<129xf32, "hbm">
  func.return
}

// -----

func.func @main() {
  // expected-error@+1 {{@main does not say how large the arena is: plan-memory was not run}}
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main() attributes {npu_task.arena_bytes = 1024 : i64} {
  // expected-error@+1 {{offset 64 is no multiple of 512}}
  %0 = npu_task.slot arena 64 : memref<4xf32, "hbm">
  func.return
}

// -----

func.func @main() attributes {npu_task.arena_bytes = 1024 : i64, npu_task.alignment = 64 : i64} {
  %0 = npu_task.slot arena 64 : memref<4xf32, "hbm">
  // expected-error@+1 {{memref<4xf32> is not in a memory space of npu_task}}
  %1 = memref.alloc() : memref<4xf32>
  func.return
}

// -----

// expected-error@+1 {{not legal at the program level: func.func defines a value of type tensor<4xf32>}}
func.func @main(%x: tensor<4xf32>) {
  func.return
}

// -----

func.func @main() {
  // expected-error@+1 {{npu_task.constant defines a value of type tensor<4xf32>}}
  %0 = npu_task.constant dense<1.0> : tensor<4xf32> as tensor<4xf32>
  func.return
}
