// Over the memory limit: another order of the launches is enough, so nothing else is done.
// RUN: ge-compile %s --fusion off --memory-limit 1100K --remarks --report %t.json -o %t.mlir 2>&1 | filecheck %s
// RUN: cat %t.json | filecheck %s --check-prefix=REPORT
// RUN: ge-opt %t.mlir | filecheck %s --check-prefix=PROGRAM
// Without a limit the order stays.
// RUN: ge-compile %s --fusion off -o - | filecheck %s --check-prefix=FREE

// CHECK: remark: over the memory limit; order: another order of the launches saves {{[0-9]+}} bytes
// CHECK-NOT: remark: over the memory limit
// PROGRAM: npu_task.order = "depth-first"{{.*}}npu_task.arena_bytes = 1050624 :

// REPORT: "remedies": [
// REPORT: "remedy": "order"
// REPORT: "applied": true

// FREE-NOT: npu_task.order
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x1xf32> {
  %0 = graph.exp %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.neg %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.reduce sum %0 axes [1] : (tensor<512x512xf32>) -> tensor<512x1xf32>
  %3 = graph.reduce sum %1 axes [1] : (tensor<512x512xf32>) -> tensor<512x1xf32>
  %4 = graph.add %2, %3 : (tensor<512x1xf32>, tensor<512x1xf32>) -> tensor<512x1xf32>
  func.return %4 : tensor<512x1xf32>
}
