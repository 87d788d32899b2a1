// RUN: ge-opt %s --split-input-file -p lower-to-tasks | filecheck %s

// Results of unknown shape have no destination.
func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %1 = graph.relu %0 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  func.return %1 : tensor<?x32xf32>
}
// CHECK:       npu_task.kernel @matmul_0 on cube {
// CHECK:       npu_task.kernel @relu_0 on vector {
// CHECK:       func.func @main(
// CHECK-NEXT:    %0 = npu_task.launch @matmul_0 ins(%x, %w : tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
// CHECK-NEXT:    %1 = npu_task.launch @relu_0 ins(%0 : tensor<?x32xf32>) -> tensor<?x32xf32>

// -----

// The cube where both factors are dynamic; a size that must agree with a known one.
func.func @main(%p: tensor<?x12x?x?xf32>, %v: tensor<?x12x?x64xf32>, %a: tensor<?x?xf32>, %b: tensor<96x32xf32>) -> (tensor<?x12x?x64xf32>, tensor<?x32xf32>) {
  %0 = graph.matmul %p, %v : (tensor<?x12x?x?xf32>, tensor<?x12x?x64xf32>) -> tensor<?x12x?x64xf32>
  %1 = graph.matmul %a, %b : (tensor<?x?xf32>, tensor<96x32xf32>) -> tensor<?x32xf32>
  func.return %0, %1 : tensor<?x12x?x64xf32>, tensor<?x32xf32>
}
// CHECK:       npu_task.kernel @matmul_0 on cube {
// CHECK:       npu_task.kernel @matmul_1 on cube {

// -----

// The host does shape arithmetic, and what decides on shapes by values.
func.func @main(%x: tensor<?x8xf32>, %y: tensor<4x8xf32>, %i: tensor<100xi64>) -> (tensor<2xi64>, tensor<i64>, tensor<2x?xi64>, tensor<2x?xi64>, tensor<100xi64>, tensor<4x8xf32>) {
  %c = graph.constant dense<2> : tensor<i64>
  %0 = graph.shape_of %x : (tensor<?x8xf32>) -> tensor<2xi64>
  %1 = graph.mul %0, %c : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %2 = graph.reduce sum %1 axes [0] keep_dims false : (tensor<2xi64>) -> tensor<i64>
  %3 = graph.nonzero %y : (tensor<4x8xf32>) -> tensor<2x?xi64>
  %4 = graph.nonzero %x : (tensor<?x8xf32>) -> tensor<2x?xi64>
  %5 = graph.mul %i, %c : (tensor<100xi64>, tensor<i64>) -> tensor<100xi64>
  %6 = graph.neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %1, %2, %3, %4, %5, %6 : tensor<2xi64>, tensor<i64>, tensor<2x?xi64>, tensor<2x?xi64>, tensor<100xi64>, tensor<4x8xf32>
}
// CHECK:       npu_task.kernel @shape_of_0 on host {
// CHECK:       npu_task.kernel @mul_0 on host {
// CHECK:       npu_task.kernel @reduce_0 on host {
// CHECK:       npu_task.kernel @nonzero_0 on host {
// CHECK:       npu_task.kernel @nonzero_1 on host {
// CHECK:       npu_task.kernel @mul_1 on vector {
// CHECK:       npu_task.kernel @neg_0 on vector {

// -----

// A reshape to a shape that comes at run time moves data; a parameter does not make a host task.
func.func @main(%x: tensor<4x8xf32>, %s: tensor<2xi64>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = graph.reshape %x shape %s : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %1 = graph.slice %x starts %s ends [4, 8] axes [0, 1] : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return %0, %1 : tensor<?x?xf32>, tensor<?x?xf32>
}
// CHECK:       npu_task.kernel @reshape_0 on vector {
// CHECK:       npu_task.kernel @slice_0 on vector {
