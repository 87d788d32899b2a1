// RUN: ge-opt %s --split-input-file -p fold-batch-norm,prepare-weights,eliminate-dead-code | filecheck %s
// RUN: ge-opt %s --split-input-file -p fold-batch-norm{exact=true} | filecheck %s --check-prefix EXACT

// Batch norm and a factor after it go into the weights.
func.func @main(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<2x3x1x1xf32>
  %s = graph.constant #graph.weight<"s"> : tensor<2xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<2xf32>
  %m = graph.constant #graph.weight<"m"> : tensor<2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2xf32>
  %f = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.conv %x, %w : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.batch_norm %0, %s, %b, %m, %v : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.mul %1, %f : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %2 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-DAG:  %[[W:.*]] = graph.constant #graph.weight<"prepared.{{[01]}}"> : tensor<2x3x1x1xf32>
// CHECK-DAG:  %[[B:.*]] = graph.constant #graph.weight<"prepared.{{[01]}}"> : tensor<2xf32>
// CHECK:      %[[Y:.*]] = graph.conv %x, %[[W]] bias %[[B]] :
// CHECK-NEXT: func.return %[[Y]] :
// CHECK-LABEL: func.func private @prepare(

// EXACT-LABEL: func.func @main(
// EXACT:       %[[Y:.*]] = graph.conv %x, %w :
// EXACT-DAG:   %[[Z:.*]] = graph.mul %[[Y]],
// EXACT-DAG:   %[[A:.*]] = graph.add %[[Z]],
// EXACT:       graph.mul %[[A]], %f :

// -----

// A first bias is the convolution's in every mode; statistics that are computed stay.
func.func @main(%x: tensor<1x3x4x4xf32>, %m: tensor<2xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<2x3x1x1xf32>
  %s = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.conv %x, %w : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.add %s, %0 : (tensor<2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.batch_norm %1, %c, %c, %m, %c : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %1, %2 : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:  %[[Y:.*]] = graph.conv %x, %w bias
// CHECK:  graph.batch_norm %[[Y]],
// EXACT-LABEL: func.func @main(
// EXACT:  %[[Y:.*]] = graph.conv %x, %w bias
// EXACT:  graph.batch_norm %[[Y]],

// -----

// A factor by row of the result is none by column; one that changes the shape is none.
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<1x2x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<3x4xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<3x4xf32>
  %r = graph.constant dense<[[2.0], [3.0]]> : tensor<2x1xf32>
  %c = graph.constant dense<2.0> : tensor<1x1x1xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = graph.mul %0, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul %x, %v : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %3 = graph.mul %2, %c : (tensor<2x4xf32>, tensor<1x1x1xf32>) -> tensor<1x2x4xf32>
  func.return %1, %3 : tensor<2x4xf32>, tensor<1x2x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK: graph.matmul %x, %w :
// CHECK: graph.mul %
// CHECK: graph.matmul %x, %v :
// CHECK: graph.mul %

// -----

// Batches of unknown size.
func.func @main(%x: tensor<?x3x?x4xf32>) -> tensor<?x2x?x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<2x3x1x1xf32>
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.conv %x, %w : (tensor<?x3x?x4xf32>, tensor<2x3x1x1xf32>) -> tensor<?x2x?x4xf32>
  %1 = graph.batch_norm %0, %c, %c, %c, %c : (tensor<?x2x?x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x?x4xf32>
  func.return %1 : tensor<?x2x?x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      graph.conv %x, {{.*}} bias
// CHECK-NEXT: func.return
