// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'smooth-activations{data="%S/Inputs/smooth_activations.toml"}' | filecheck %s

// Scale and bias of the norm are divided, the weights of all layers that use it multiplied.
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x3xf32>) {
  %g = graph.constant #graph.weight<"g"> : tensor<2xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<2xf32>
  %w = graph.constant #graph.weight<"q"> : tensor<2x2xf32>
  %k = graph.constant #graph.weight<"k"> : tensor<2x3xf32>
  %0 = graph.layer_norm %x, %g, %b : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{smooth-activations applied: 2 channels}}
  %q = graph.matmul %0, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = graph.matmul %0, %k : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return %q, %1 : tensor<4x2xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      %[[G:.*]] = graph.mul %g, %{{.*}} : (tensor<2xf32>, tensor<2xf32>)
// CHECK:      %[[B:.*]] = graph.mul %b, %{{.*}} : (tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: %[[N:.*]] = graph.layer_norm %x, %[[G]], %[[B]] axis 1 :
// CHECK:      %[[Q:.*]] = graph.mul %w, %{{.*}} : (tensor<2x2xf32>, tensor<2x1xf32>)
// CHECK-NEXT: graph.matmul %[[N]], %[[Q]] :
// CHECK:      %[[K:.*]] = graph.mul %k, %{{.*}} : (tensor<2x3xf32>, tensor<2x1xf32>)
// CHECK-NEXT: graph.matmul %[[N]], %[[K]] :

// -----

// A norm whose result is added to something else stays.
func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %g = graph.constant #graph.weight<"g"> : tensor<2xf32>
  %w = graph.constant #graph.weight<"q"> : tensor<2x2xf32>
  %0 = graph.rms_norm %x, %g : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  // expected-remark@+1 {{smooth-activations missed: its input cannot be scaled: it is a result of the model}}
  %q = graph.matmul %0, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %1 = graph.add %0, %q : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %1 : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: graph.mul
// CHECK:     func.return
