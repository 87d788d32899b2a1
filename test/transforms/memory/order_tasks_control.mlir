// A branch is one task that needs what is used inside; views stay behind what they show.
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks{orders=memory-greedy}' | filecheck %s
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks,bufferize-tasks,assign-streams,plan-memory,verify-plan'

// CHECK-LABEL: func.func @main(
// CHECK:       launch @exp_0 ins
// CHECK:       graph.reshape
// CHECK:       graph.if
// CHECK:         launch @neg_0 ins
// CHECK:       func.return
func.func @main(%c: tensor<i1>, %x: tensor<8x8xf32>) -> tensor<64xf32> {
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.reshape %0 shape [64] : (tensor<8x8xf32>) -> tensor<64xf32>
  %2 = graph.if %c : (tensor<i1>) -> tensor<64xf32> {
    %3 = graph.neg %1 : (tensor<64xf32>) -> tensor<64xf32>
    graph.yield %3 : tensor<64xf32>
  } else {
    graph.yield %1 : tensor<64xf32>
  }
  func.return %2 : tensor<64xf32>
}
