// RUN: ge-opt %s --validate -p 'mark-state{patterns="h=next","n=m"},fuse-linear,lower-to-tasks,bufferize-tasks,update-state,assign-streams,plan-memory' | filecheck %s

// What a program keeps counts as the output that it was.

// CHECK:     npu_task.slot state 0 {npu_task.state = "h"
// CHECK-NOT: graph.name = "next"
func.func @main(%x: tensor<4x8xf32> {graph.name = "x"}, %h: tensor<4x8xf32> {graph.name = "h"},
                %n: tensor<8xf32> {graph.name = "n"})
    -> (tensor<4x8xf32> {graph.name = "y"}, tensor<4x8xf32> {graph.name = "next"},
        tensor<8xf32> {graph.name = "m"}) {
  %0 = graph.add %h, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.exp %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2, %1, %n : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>
}
