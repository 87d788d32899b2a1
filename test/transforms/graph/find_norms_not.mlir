// RUN: ge-opt %s --split-input-file -p find-norms --validate | filecheck %s

// What looks like a norm and is not.

// The norm itself, to start from.
func.func @layer_norm(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @layer_norm(
// CHECK:       graph.layer_norm %x,

// -----

// The variance of another value.
func.func @variance_of_another(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %y, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @variance_of_another(
// CHECK-NOT:   _norm

// -----

// The mean over columns, the variance over rows: what is left is divided by its root mean square.
func.func @mean_over_columns(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [0] : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @mean_over_columns(
// CHECK:       %[[D:.*]] = graph.sub
// CHECK:       graph.rms_norm %[[D]],

// -----

// The mean over rows, the variance over columns.
func.func @variance_over_columns(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [0] : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %4 = graph.add %3, %eps : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %5 = graph.sqrt %4 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @variance_over_columns(
// CHECK-NOT:   _norm

// -----

// All of it over columns.
func.func @over_columns(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [0] : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [0] : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %4 = graph.add %3, %eps : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %5 = graph.sqrt %4 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @over_columns(
// CHECK-NOT:   _norm

// -----

// Divided is x itself, not x less its mean.
func.func @not_centered(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %x, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @not_centered(
// CHECK-NOT:   _norm

// -----

// Divided is another value.
func.func @another_centered(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %y, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @another_centered(
// CHECK-NOT:   _norm

// -----

// A number to add for each row.
func.func @epsilon_by_row(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<[[1.0e-5], [1.0], [1.0e-5], [1.0], [1.0e-5], [1.0], [2.0], [3.0]]> : tensor<8x1xf32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @epsilon_by_row(
// CHECK-NOT:   _norm

// -----

// A factor for each row, not for each column: the norm is found, the scale stays a product.
func.func @scale_by_row(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %s: tensor<8x1xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %7 = graph.mul %6, %s : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %7 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @scale_by_row(
// CHECK:       %[[N:.*]] = graph.layer_norm %x,
// CHECK:       graph.mul %[[N]], %s :

// -----

// No root is taken.
func.func @no_root(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %x, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.abs %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @no_root(
// CHECK-NOT:   _norm

// -----

// The mean of another value is taken off: the same.
func.func @mean_of_another(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %y, %0 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @mean_of_another(
// CHECK:       %[[D:.*]] = graph.sub
// CHECK:       graph.rms_norm %[[D]],

// -----

// The mean less x: the same.
func.func @mean_less_x(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %1 = graph.sub %0, %x : (tensor<8x1xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.mul %1, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %4 = graph.add %3, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %5 = graph.sqrt %4 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %6 = graph.div %1, %5 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  func.return %6 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @mean_less_x(
// CHECK:       %[[D:.*]] = graph.sub
// CHECK:       graph.rms_norm %[[D]],
