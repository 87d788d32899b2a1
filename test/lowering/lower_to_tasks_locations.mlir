// RUN: ge-opt %s -p lower-to-tasks,bufferize-tasks --print-debuginfo | filecheck %s
// RUN: ge-opt %s -p lower-to-tasks,bufferize-tasks,assign-streams,plan-memory --print-debuginfo | filecheck %s

// The model's names stay with the launches down to the program.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32> loc("encoder/exp")
  %1 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32> loc("decoder/exp")
  func.return %1 : tensor<4xf32>
}
// CHECK:         npu_task.launch @exp_0 {{.*}}loc("encoder/exp")
// CHECK:         npu_task.launch @exp_0 {{.*}}loc("decoder/exp")
