// RUN: ge-opt %s --split-input-file --verify-diagnostics -p lower-to-tasks,bufferize-tasks

// expected-error@+1 {{state 'h' becomes 'g', which is no output}}
func.func @main(%h: tensor<8xf32> {graph.name = "h", graph.state = "g"}) -> tensor<8xf32> {
  func.return %h : tensor<8xf32>
}

// -----

// expected-error@+1 {{state 'h' has a size that is known only at run time}}
func.func @main(%h: tensor<?xf32> {graph.name = "h", graph.state = "g"})
    -> (tensor<?xf32> {graph.name = "g"}) {
  func.return %h : tensor<?xf32>
}
