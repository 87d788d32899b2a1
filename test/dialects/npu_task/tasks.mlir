// RUN: %roundtrip | filecheck %s

npu_task.kernel @linear_0 on cube tiling <[128, 256, 64] blocks 24 buffers 2> {
^bb0(%0: tensor<8x64xf32>, %1: tensor<64x32xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  npu_task.return %2 : tensor<8x32xf32>
}
npu_task.kernel @nonzero_0 on host {
^bb0(%0: tensor<4xf32>):
  %1 = graph.nonzero %0 : (tensor<4xf32>) -> tensor<1x?xi64>
  npu_task.return %1 : tensor<1x?xi64>
}
func.func @main(%x: tensor<8x64xf32>, %y: tensor<4xf32>) -> (tensor<8x32xf32>, tensor<1x?xi64>) {
  %w = npu_task.constant #graph.weight<"w"> as tensor<64x32xf32>
  %c = npu_task.constant dense<1> : tensor<i64> as tensor<i64>
  %0 = tensor.empty() : tensor<8x32xf32>
  %1 = npu_task.launch @linear_0 ins(%x, %w : tensor<8x64xf32>, tensor<64x32xf32>) outs(%0 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = npu_task.launch @nonzero_0 ins(%y : tensor<4xf32>) -> tensor<1x?xi64>
  func.return %1, %2 : tensor<8x32xf32>, tensor<1x?xi64>
}
// CHECK:       npu_task.kernel @linear_0 on cube tiling <[128, 256, 64] blocks 24 buffers 2> {
// CHECK:       npu_task.kernel @nonzero_0 on host {
// CHECK:         %w = npu_task.constant #graph.weight<"w"> as tensor<64x32xf32>
// CHECK-NEXT:    %c = npu_task.constant dense<1> : tensor<i64> as tensor<i64>
// CHECK:         npu_task.launch @linear_0 ins(%x, %w : tensor<8x64xf32>, tensor<64x32xf32>) outs(%0 : tensor<8x32xf32>) -> tensor<8x32xf32>
// CHECK-NEXT:    npu_task.launch @nonzero_0 ins(%y : tensor<4xf32>) -> tensor<1x?xi64>
