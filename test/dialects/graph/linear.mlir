// RUN: %roundtrip | filecheck %s

// Products of matrices: transposed operands, batches, integers, equations.

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>, %c: tensor<4x16xf32>, %d: tensor<16x8xf32>, %half: tensor<8x16xbf16>) {
  // CHECK-NEXT: %0 = graph.matmul %a, %b : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %0 = graph.matmul %a, %b : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  // CHECK-NEXT: %wide = graph.matmul %half, %half transpose_rhs true to f32 : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xf32>
  %wide = graph.matmul %half, %half transpose_rhs true to f32 : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xf32>
  // CHECK-NEXT: %1 = graph.matmul %a, %c transpose_rhs true : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  %1 = graph.matmul %a, %c transpose_rhs true : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  // CHECK-NEXT: %2 = graph.matmul %d, %b transpose_lhs true : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %2 = graph.matmul %d, %b transpose_lhs true : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  // CHECK-NEXT: %3 = graph.matmul %d, %c transpose_lhs true transpose_rhs true : (tensor<16x8xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  %3 = graph.matmul %d, %c transpose_lhs true transpose_rhs true : (tensor<16x8xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  func.return
}

// CHECK-LABEL: func.func @batches(
func.func @batches(%a: tensor<2x1x?x16xf16>, %b: tensor<3x16x4xf16>, %c: tensor<?x?xf16>) {
  // CHECK-NEXT: %0 = graph.matmul %a, %b : (tensor<2x1x?x16xf16>, tensor<3x16x4xf16>) -> tensor<2x3x?x4xf16>
  %0 = graph.matmul %a, %b : (tensor<2x1x?x16xf16>, tensor<3x16x4xf16>) -> tensor<2x3x?x4xf16>
  // CHECK-NEXT: %1 = graph.matmul %a, %c : (tensor<2x1x?x16xf16>, tensor<?x?xf16>) -> tensor<2x1x?x?xf16>
  %1 = graph.matmul %a, %c : (tensor<2x1x?x16xf16>, tensor<?x?xf16>) -> tensor<2x1x?x?xf16>
  func.return
}

// CHECK-LABEL: func.func @groups(
func.func @groups(%a: tensor<5x1x1x16xf16>, %b: tensor<8x16x4xf16>, %c: tensor<8x4x16xf16>, %d: tensor<5x2xi64>, %e: tensor<?xi32>) {
  // CHECK-NEXT: %0 = graph.grouped_matmul %a, %b groups %d : (tensor<5x1x1x16xf16>, tensor<8x16x4xf16>, tensor<5x2xi64>) -> tensor<5x2x1x4xf16>
  %0 = graph.grouped_matmul %a, %b groups %d : (tensor<5x1x1x16xf16>, tensor<8x16x4xf16>, tensor<5x2xi64>) -> tensor<5x2x1x4xf16>
  // CHECK-NEXT: %1 = graph.grouped_matmul %a, %c groups %e transpose_rhs true : (tensor<5x1x1x16xf16>, tensor<8x4x16xf16>, tensor<?xi32>) -> tensor<5x?x1x4xf16>
  %1 = graph.grouped_matmul %a, %c groups %e transpose_rhs true : (tensor<5x1x1x16xf16>, tensor<8x4x16xf16>, tensor<?xi32>) -> tensor<5x?x1x4xf16>
  func.return
}

// CHECK-LABEL: func.func @integers(
func.func @integers(%a: tensor<8x16xi8>, %b: tensor<16x4xui8>, %c: tensor<16x4xi8>, %d: tensor<8x16xi64>, %e: tensor<16x2xi64>, %f: tensor<8x16xi16>, %g: tensor<8x16xf8E4M3FN>, %h: tensor<16x4xf8E5M2>) {
  // CHECK-NEXT: %0 = graph.matmul %a, %b : (tensor<8x16xi8>, tensor<16x4xui8>) -> tensor<8x4xi32>
  %0 = graph.matmul %a, %b : (tensor<8x16xi8>, tensor<16x4xui8>) -> tensor<8x4xi32>
  // CHECK-NEXT: %1 = graph.matmul %a, %c : (tensor<8x16xi8>, tensor<16x4xi8>) -> tensor<8x4xi32>
  %1 = graph.matmul %a, %c : (tensor<8x16xi8>, tensor<16x4xi8>) -> tensor<8x4xi32>
  // CHECK-NEXT: %2 = graph.matmul %d, %e : (tensor<8x16xi64>, tensor<16x2xi64>) -> tensor<8x2xi64>
  %2 = graph.matmul %d, %e : (tensor<8x16xi64>, tensor<16x2xi64>) -> tensor<8x2xi64>
  // CHECK-NEXT: %3 = graph.matmul %f, %c : (tensor<8x16xi16>, tensor<16x4xi8>) -> tensor<8x4xi64>
  %3 = graph.matmul %f, %c : (tensor<8x16xi16>, tensor<16x4xi8>) -> tensor<8x4xi64>
  // CHECK-NEXT: %4 = graph.matmul %g, %h : (tensor<8x16xf8E4M3FN>, tensor<16x4xf8E5M2>) -> tensor<8x4xf32>
  %4 = graph.matmul %g, %h : (tensor<8x16xf8E4M3FN>, tensor<16x4xf8E5M2>) -> tensor<8x4xf32>
  func.return
}

// CHECK-LABEL: func.func @einsum(
func.func @einsum(%a: tensor<2x8x16xf32>, %b: tensor<2x16x?xf32>, %c: tensor<5x3x3xf32>, %d: tensor<f32>) {
  // CHECK-NEXT: %0 = graph.einsum "bij,bjk->bik" %a, %b : (tensor<2x8x16xf32>, tensor<2x16x?xf32>) -> tensor<2x8x?xf32>
  %0 = graph.einsum "bij,bjk->bik" %a, %b : (tensor<2x8x16xf32>, tensor<2x16x?xf32>) -> tensor<2x8x?xf32>
  // CHECK-NEXT: %1 = graph.einsum "...ii->...i" %c : (tensor<5x3x3xf32>) -> tensor<5x3xf32>
  %1 = graph.einsum "...ii->...i" %c : (tensor<5x3x3xf32>) -> tensor<5x3xf32>
  // CHECK-NEXT: %2 = graph.einsum "...ij,...jk" %a, %b : (tensor<2x8x16xf32>, tensor<2x16x?xf32>) -> tensor<2x8x?xf32>
  %2 = graph.einsum "...ij,...jk" %a, %b : (tensor<2x8x16xf32>, tensor<2x16x?xf32>) -> tensor<2x8x?xf32>
  // CHECK-NEXT: %3 = graph.einsum "kji" %c : (tensor<5x3x3xf32>) -> tensor<3x3x5xf32>
  %3 = graph.einsum "kji" %c : (tensor<5x3x3xf32>) -> tensor<3x3x5xf32>
  // CHECK-NEXT: %4 = graph.einsum "->" %d : (tensor<f32>) -> tensor<f32>
  %4 = graph.einsum "->" %d : (tensor<f32>) -> tensor<f32>
  func.return
}

// CHECK-LABEL: func.func @det(
func.func @det(%a: tensor<4x3x3xf32>, %b: tensor<?x?xf64>) {
  // CHECK-NEXT: %0 = graph.det %a : (tensor<4x3x3xf32>) -> tensor<4xf32>
  %0 = graph.det %a : (tensor<4x3x3xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %1 = graph.det %b : (tensor<?x?xf64>) -> tensor<f64>
  %1 = graph.det %b : (tensor<?x?xf64>) -> tensor<f64>
  func.return
}
