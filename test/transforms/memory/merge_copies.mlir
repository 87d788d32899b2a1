// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks{target=910_merged},bufferize-tasks,write-parts,merge-copies,verify-level{level=buffers}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks{target=910_merged},bufferize-tasks,write-parts,overwrite-operands,merge-copies,assign-streams,plan-memory,verify-level{level=program},verify-plan'
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks{target=910_merged},bufferize-tasks,write-parts,merge-copies{limit=1024}' | filecheck %s --check-prefix SHORT

// Small inputs in one copy, the large one alone; small outputs when the last one is there.
func.func @main(%a: tensor<8xi64>, %b: tensor<64x128xf32>, %c: tensor<4x8xf32>, %d: tensor<8xf16>)
    -> (tensor<8xi64>, tensor<64x128xf32>, tensor<4x8xf32>, tensor<8xf16>) {
  %0 = graph.add %a, %a : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %1 = graph.exp %b : (tensor<64x128xf32>) -> tensor<64x128xf32>
  %2 = graph.exp %c : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.exp %d : (tensor<8xf16>) -> tensor<8xf16>
  func.return %0, %1, %2, %3 : tensor<8xi64>, tensor<64x128xf32>, tensor<4x8xf32>, tensor<8xf16>
}
// CHECK:       [[A:%.*]] = memref.alloc() {npu_task.io} : memref<8xi64, "hbm">
// CHECK-NEXT:  [[C:%.*]] = memref.alloc() {npu_task.io} : memref<4x8xf32, "hbm">
// CHECK-NEXT:  [[D:%.*]] = memref.alloc() {npu_task.io} : memref<8xf16, "hbm">
// CHECK-NEXT:  npu_task.batch_copy %a, %c, %d to [[A]], [[C]], [[D]] :
// CHECK:       npu_task.copy %b to
// CHECK:       [[X:%.*]] = memref.alloc() {npu_task.io} : memref<8xi64,
// CHECK-NEXT:  [[Y:%.*]] = memref.alloc() {npu_task.io} : memref<4x8xf32,
// CHECK-NEXT:  [[Z:%.*]] = memref.alloc() {npu_task.io} : memref<8xf16,
// CHECK:       npu_task.launch @exp_2 ins
// CHECK:       npu_task.copy
// CHECK:       npu_task.batch_copy [[X]], [[Y]], [[Z]] to
// CHECK-NEXT:  func.return
// SHORT:       npu_task.batch_copy %a, %c to
// SHORT:       npu_task.copy %d to

// -----

// Nothing is merged: an input is a part of an output, one is an output itself, one is the only one
// left. The two outputs of a launch that shares a buffer with an input are too.
func.func @main(%p: tensor<4x8xf32>, %x: tensor<2x8xf32>) -> (tensor<6x8xf32>, tensor<2x8xf32>) {
  %0 = graph.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.concat %p, %0 axis 0 : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  func.return %1, %x : tensor<6x8xf32>, tensor<2x8xf32>
}
// CHECK-NOT:   npu_task.batch_copy

// -----

// Sizes that are not known are copied as they were.
func.func @main(%x: tensor<?x8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = graph.add %x, %y : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %1 = graph.add %0, %z : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %1 : tensor<?x8xf32>
}
// CHECK:       npu_task.transfer %x :
// CHECK:       npu_task.batch_copy %y, %z to
// CHECK:       npu_task.transfer
