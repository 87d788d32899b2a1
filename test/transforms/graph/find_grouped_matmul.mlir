// RUN: ge-opt %s --split-input-file -p find-grouped-matmul --validate | filecheck %s

// Matrices on the right, as they are or transposed; several dimensions of numbers.
func.func @right(%x: tensor<6x1x1x16xf32>, %w: tensor<4x16x24xf32>, %v: tensor<4x24x16xf32>, %g: tensor<6x2xi64>) -> (tensor<6x2x1x24xf32>, tensor<6x2x1x24xf32>) {
  %0 = graph.gather %w, %g axis 0 : (tensor<4x16x24xf32>, tensor<6x2xi64>) -> tensor<6x2x16x24xf32>
  %1 = graph.matmul %x, %0 : (tensor<6x1x1x16xf32>, tensor<6x2x16x24xf32>) -> tensor<6x2x1x24xf32>
  %2 = graph.gather %v, %g axis -3 : (tensor<4x24x16xf32>, tensor<6x2xi64>) -> tensor<6x2x24x16xf32>
  %3 = graph.matmul %x, %2 transpose_rhs true : (tensor<6x1x1x16xf32>, tensor<6x2x24x16xf32>) -> tensor<6x2x1x24xf32>
  func.return %1, %3 : tensor<6x2x1x24xf32>, tensor<6x2x1x24xf32>
}
// CHECK-LABEL: func.func @right(
// CHECK-NEXT:    %0 = graph.grouped_matmul %x, %w groups %g : (tensor<6x1x1x16xf32>, tensor<4x16x24xf32>, tensor<6x2xi64>) -> tensor<6x2x1x24xf32>
// CHECK-NEXT:    %1 = graph.grouped_matmul %x, %v groups %g transpose_rhs true
// CHECK-NEXT:    func.return %0, %1 :

// -----

// On the left: operands change places, and are transposed.
func.func @left(%w: tensor<4x24x16xf32>, %g: tensor<6xi64>, %y: tensor<6x16x1xf32>) -> tensor<6x24x1xf32> {
  %0 = graph.gather %w, %g axis 0 : (tensor<4x24x16xf32>, tensor<6xi64>) -> tensor<6x24x16xf32>
  %1 = graph.matmul %0, %y : (tensor<6x24x16xf32>, tensor<6x16x1xf32>) -> tensor<6x24x1xf32>
  func.return %1 : tensor<6x24x1xf32>
}
// CHECK-LABEL: func.func @left(
// CHECK-NEXT:    %0 = graph.transpose %y permutation [0, 2, 1]
// CHECK-NEXT:    %1 = graph.grouped_matmul %0, %w groups %g transpose_rhs true : (tensor<6x1x16xf32>, tensor<4x24x16xf32>, tensor<6xi64>) -> tensor<6x1x24xf32>
// CHECK-NEXT:    %2 = graph.transpose %1 permutation [0, 2, 1]
// CHECK-NEXT:    func.return %2 :

// -----

// Not: one matrix, rows of a matrix, integers.
func.func @others(%x: tensor<6x1x16xf32>, %w: tensor<4x16x24xf32>, %i: tensor<i64>, %g: tensor<6xi64>, %e: tensor<9x16xf32>, %a: tensor<6x1x16xi32>, %b: tensor<4x16x24xi32>) -> (tensor<6x1x24xf32>, tensor<6x1x6xf32>, tensor<6x1x24xi32>) {
  %0 = graph.gather %w, %i axis 0 : (tensor<4x16x24xf32>, tensor<i64>) -> tensor<16x24xf32>
  %1 = graph.matmul %x, %0 : (tensor<6x1x16xf32>, tensor<16x24xf32>) -> tensor<6x1x24xf32>
  %2 = graph.gather %e, %g axis 0 : (tensor<9x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  %3 = graph.matmul %x, %2 transpose_rhs true : (tensor<6x1x16xf32>, tensor<6x16xf32>) -> tensor<6x1x6xf32>
  %4 = graph.gather %b, %g axis 0 : (tensor<4x16x24xi32>, tensor<6xi64>) -> tensor<6x16x24xi32>
  %5 = graph.matmul %a, %4 : (tensor<6x1x16xi32>, tensor<6x16x24xi32>) -> tensor<6x1x24xi32>
  func.return %1, %3, %5 : tensor<6x1x24xf32>, tensor<6x1x6xf32>, tensor<6x1x24xi32>
}
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     grouped_matmul
