// Two wide values that become narrow: one after the other they need half the memory.
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks' | filecheck %s
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks{orders=program}' | filecheck %s --check-prefix=PROGRAM
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks{orders=depth-first}' | filecheck %s --check-prefix=DEPTH
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks,bufferize-tasks,assign-streams,plan-memory,verify-plan' | filecheck %s --check-prefix=PLAN
// RUN: ge-compile %s -o %t.mlir --memory 2
// RUN: filecheck %s --check-prefix=LEVEL < %t.mlir
// RUN: not ge-opt %s -p 'lower-to-tasks,order-tasks{orders=best}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  npu_task.order = "depth-first"
// CHECK:       launch @exp_0 ins
// CHECK:       launch @reduce_0 ins
// CHECK:       launch @exp_0 ins
// CHECK:       launch @reduce_0 ins
// CHECK:       launch @add_0 ins
// PROGRAM: npu_task.order = "program, exact windows"
// DEPTH:   npu_task.order = "depth-first"
// PLAN:    npu_task.arena_bytes = 263168 :
// LEVEL:   npu_task.order = "
// UNKNOWN: error: there is no order 'best'; orders: program, depth-first, memory-greedy, critical-path
func.func @main(%x: tensor<64x1024xf32>, %y: tensor<64x1024xf32>) -> tensor<64x1xf32> {
  %0 = graph.exp %x : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %1 = graph.exp %y : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %2 = graph.reduce sum %0 axes [1] : (tensor<64x1024xf32>) -> tensor<64x1xf32>
  %3 = graph.reduce sum %1 axes [1] : (tensor<64x1024xf32>) -> tensor<64x1xf32>
  %4 = graph.add %2, %3 : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  func.return %4 : tensor<64x1xf32>
}
