// RUN: ge-opt %s --split-input-file -p share-common-subexpressions,find-softmax --validate | filecheck %s

// A quotient, any axis, the difference computed twice.
func.func @quotient(%x: tensor<2x5x7xf32>) -> tensor<2x5x7xf32> {
  %0 = graph.reduce max %x axes [1] : (tensor<2x5x7xf32>) -> tensor<2x1x7xf32>
  %1 = graph.sub %x, %0 : (tensor<2x5x7xf32>, tensor<2x1x7xf32>) -> tensor<2x5x7xf32>
  %2 = graph.exp %1 : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %3 = graph.sub %x, %0 : (tensor<2x5x7xf32>, tensor<2x1x7xf32>) -> tensor<2x5x7xf32>
  %4 = graph.exp %3 : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %5 = graph.reduce sum %4 axes [-2] : (tensor<2x5x7xf32>) -> tensor<2x1x7xf32>
  %6 = graph.div %2, %5 : (tensor<2x5x7xf32>, tensor<2x1x7xf32>) -> tensor<2x5x7xf32>
  func.return %6 : tensor<2x5x7xf32>
}
// CHECK-LABEL: func.func @quotient(
// CHECK-NEXT:    %0 = graph.softmax %x axis 1
// CHECK-NEXT:    func.return %0 :

// -----

// A product with the reciprocal, and the logarithm.
func.func @product(%x: tensor<5x7xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>) {
  %0 = graph.reduce max %x axes [1] : (tensor<5x7xf32>) -> tensor<5x1xf32>
  %1 = graph.sub %x, %0 : (tensor<5x7xf32>, tensor<5x1xf32>) -> tensor<5x7xf32>
  %2 = graph.exp %1 : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = graph.reduce sum %2 axes [1] : (tensor<5x7xf32>) -> tensor<5x1xf32>
  %4 = graph.reciprocal %3 : (tensor<5x1xf32>) -> tensor<5x1xf32>
  %5 = graph.mul %4, %2 : (tensor<5x1xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %y = graph.neg %x : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %6 = graph.reduce max %y axes [1] : (tensor<5x7xf32>) -> tensor<5x1xf32>
  %7 = graph.sub %y, %6 : (tensor<5x7xf32>, tensor<5x1xf32>) -> tensor<5x7xf32>
  %8 = graph.exp %7 : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %9 = graph.reduce sum %8 axes [1] : (tensor<5x7xf32>) -> tensor<5x1xf32>
  %10 = graph.log %9 : (tensor<5x1xf32>) -> tensor<5x1xf32>
  %11 = graph.sub %7, %10 : (tensor<5x7xf32>, tensor<5x1xf32>) -> tensor<5x7xf32>
  func.return %5, %11 : tensor<5x7xf32>, tensor<5x7xf32>
}
// CHECK-LABEL: func.func @product(
// CHECK-NEXT:    %0 = graph.softmax %x axis 1
// CHECK-NEXT:    %y = graph.neg %x :
// CHECK-NEXT:    %1 = graph.log_softmax %y axis 1
// CHECK-NEXT:    func.return %0, %1 :

// -----

// Not: another axis, no maximum (it may overflow), the sum of something else, a use outside.
func.func @others(%x: tensor<5x5xf32>, %z: tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x1xf32>) {
  %0 = graph.reduce max %x axes [0] : (tensor<5x5xf32>) -> tensor<1x5xf32>
  %1 = graph.sub %x, %0 : (tensor<5x5xf32>, tensor<1x5xf32>) -> tensor<5x5xf32>
  %2 = graph.exp %1 : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %3 = graph.reduce sum %2 axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %4 = graph.div %2, %3 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %5 = graph.exp %z : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %6 = graph.reduce sum %5 axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %7 = graph.div %5, %6 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %8 = graph.reduce max %z axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %9 = graph.sub %z, %8 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %10 = graph.exp %9 : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %11 = graph.reduce sum %9 axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %12 = graph.div %10, %11 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %y = graph.neg %x : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %13 = graph.reduce max %y axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %14 = graph.sub %y, %13 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %15 = graph.exp %14 : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %16 = graph.reduce sum %15 axes [1] : (tensor<5x5xf32>) -> tensor<5x1xf32>
  %17 = graph.div %15, %16 : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  func.return %4, %7, %12, %17, %16 : tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x5xf32>, tensor<5x1xf32>
}
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     softmax

// -----

// One softmax after the other, the first one written out.
func.func @composes(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> {
  %s = graph.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32>
  %0 = graph.reduce max %s axes [3] : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x1xf32>
  %1 = graph.sub %s, %0 : (tensor<1x2x4x4xf32>, tensor<1x2x4x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.exp %1 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %3 = graph.reduce sum %2 axes [3] : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x1xf32>
  %4 = graph.div %2, %3 : (tensor<1x2x4x4xf32>, tensor<1x2x4x1xf32>) -> tensor<1x2x4x4xf32>
  %5 = graph.softmax %4 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %5 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @composes(
// CHECK-NEXT:    %s = graph.matmul
// CHECK-NEXT:    %0 = graph.softmax %s axis 3
// CHECK-NEXT:    graph.softmax %0 axis 3 :
