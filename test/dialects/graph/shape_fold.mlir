// RUN: ge-opt %s -p canonicalize,infer-shapes | filecheck %s

// Ops that change nothing fold away.
// CHECK-LABEL: func.func @same(
// CHECK-NEXT:    func.return %x, %d :
func.func @same(%x: tensor<2x3xf32>, %d: tensor<?x3xf32>) -> (tensor<2x3xf32>, tensor<?x3xf32>) {
  %0 = graph.reshape %x shape [2, -1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.transpose %0 permutation [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.slice %1 starts [0, 0] ends [2, 99] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.concat %2 axis 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.broadcast_to %3 shape [1, 3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = graph.tile %4 repeats [1, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = graph.pad %5 pads [0, 0, 0, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = graph.squeeze %6 axes [] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = graph.reshape %d shape [-1, 3] : (tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %7, %8 : tensor<2x3xf32>, tensor<?x3xf32>
}

// What looks alike may still move elements, or change dimensions that are not known.
// CHECK-LABEL: func.func @different(
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.slice
// CHECK-NEXT:    graph.slice
// CHECK-NEXT:    graph.broadcast_to
// CHECK-NEXT:    func.return
func.func @different(%d: tensor<?x?xf32>, %x: tensor<2x2xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x2xf32>, tensor<?x?xf32>) {
  %0 = graph.reshape %d shape [-1, 4] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = graph.slice %d starts [0] ends [1] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = graph.slice %x starts [1] ends [-9] steps [-1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = graph.broadcast_to %d shape [2, 2] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %0, %1, %2, %3 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<2x2xf32>, tensor<?x?xf32>
}

// Elements of a shape that the type decides become constants, even if others are not known.
// CHECK-LABEL: func.func @shapes(
// CHECK-NEXT:    %0 = graph.constant dense<4> : tensor<i64>
// CHECK-NEXT:    %1 = graph.constant dense<[4, 3]> : tensor<2xi64>
// CHECK-NEXT:    %2 = graph.constant dense<5> : tensor<2xi64>
// CHECK-NEXT:    func.return %0, %1, %2 :
func.func @shapes(%x: tensor<?x3x4xf32>) -> (tensor<i64>, tensor<2xi64>, tensor<2xi64>) {
  %i = graph.constant dense<-1> : tensor<i64>
  %0 = graph.shape_of %x : (tensor<?x3x4xf32>) -> tensor<3xi64>
  %1 = graph.gather %0, %i : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
  %2 = graph.slice %0 starts [-1] ends [-9223372036854775808] steps [-1] : (tensor<3xi64>) -> tensor<3xi64>
  %3 = graph.slice %2 starts [0] ends [2] : (tensor<3xi64>) -> tensor<2xi64>
  %4 = graph.fill 5 : i64 shape [2] : () -> tensor<2xi64>
  func.return %1, %3, %4 : tensor<i64>, tensor<2xi64>, tensor<2xi64>
}

// Types follow from shape computations as far as they are known.
// CHECK-LABEL: func.func @infer(
// CHECK-SAME:    -> (tensor<?x12xf32>, tensor<?x1x12xf32>, tensor<?x12xf32>)
func.func @infer(%x: tensor<?x3x4xf32>) -> (tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xf32>) {
  %i = graph.constant dense<0> : tensor<i64>
  %n = graph.constant dense<12> : tensor<1xi64>
  %a = graph.constant dense<1> : tensor<1xi64>
  %0 = graph.shape_of %x : (tensor<?x3x4xf32>) -> tensor<3xi64>
  %1 = graph.gather %0, %i : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
  %2 = graph.unsqueeze %1 axes [0] : (tensor<i64>) -> tensor<1xi64>
  %3 = graph.concat %2, %n axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %4 = graph.reshape %x shape %3 : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %5 = graph.unsqueeze %4 axes %a : (tensor<?x?xf32>, tensor<1xi64>) -> tensor<?x?x?xf32>
  %6 = graph.fill 0.000000e+00 : f32 shape %3 : (tensor<2xi64>) -> tensor<?x?xf32>
  func.return %4, %5, %6 : tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?xf32>
}
