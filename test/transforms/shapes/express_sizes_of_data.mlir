// RUN: ge-compile %s -o - | filecheck %s
// RUN: ge-run %s

// Slices along an axis that is not the first: there are at most 4 of them, and of their numbers.
func.func @main(%x: tensor<3x4x2xf32>) -> (tensor<3x?x2xf32>, tensor<?xi64>) {
  %0, %1, %2, %3 = graph.unique %x axis -2 : (tensor<3x4x2xf32>) -> (tensor<3x?x2xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>)
  func.return %0, %3 : tensor<3x?x2xf32>, tensor<?xi64>
}
// CHECK: npu_task.launch @unique_0 {{.*}} {npu_task.bytes = ["at most 96", "at most 32", "at most 32"]
