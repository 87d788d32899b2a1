// A result of the model that is a part of a wide value keeps all of that until it is copied to the
// host, after all launches: it is computed again before the function returns.
// RUN: ge-opt %s -p 'lower-to-tasks,rematerialize{slower=1.4},verify-level{level=tasks}' | filecheck %s
// RUN: ge-opt %s -p 'lower-to-tasks,rematerialize{slower=1.4},bufferize-tasks,assign-streams,plan-memory,verify-plan' | filecheck %s --check-prefix=PLAN
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks,verify-level{level=tasks}' | filecheck %s --check-prefix=ORDER

// CHECK:       npu_task.recomputed = 1 :
// CHECK:       launch @exp_0 ins(%x :
// CHECK:       launch @reduce_0 ins
// CHECK:       launch @exp_0 ins(%y :
// CHECK:       launch @neg_0 ins
// CHECK:       launch @reduce_0 ins
// CHECK:       [[B:%[0-9]+]] = npu_task.launch @exp_0 ins(%x :
// CHECK-NEXT:  [[P:%[0-9]+]] = graph.slice [[B]] starts
// CHECK-NEXT:  func.return {{.*}}, [[P]] :
// PLAN:   npu_task.arena_bytes = 2097152 :
// ORDER:  npu_task.order
// ORDER:  func.return
func.func @main(%x: tensor<256x1024xf32>, %y: tensor<256x1024xf32>)
    -> (tensor<1x1xf32>, tensor<1x1xf32>, tensor<2x1024xf32>) {
  %0 = graph.exp %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %1 = graph.reduce sum %0 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  %2 = graph.exp %y : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %3 = graph.neg %2 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %4 = graph.reduce sum %3 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  %5 = graph.slice %0 starts [4] ends [6] axes [0] : (tensor<256x1024xf32>) -> tensor<2x1024xf32>
  func.return %1, %4, %5 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<2x1024xf32>
}
