// RUN: %roundtrip | filecheck %s

// Tensors made from their shape and a rule.

// CHECK-LABEL: func.func @range(
func.func @range(%a: tensor<i64>, %b: tensor<1xf32>) {
  // CHECK-NEXT: %0 = graph.constant dense<0> : tensor<i64>
  %0 = graph.constant dense<0> : tensor<i64>
  // CHECK-NEXT: %1 = graph.constant dense<10> : tensor<i64>
  %1 = graph.constant dense<10> : tensor<i64>
  // CHECK-NEXT: %2 = graph.constant dense<3> : tensor<i64>
  %2 = graph.constant dense<3> : tensor<i64>
  // CHECK-NEXT: %known = graph.range %0, %1, %2 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %known = graph.range %0, %1, %2 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  // CHECK-NEXT: %unknown = graph.range %0, %a, %2 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %unknown = graph.range %0, %a, %2 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  // CHECK-NEXT: %3 = graph.constant dense<5.000000e-01> : tensor<f32>
  %3 = graph.constant dense<5.000000e-01> : tensor<f32>
  // CHECK-NEXT: %4 = graph.constant dense<-1.000000e+00> : tensor<f32>
  %4 = graph.constant dense<-1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %float = graph.range %3, %4, %4 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<2xf32>
  %float = graph.range %3, %4, %4 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<2xf32>
  // CHECK-NEXT: %vector = graph.range %b, %b, %b : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<?xf32>
  %vector = graph.range %b, %b, %b : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<?xf32>
  func.return
}

// CHECK-LABEL: func.func @fill(
func.func @fill(%s: tensor<2xi64>, %u: tensor<?xi64>) {
  // CHECK-NEXT: %float = graph.fill 1.500000e+00 : f16 shape [2, 3] : () -> tensor<2x3xf16>
  %float = graph.fill 1.500000e+00 : f16 shape [2, 3] : () -> tensor<2x3xf16>
  // CHECK-NEXT: %flags = graph.fill true shape [4] : () -> tensor<4xi1>
  %flags = graph.fill true shape [4] : () -> tensor<4xi1>
  // CHECK-NEXT: %bytes = graph.fill 255 : ui8 shape [] : () -> tensor<ui8>
  %bytes = graph.fill 255 : ui8 shape [] : () -> tensor<ui8>
  // CHECK-NEXT: %given = graph.fill 0 : i64 shape %s : (tensor<2xi64>) -> tensor<?x?xi64>
  %given = graph.fill 0 : i64 shape %s : (tensor<2xi64>) -> tensor<?x?xi64>
  // CHECK-NEXT: %rank = graph.fill 0 : i64 shape %u : (tensor<?xi64>) -> tensor<*xi64>
  %rank = graph.fill 0 : i64 shape %u : (tensor<?xi64>) -> tensor<*xi64>
  func.return
}

// CHECK-LABEL: func.func @eye(
func.func @eye(%s: tensor<2xi64>) {
  // CHECK-NEXT: %matrix = graph.eye f32 shape [2, 3] : () -> tensor<2x3xf32>
  %matrix = graph.eye f32 shape [2, 3] : () -> tensor<2x3xf32>
  // CHECK-NEXT: %below = graph.eye ui8 shape [3, 3] diagonal -1 : () -> tensor<3x3xui8>
  %below = graph.eye ui8 shape [3, 3] diagonal -1 : () -> tensor<3x3xui8>
  // CHECK-NEXT: %given = graph.eye i1 shape %s : (tensor<2xi64>) -> tensor<?x?xi1>
  %given = graph.eye i1 shape %s : (tensor<2xi64>) -> tensor<?x?xi1>
  func.return
}

// CHECK-LABEL: func.func @tri(
func.func @tri(%x: tensor<?x3x4xf32>, %k: tensor<i64>) {
  // CHECK-NEXT: %upper = graph.tri %x upper true : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %upper = graph.tri %x upper true : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %lower = graph.tri %x k -1 upper false : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %lower = graph.tri %x k -1 upper false : (tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %given = graph.tri %x k %k upper true : (tensor<?x3x4xf32>, tensor<i64>) -> tensor<?x3x4xf32>
  %given = graph.tri %x k %k upper true : (tensor<?x3x4xf32>, tensor<i64>) -> tensor<?x3x4xf32>
  func.return
}
