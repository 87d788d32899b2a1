// Over the memory limit: fusion for memory is enough, where time alone would keep the sum (in a buffer of
// its own, if results are not put over operands).
// RUN: ge-compile %s --target 910_merged --fusion-disable overwrite-operands --memory-limit 512K --remarks -o %t.mlir 2>&1 | filecheck %s
// RUN: ge-opt %t.mlir -p verify-plan | filecheck %s --check-prefix=PLAN

// CHECK: remark: over the memory limit; order: another order of the launches saves nothing
// CHECK: remark: over the memory limit; fuse: fusion for memory saves 1048576 bytes

// PLAN: npu_task.arena_bytes = 0 : i64,
func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
