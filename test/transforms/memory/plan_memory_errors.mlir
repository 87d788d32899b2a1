// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'plan-memory{target="%S/Inputs/tiny.toml"}'
// RUN: not ge-opt %s --split-input-file -p 'plan-memory{alignment=48}' 2>&1 | filecheck %s --check-prefix=ALIGN

// ALIGN: error: alignment is a power of two, not 48 (

// expected-error@+1 {{@main has no streams; run assign-streams first}}
func.func @main() {
  func.return
}

// -----

func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 1 : i64} {
  %0 = memref.alloc() : memref<128xf32, "hbm">
  // expected-error@+1 {{npu_task.copy is on no stream; run assign-streams first}}
  npu_task.copy %x to %0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  func.return
}

// -----

// The peak is told with what is alive at it, the largest first.
// expected-note-re@unknown {{the peak is at copy ({{.*}}), with 2 buffers of 2400 bytes, 3072 with padding to 512:}}
// expected-note-re@unknown {{1600 bytes (400xf32): made by copy {{.*}}, last used by copy {{.*}}}}
// expected-note-re@unknown {{800 bytes (200xf32): made by copy {{.*}}, last used by copy {{.*}}}}
// expected-error@+1 {{the program needs 4608 bytes (arena 3072, weights 512, inputs and outputs 1024), tiny has 4096; use smaller shapes, or a target with more memory}}
func.func @main(%x: memref<200xf32, "host">, %z: memref<400xf32, "host">) attributes {npu_task.streams = 1 : i64} {
  %w = npu_task.constant #graph.weight<"w"> as memref<4xf32, "hbm">
  %0 = memref.alloc() {npu_task.io} : memref<200xf32, "hbm">
  %1 = memref.alloc() : memref<200xf32, "hbm">
  %2 = memref.alloc() : memref<400xf32, "hbm">
  %3 = memref.alloc() : memref<200xf32, "hbm">
  npu_task.copy %x to %0 on 0 : memref<200xf32, "host"> to memref<200xf32, "hbm">
  npu_task.copy %0 to %1 on 0 : memref<200xf32, "hbm"> to memref<200xf32, "hbm">
  npu_task.copy %z to %2 on 0 : memref<400xf32, "host"> to memref<400xf32, "hbm">
  npu_task.copy %1 to %0 on 0 : memref<200xf32, "hbm"> to memref<200xf32, "hbm">
  npu_task.copy %0 to %3 on 0 : memref<200xf32, "hbm"> to memref<200xf32, "hbm">
  func.return
}
