// RUN: ge-opt %s --split-input-file --verify-diagnostics -p lower-to-tasks
// RUN: not ge-opt %s --split-input-file -p 'lower-to-tasks{target="911"}' 2>&1 | filecheck %s --check-prefix=TARGET

// TARGET: error: unknown target '911'; did you mean

func.func @main(%x: tensor<?xf32>) -> tensor<*xf32> {
  // expected-error@+1 {{the number of dimensions of the result of graph.squeeze is not known}}
  %0 = graph.squeeze %x : (tensor<?xf32>) -> tensor<*xf32>
  func.return %0 : tensor<*xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{tensor.empty is no graph op: it cannot be lowered to a launch}}
  %0 = tensor.empty() : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<2x2xf32>) -> tensor<*xf32> {
  // expected-error@+1 {{the number of dimensions of the result of graph.if is not known}}
  %0 = graph.if %c : (tensor<i1>) -> tensor<*xf32> {
    graph.yield %x : tensor<4xf32>
  } else {
    graph.yield %y : tensor<2x2xf32>
  }
  func.return %0 : tensor<*xf32>
}
