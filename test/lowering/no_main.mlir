// RUN: ge-opt %s -p lower-to-tasks,bufferize-tasks,assign-streams,plan-memory | filecheck %s
// RUN: ge-opt %s --verify-diagnostics -p 'verify-level{level=graph}'

// What is compiled is @main: without it the passes leave the module alone, and no level is legal.
// expected-error@unknown {{not legal at the graph level: there is no function @main}}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:       func.func @other(
// CHECK-NEXT:    graph.neg
