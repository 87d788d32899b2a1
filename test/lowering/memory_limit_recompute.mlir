// Over the memory limit: %0 is computed again before its late use, which gives the same numbers; no order
// helps, nothing goes to the host.
// RUN: ge-compile %s --fusion off --memory-limit 2200K --remarks --report %t.json -o %t.mlir 2>&1 | filecheck %s
// RUN: cat %t.json | filecheck %s --check-prefix=REPORT
// RUN: ge-check %t.mlir
// RUN: ge-opt %t.mlir -p verify-plan,verify-schedule | filecheck %s --check-prefix=PROGRAM
// RUN: ge-run %t.mlir --sanitize --outputs %t.npz
// What a limit that is too small for all remedies says of each of them.
// RUN: not ge-compile %s --fusion off --memory-limit 100K -o %t.mlir 2>&1 | filecheck %s --check-prefix=ERROR

// CHECK: remark: over the memory limit; order: another order of the launches saves nothing
// CHECK: remark: over the memory limit; recompute: computing values again saves {{[0-9]+}} bytes
// CHECK-NOT: remark: over the memory limit; spill

// REPORT: "remedy": "recompute"
// REPORT: "applied": true

// PROGRAM:     npu_task.recomputed = 1 : i64,
// PROGRAM-NOT: npu_task.spilled_bytes

// ERROR: error: the arena needs {{[0-9]+}} bytes, its limit is 102400; with all that helps it needs {{[0-9]+}}
// ERROR: note: order: another order of the launches saves nothing
// ERROR: note: recompute: computing values again saves {{[0-9]+}} bytes
// ERROR: note: spill: host memory for buffers saves nothing
func.func @main(%x: tensor<256x1024xf32>, %y: tensor<256x1024xf32>) -> tensor<1x1xf32> {
  %0 = graph.exp %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %2 = graph.reduce sum %0 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  %3 = graph.add %y, %2 : (tensor<256x1024xf32>, tensor<1x1xf32>) -> tensor<256x1024xf32>
  %4 = graph.softmax %3 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %5 = graph.transpose %4 permutation [1, 0] : (tensor<256x1024xf32>) -> tensor<1024x256xf32>
  %6 = graph.reduce sum %5 axes [0, 1] : (tensor<1024x256xf32>) -> tensor<1x1xf32>
  %7 = graph.add %2, %6 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %8 = graph.mul %0, %7 : (tensor<256x1024xf32>, tensor<1x1xf32>) -> tensor<256x1024xf32>
  %9 = graph.reduce max %8 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  func.return %9 : tensor<1x1xf32>
}
