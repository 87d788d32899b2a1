// RUN: ge-opt %s -p 'verify-level{level=graph},verify-level{level=fused}' | filecheck %s
// RUN: ge-opt %s -p 'fuse-linear{target=910_merged},verify-level{level=fused},lower-to-tasks{target=910_merged},verify-level{level=tasks},bufferize-tasks,verify-level{level=buffers},assign-streams,plan-memory,verify-level{level=program},verify-plan' | filecheck %s --check-prefix=PROGRAM
// RUN: ge-opt %s -p 'lower-to-tasks{target="310p3"},bufferize-tasks,assign-streams,plan-memory,verify-level{level=program}' | filecheck %s --check-prefix=SMALL

func.func @main(%x: tensor<512x1024xf32>, %w: tensor<1024x1024xf32>, %c: tensor<i1>) -> tensor<512x1024xf32> {
  %0 = graph.matmul %x, %w : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
  %1 = graph.relu %0 : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %2 = graph.if %c : (tensor<i1>) -> tensor<512x1024xf32> {
    %3 = graph.exp %1 : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
    graph.yield %3 : tensor<512x1024xf32>
  } else {
    graph.yield %1 : tensor<512x1024xf32>
  }
  func.return %2 : tensor<512x1024xf32>
}
func.func private @prepare() -> (tensor<f32> {graph.name = "prepared.0"}) {
  %0 = graph.constant dense<1.0> : tensor<f32>
  func.return %0 : tensor<f32>
}
// CHECK:       func.func @main(
// CHECK-NEXT:    graph.matmul
// PROGRAM:     npu_task.kernel @linear_0 on cube
// PROGRAM:     func.func @main(
// PROGRAM-SAME:  npu_task.target = "910_merged"
// PROGRAM:     func.func private @prepare(
// PROGRAM-NEXT:  graph.constant
// The tiles are checked against the target that they were chosen for.
// SMALL:       npu_task.target = "310p3"
