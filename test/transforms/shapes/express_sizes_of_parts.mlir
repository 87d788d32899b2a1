// RUN: ge-compile %s -o - | filecheck %s
// RUN: ge-run %s

// Parts of sizes that are computed may each be all of it.
func.func @main(%x: tensor<6xf32>, %m: tensor<2xi1>) -> (tensor<?xf32>, tensor<?xf32>) {
  %two = graph.constant dense<2> : tensor<i64>
  %four = graph.constant dense<4> : tensor<i64>
  %t = graph.select %m, %two, %four : (tensor<2xi1>, tensor<i64>, tensor<i64>) -> tensor<2xi64>
  %six = graph.constant dense<6> : tensor<1xi64>
  %first = graph.slice %t starts [0] ends [1] axes [0] steps [1] : (tensor<2xi64>) -> tensor<1xi64>
  %rest = graph.sub %six, %first : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %s = graph.concat %first, %rest axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %0, %1 = graph.split %x sizes %s axis 0 : (tensor<6xf32>, tensor<2xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  func.return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
// CHECK: npu_task.launch @split_0 {{.*}} {npu_task.bytes = ["at most 24", "at most 24"]
