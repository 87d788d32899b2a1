// RUN: ge-opt %s --split-input-file --verify-diagnostics -p bufferize-tasks

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{graph.neg has no form on buffers; run lower-to-tasks first}}
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x6xf32>) -> tensor<4x2xf32> {
  // expected-error@+1 {{graph.slice has no form on buffers; run lower-to-tasks first}}
  %0 = graph.slice %x starts [1] ends [3] axes [1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  func.return %0 : tensor<4x2xf32>
}
