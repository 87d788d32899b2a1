// Over the memory limit: %0 goes to the host while %1 to %4 are computed, which gives the same numbers.
// No order helps, and there is nothing to fuse (see `memory_limit_order.mlir`).
// RUN: ge-compile %s --fusion off --memory-limit 2M --remarks -o %t.mlir 2>&1 | filecheck %s
// RUN: ge-opt %t.mlir -p 'verify-plan,verify-schedule' | filecheck %s --check-prefix=PLAN
// Where nothing helps, the error tells the peak, and what each remedy would have saved.
// RUN: not ge-compile %s --fusion off --memory-limit 1000000 -o %t.mlir 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not ge-compile %s --fusion off --memory-limit 10X 2>&1 | filecheck %s --check-prefix=TEXT

// CHECK: remark: over the memory limit; order: another order of the launches saves nothing
// CHECK: remark: over the memory limit; spill: host memory for buffers saves 1048576 bytes

// PLAN: npu_task.spilled_bytes = 1048576 : i64, {{.*}}npu_task.arena_bytes = 2097152 : i64,

// ERROR:      error: the arena needs 3145728 bytes, its limit is 1000000; {{.*}}use smaller shapes
// ERROR-NEXT: func.func
// ERROR-NEXT: ^
// ERROR-NEXT: note: the peak is at @
// ERROR-NEXT: note: 1048576 bytes (512x512xf32): made by {{.*}}, last used by
// ERROR:      note: order: another order of the launches saves nothing
// ERROR-NEXT: note: recompute: computing values again saves nothing
// ERROR-NEXT: note: spill: host memory for buffers saves

// TEXT: error: argument --memory-limit: a number of bytes such as 1000000, 512K, 64M or 1.5G, not '10X'
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = graph.exp %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.transpose %1 permutation [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = graph.softmax %2 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %4 = graph.transpose %3 permutation [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %5 = graph.add %0, %4 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %6 = graph.transpose %5 permutation [1, 0] : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %6 : tensor<512x512xf32>
}
