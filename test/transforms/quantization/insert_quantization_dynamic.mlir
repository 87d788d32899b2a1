// Scales of activations that the program computes.
// RUN: ge-opt %s -p 'insert-quantization{scheme=dynamic}' --split-input-file | filecheck %s

// A scale for each row, once for both matmuls; what has no sign takes unsigned codes.
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x2xf32>
  %r0 = graph.matmul %x, %w : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %r1 = graph.matmul %x, %w transpose_rhs true : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %r2 = graph.add %r0, %r1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %r3 = graph.relu %r2 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %r4 = graph.matmul %r3, %v : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
  func.return %r4 : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: [[A:%[0-9]+]] = graph.abs %x :
// CHECK-NEXT: [[M:%[0-9]+]] = graph.reduce max [[A]] axes [1] : (tensor<?x4xf32>) -> tensor<?x1xf32>
// CHECK-NEXT: [[N:%[0-9]+]] = graph.constant dense<1.270000e+02>
// CHECK-NEXT: [[P:%[0-9]+]] = graph.div [[M]], [[N]] :
// CHECK-NEXT: [[L:%[0-9]+]] = graph.constant dense<1.17549435e-38>
// CHECK-NEXT: [[S:%[0-9]+]] = graph.maximum [[P]], [[L]] :
// CHECK-NEXT: [[Q:%[0-9]+]] = graph.quantize %x, [[S]] to i8 axis 1 block_size 4
// CHECK-NEXT: [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]] axis 1 block_size 4
// CHECK:      %r0 = graph.matmul [[D]], %{{[0-9]+}} :
// CHECK:      %r1 = graph.matmul [[D]], %{{[0-9]+}} transpose_rhs true :
// CHECK:      graph.reduce max %r3 axes [1]
// CHECK:      graph.constant dense<2.550000e+02>
// CHECK:      graph.quantize %r3, %{{[0-9]+}} to ui8 axis 1 block_size 4

// -----

// A scale for each sample before a convolution, one for all where rows are not summed. Without a
// weight a matmul stays float.
func.func @main(%x: tensor<?x2x4x4xf32>, %y: tensor<4x3xf32>) -> (tensor<?x3x4x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<3x2x1x1xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x4xf32>
  %r0 = graph.conv %x, %w : (tensor<?x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<?x3x4x4xf32>
  %r1 = graph.matmul %v, %y : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %r2 = graph.matmul %y, %y transpose_rhs true : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
  func.return %r0, %r1, %r2 : tensor<?x3x4x4xf32>, tensor<4x3xf32>, tensor<4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      graph.quantize %y, %{{[0-9]+}} to i8 : (tensor<4x3xf32>, tensor<f32>)
// CHECK:      graph.reduce max %{{[0-9]+}} axes [1, 2, 3] keep_dims false : (tensor<?x2x4x4xf32>) -> tensor<?xf32>
// CHECK:      graph.quantize %x, %{{[0-9]+}} to i8 axis 0
// CHECK:      %r2 = graph.matmul %y, %y transpose
