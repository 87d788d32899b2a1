// RUN: ge-opt %s --split-input-file -p infer-shapes,fold-constants,share-common-subexpressions,eliminate-dead-code,prepare-weights | filecheck %s

// Streams differ, so nothing is shared; what nobody uses is removed; shapes that are constants
// become properties, and nothing is computed before a run.
func.func @main(%seed: tensor<2xi64> {graph.seed}) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %s = graph.constant dense<[2, 3]> : tensor<2xi64>
  %0 = graph.random_uniform f32, %seed shape %s stream 1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  %1 = graph.random_uniform f32, %seed shape %s stream 2 : (tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  %2 = graph.random_uniform f32, %seed shape [2, 3] stream 3 : (tensor<2xi64>) -> tensor<2x3xf32>
  func.return %0, %1 : tensor<?x?xf32>, tensor<?x?xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %0 = graph.random_uniform f32, %seed shape [2, 3] stream 1 : (tensor<2xi64>) -> tensor<2x3xf32>
// CHECK-NEXT:    %1 = graph.random_uniform f32, %seed shape [2, 3] stream 2 : (tensor<2xi64>) -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %0, %1 :

// -----

// Two of one stream, or of one seed of their own, are the same numbers.
func.func @main(%seed: tensor<2xi64> {graph.seed}) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = graph.random_normal f32, %seed shape [3] stream 1 : (tensor<2xi64>) -> tensor<3xf32>
  %1 = graph.random_normal f32, %seed shape [3] stream 1 : (tensor<2xi64>) -> tensor<3xf32>
  %2 = graph.random_normal f32, %seed shape [3] own 1 : (tensor<2xi64>) -> tensor<3xf32>
  %3 = graph.random_normal f32, %seed shape [3] own 1 : (tensor<2xi64>) -> tensor<3xf32>
  func.return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %0 = graph.random_normal f32, %seed shape [3] stream 1
// CHECK-NEXT:    %1 = graph.random_normal f32, %seed shape [3] own 1
// CHECK-NEXT:    func.return %0, %0, %1, %1 :

// -----

// What draws from a constant draws constants.
func.func @main(%i: tensor<i64>) -> tensor<2xf32> {
  %seed = graph.constant dense<[7, 0]> : tensor<2xi64>
  %0 = graph.random_uniform f32, %seed shape [2] stream 1 : (tensor<2xi64>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %0 = graph.constant dense<[0.842724323, 0.623355269]> : tensor<2xf32>
