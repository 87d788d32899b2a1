// Rows that no core holds are read in parts, also where one pass over them is enough.
// RUN: ge-opt %s -p 'lower-to-tasks,verify-level{level=tasks}' | filecheck %s
// RUN: ge-compile %s -o %t.mlir

// CHECK: npu_task.kernel @reduce_0 on vector tiling
func.func @main(%x: tensor<1024x1024xf32>) -> (tensor<1x1xf32>, tensor<1x1048576xf32>) {
  %0 = graph.reduce "sum_square" %x axes [0, 1] : tensor<1024x1024xf32> -> tensor<1x1xf32>
  %1 = graph.reshape %x shape [1, 1048576] : tensor<1024x1024xf32> -> tensor<1x1048576xf32>
  %2 = graph.softmax %1 : (tensor<1x1048576xf32>) -> tensor<1x1048576xf32>
  func.return %0, %2 : tensor<1x1xf32>, tensor<1x1048576xf32>
}
