// RUN: ge-opt %s --split-input-file -p fold-constants,eliminate-dead-code | filecheck %s

// Arithmetic on constants is done; the reshape target becomes an attribute and fixes the type.
func.func @case1(%x: tensor<4x3xf32>) -> tensor<?x?xf32> {
  %0 = graph.constant dense<[2, 3]> : tensor<2xi64>
  %1 = graph.constant dense<[1, 2]> : tensor<2xi64>
  %2 = graph.mul %0, %1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %3 = graph.reshape %x shape %2 : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return %3 : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @case1(%x: tensor<4x3xf32>) -> tensor<2x6xf32> {
// CHECK-NEXT:   %[[Y:.*]] = graph.reshape %x shape [2, 6]
// CHECK-NEXT:   func.return %[[Y]] : tensor<2x6xf32>

// -----

// A weight is no constant of the text: what depends on it stays an expression.
func.func @case2() -> tensor<4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %0 = graph.neg %w : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         graph.neg

// -----

// A result over the limit stays an expression.
func.func @case3() -> tensor<1024xf32> {
  %0 = graph.constant dense<1.0> : tensor<f32>
  %1 = graph.constant dense<2.0> : tensor<1024xf32>
  %2 = graph.add %0, %1 : (tensor<f32>, tensor<1024xf32>) -> tensor<1024xf32>
  func.return %2 : tensor<1024xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         graph.add

// -----

// The shape of a static tensor is known even where its value is not.
func.func @case4(%x: tensor<4x3xf32>) -> tensor<2xi64> {
  %0 = graph.shape_of %x : (tensor<4x3xf32>) -> tensor<2xi64>
  func.return %0 : tensor<2xi64>
}
// CHECK-LABEL: func.func @case4(
// CHECK-NEXT:    graph.constant dense<[4, 3]> : tensor<2xi64>

// -----

// In a branch too.
func.func @case5(%c: tensor<i1>) -> tensor<f32> {
  %0 = graph.constant dense<1.0> : tensor<f32>
  %1 = graph.if %c : (tensor<i1>) -> tensor<f32> {
    %2 = graph.add %0, %0 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.yield %2 : tensor<f32>
  } else {
    graph.yield %0 : tensor<f32>
  }
  func.return %1 : tensor<f32>
}
// CHECK-LABEL: func.func @case5(
// CHECK:         graph.if
// CHECK-NEXT:      graph.constant dense<2.000000e+00>

// -----

// Attributes of the op stay when a parameter becomes a property.
func.func @case6(%x: tensor<2x2xf32>) -> tensor<4xf32> {
  %s = graph.constant dense<4> : tensor<1xi64>
  %0 = graph.reshape %x shape %s {my.note = "mine"} : (tensor<2x2xf32>, tensor<1xi64>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @case6(
// CHECK:         graph.reshape %x shape [4] {my.note = "mine"}
