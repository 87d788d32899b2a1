// A wide value has a late use, other wide values are in memory meanwhile: it is computed again.
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize' | filecheck %s
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{slower=1.05}' | filecheck %s --check-prefix=KEPT
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{slower=1}' | filecheck %s --check-prefix=KEPT
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{limit=4000000}' | filecheck %s --check-prefix=KEPT
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{limit=2500000 slower=1.2}' | filecheck %s
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},bufferize-tasks,assign-streams{in-order=true},plan-memory,verify-plan' | filecheck %s --check-prefix=BEFORE
// RUN: ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{slower=1.2},bufferize-tasks,assign-streams{in-order=true},plan-memory,verify-plan' | filecheck %s --check-prefix=AFTER
// RUN: not ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{slower=0.5}' 2>&1 | filecheck %s --check-prefix=SLOWER
// RUN: not ge-opt %s -p 'lower-to-tasks{target=910_merged},rematerialize{limit=-1}' 2>&1 | filecheck %s --check-prefix=LIMIT

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  npu_task.recomputed = 1 :
// CHECK:       [[A:%[0-9]+]] = npu_task.launch @exp_0 ins(%x :
// CHECK:       graph.reshape [[A]] shape
// CHECK:       launch @reduce_0 ins
// CHECK:       launch @exp_0 ins(%y :
// CHECK:       launch @neg_0 ins
// CHECK:       launch @abs_0 ins
// CHECK:       launch @reduce_1 ins
// CHECK:       [[B:%[0-9]+]] = npu_task.launch @exp_0 ins(%x :
// CHECK-NEXT:  [[V:%[0-9]+]] = graph.reshape [[B]] shape
// CHECK:       launch @mul_0 ins([[V]], 
// KEPT-NOT: npu_task.recomputed
// BEFORE:  npu_task.arena_bytes = 3146240 :
// AFTER:   npu_task.arena_bytes = 2097664 :
// SLOWER:  error: slower is at least 1, not 0.5 (
// LIMIT:   error: limit is a number of bytes, not -1 (
func.func @main(%x: tensor<256x1024xf32>, %y: tensor<256x1024xf32>) -> tensor<1x1xf32> {
  %0 = graph.exp %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %1 = graph.reshape %0 shape [1024, 256] : (tensor<256x1024xf32>) -> tensor<1024x256xf32>
  %2 = graph.reduce sum %1 axes [0, 1] : (tensor<1024x256xf32>) -> tensor<1x1xf32>
  %3 = graph.exp %y : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %4 = graph.neg %3 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %5 = graph.abs %4 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %6 = graph.reduce sum %5 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  %7 = graph.add %2, %6 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %8 = graph.mul %1, %7 : (tensor<1024x256xf32>, tensor<1x1xf32>) -> tensor<1024x256xf32>
  %9 = graph.reduce max %8 axes [0, 1] : (tensor<1024x256xf32>) -> tensor<1x1xf32>
  func.return %9 : tensor<1x1xf32>
}
