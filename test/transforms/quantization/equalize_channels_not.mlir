// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'equalize-channels{data="%S/Inputs/equalize_channels.toml"}' | filecheck %s
// CHECK-NOT: graph.mul

// gelu of a multiple is no multiple of gelu.
func.func @main(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<3x2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x2xf32>
  // expected-remark@+1 {{equalize-channels missed: its input cannot be scaled: it is an input of the model}}
  %0 = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = graph.gelu %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{equalize-channels missed: its input cannot be scaled: graph.gelu takes no factor for each channel}}
  %gelu = graph.matmul %1, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  func.return %gelu : tensor<4x2xf32>
}

// -----

// The value is a result of the model too.
func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<3x2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x2xf32>
  // expected-remark@+1 {{it is an input of the model}}
  %0 = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = graph.relu %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{it is a result of the model}}
  %output = graph.matmul %1, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  func.return %1, %output : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// The table has another number of channels.
func.func @main(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<3x2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x2xf32>
  // expected-remark@+1 {{it is an input of the model}}
  %0 = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = graph.matmul %0, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("/three")
  func.return %1 : tensor<4x2xf32>
}

// -----

// Behind a norm smooth-activations decides.
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %g = graph.constant dense<1.0> : tensor<2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x2xf32>
  %0 = graph.layer_norm %x, %g, %g : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %1 = graph.matmul %0, %v : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("/next")
  func.return %1 : tensor<4x2xf32>
}

// -----

// One axis of two channels: those of the first matmul are rows of the second.
func.func @main(%x: tensor<4x3xf32>) -> tensor<2x2xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<3x2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x2xf32>
  // expected-remark@+1 {{it is an input of the model}}
  %0 = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{the channels are not those of graph.matmul}}
  %output = graph.matmul %1, %v : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  func.return %output : tensor<2x2xf32>
}
