// RUN: ge-opt %s --split-input-file -p 'expand-gears{dims="2;3"}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'expand-gears{dims="2;3"},verify-level{level=fused},lower-to-tasks,verify-level{level=tasks},bufferize-tasks,verify-level{level=buffers},assign-streams,plan-memory,verify-level{level=program}' | filecheck %s --check-prefix PROGRAM

// A body for each gear, with types of its own; weights stay outside, and what is equal in all.
func.func @main(%x: tensor<?x4xf32> {graph.name = "x", graph.dims = ["n", ""]},
                %z: tensor<4xf32> {graph.name = "z"}) -> (tensor<?x4xf32>, tensor<4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %1 = graph.exp %z : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %2, %1 : tensor<?x4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %w = graph.constant
// CHECK-NEXT:    %[[G:.*]] = graph.map_index %x axes [0] table [array<i64: 2>, array<i64: 3>]
// CHECK-NEXT:    %[[E:.*]] = graph.exp %z :
// CHECK-NEXT:    %[[Y:.*]] = graph.case %[[G]] : (tensor<i64>) -> tensor<?x4xf32> {
// CHECK-NEXT:      %[[A:.*]] = graph.assume_shape %x shape [2, 4] : (tensor<?x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:      %[[B:.*]] = graph.matmul %[[A]], %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:      %[[C:.*]] = graph.add %[[B]], %[[E]] : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:      graph.yield %[[C]] : tensor<2x4xf32>
// CHECK-NEXT:    } {
// CHECK:           graph.matmul {{.*}} -> tensor<3x4xf32>
// CHECK:         func.return %[[Y]], %[[E]] : tensor<?x4xf32>, tensor<4xf32>

// Inputs and outputs of the gears share the bytes after those that all have; one constant.
// PROGRAM:       npu_task.arena_bytes = 512 :
// PROGRAM:       npu_task.constant
// PROGRAM-NOT:   npu_task.constant
// PROGRAM:       %[[G:.*]] = npu_task.map_index %x axes
// PROGRAM:       npu_task.case %[[G]] :
// PROGRAM-NEXT:    %[[X:.*]] = npu_task.slot io [[IO:[0-9]+]] : memref<2x4xf32,
// PROGRAM-NEXT:    npu_task.copy %x to %[[X]] on
// PROGRAM:       } {
// PROGRAM-NEXT:    npu_task.slot io [[IO]] : memref<3x4xf32,
// PROGRAM-NOT:   npu_task.constant

// -----

// Shape arithmetic is computed, in fused ops too.
func.func @main(%x: tensor<?x4xf32> {graph.dims = ["n", ""]}) -> tensor<?x?xf32> {
  %two = graph.constant dense<2> : tensor<1xi64>
  %s = fused_op.region(%x, %two) : (tensor<?x4xf32>, tensor<1xi64>) -> tensor<2xi64> {
  ^bb0(%a: tensor<?x4xf32>, %t: tensor<1xi64>):
    %n = graph.shape_of %a end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
    %m = graph.mul %n, %t : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
    %c = graph.concat %m, %t axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    fused_op.yield %c : tensor<2xi64>
  }
  %y = fused_op.region(%x, %s) : (tensor<?x4xf32>, tensor<2xi64>) -> tensor<?x?xf32> {
  ^bb0(%a: tensor<?x4xf32>, %t: tensor<2xi64>):
    %e = graph.exp %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %r = graph.reshape %e shape %t : (tensor<?x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %q = graph.neg %r : (tensor<?x?xf32>) -> tensor<?x?xf32>
    fused_op.yield %q : tensor<?x?xf32>
  }
  func.return %y : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     graph.shape_of
// CHECK:         graph.case
// CHECK:           fused_op.region(%{{.*}}) : (tensor<2x4xf32>) -> tensor<4x2xf32>
// CHECK:             graph.reshape {{.*}} shape [4, 2]
// CHECK:         } {
// CHECK:           fused_op.region(%{{.*}}) : (tensor<3x4xf32>) -> tensor<6x2xf32>
// CHECK-NOT:     graph.shape_of

// -----

// What has the same shape in all gears is written into one buffer.
func.func @main(%x: tensor<?x4xf32> {graph.dims = ["n", ""]}) -> tensor<1x4xf32> {
  %y = graph.reduce sum %x axes [0] : (tensor<?x4xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:         graph.case %{{.*}} : (tensor<i64>) -> tensor<1x4xf32>
// PROGRAM:       npu_task.case %{{.*}} outs(%[[Y:.*]] : memref<1x4xf32,
// PROGRAM:         npu_task.launch {{.*}} outs(%[[Y]] :
// PROGRAM:         npu_task.launch {{.*}} outs(%[[Y]] :
