// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<16xf32>, %b: tensor<16x4xf32>) {
  // expected-error@+1 {{operands have two dimensions or more, got [16] and [16, 4]}}
  %0 = graph.matmul %a, %b : (tensor<16xf32>, tensor<16x4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>, %b: tensor<15x4xf32>) {
  // expected-error@+1 {{cannot multiply [8, 16] by [15, 4]: 16 columns meet 15 rows}}
  %0 = graph.matmul %a, %b : (tensor<8x16xf32>, tensor<15x4xf32>) -> tensor<8x4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>) {
  // expected-error@+1 {{cannot multiply [8, 16] by [16, 4]: 16 columns meet 4 rows}}
  %0 = graph.matmul %a, %b transpose_rhs true : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<2x8x16xf32>, %b: tensor<3x16x4xf32>) {
  // expected-error@+1 {{shapes [2] and [3] do not broadcast}}
  %0 = graph.matmul %a, %b : (tensor<2x8x16xf32>, tensor<3x16x4xf32>) -> tensor<2x8x4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x4xf16>) {
  // expected-error@+1 {{element types differ: f32 and f16}}
  %0 = graph.matmul %a, %b : (tensor<8x16xf32>, tensor<16x4xf16>) -> tensor<8x4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xi1>, %b: tensor<16x4xi1>) {
  // expected-error@+1 {{operand 'lhs': expected a ranked tensor of numbers that are multiplied, not tensor<8x16xi1>}}
  %0 = graph.matmul %a, %b : (tensor<8x16xi1>, tensor<16x4xi1>) -> tensor<8x4xi1>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xi8>, %b: tensor<16x4xi8>) {
  // expected-error@+1 {{result 0 has type tensor<8x4xi8>, but tensor<8x4xi32> follows from the operands}}
  %0 = graph.matmul %a, %b : (tensor<8x16xi8>, tensor<16x4xi8>) -> tensor<8x4xi8>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{"ij,jk->ik" has 2 terms for 1 operands}}
  %0 = graph.einsum "ij,jk->ik" %a : (tensor<8x16xf32>) -> tensor<8x16xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{"ijk" does not fit an operand of rank 2}}
  %0 = graph.einsum "ijk->i" %a : (tensor<8x16xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{"i" does not fit an operand of rank 2}}
  %0 = graph.einsum "i->i" %a : (tensor<8x16xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{"i1" is not a term: use letters and at most one "..."}}
  %0 = graph.einsum "i1->i" %a : (tensor<8x16xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>, %b: tensor<15x4xf32>) {
  // expected-error@+1 {{"j" stands for dimensions 16 and 15}}
  %0 = graph.einsum "ij,jk->ik" %a, %b : (tensor<8x16xf32>, tensor<15x4xf32>) -> tensor<8x4xf32>
  func.return
}

// -----

func.func @f(%a: tensor<2x8xf32>, %b: tensor<3x8xf32>) {
  // expected-error@+1 {{"..." stands for dimensions 2 and 3}}
  %0 = graph.einsum "...i,...i->...i" %a, %b : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{label "k" of the result stands once in it, and in an operand}}
  %0 = graph.einsum "ij->k" %a : (tensor<8x16xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8x16xf32>) {
  // expected-error@+1 {{label "i" of the result stands once in it, and in an operand}}
  %0 = graph.einsum "ij->ii" %a : (tensor<8x16xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<8xf32>, %b: tensor<8xf64>) {
  // expected-error@+1 {{element types differ: f32 and f64}}
  %0 = graph.einsum "i,i->i" %a, %b : (tensor<8xf32>, tensor<8xf64>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error@+1 {{expected at least one operand}}
  %0 = graph.einsum "" : () -> tensor<f32>
  func.return
}

// -----

func.func @f(%a: tensor<3x4xf32>) {
  // expected-error@+1 {{a matrix of 3 x 4 is not square}}
  %0 = graph.det %a : (tensor<3x4xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error@+1 {{a matrix has two dimensions, got shape [3]}}
  %0 = graph.det %a : (tensor<3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%a: tensor<3x3xi32>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of floats, not tensor<3x3xi32>}}
  %0 = graph.det %a : (tensor<3x3xi32>) -> tensor<i32>
  func.return
}

// -----

func.func @f(%a: tensor<5x2x3xf32>, %b: tensor<4x2x6xf32>, %c: tensor<5xi64>) {
  // expected-error@+1 {{cannot multiply [5, 2, 3] by [2, 6]: 3 columns meet 2 rows}}
  %0 = graph.grouped_matmul %a, %b groups %c : (tensor<5x2x3xf32>, tensor<4x2x6xf32>, tensor<5xi64>) -> tensor<5x2x6xf32>
  func.return
}

// -----

func.func @f(%a: tensor<5x2x3xf32>, %b: tensor<3x6xf32>, %c: tensor<5xi64>) {
  // expected-error@+1 {{operand 'rhs': expected a tensor of rank 3 of floats, not tensor<3x6xf32>}}
  %0 = graph.grouped_matmul %a, %b groups %c : (tensor<5x2x3xf32>, tensor<3x6xf32>, tensor<5xi64>) -> tensor<5x2x6xf32>
  func.return
}

// -----

func.func @f(%a: tensor<5x2x3xf32>, %b: tensor<4x3x6xf32>, %c: tensor<5xf32>) {
  // expected-error@+1 {{operand 'groups': expected a ranked tensor of integers, not tensor<5xf32>}}
  %0 = graph.grouped_matmul %a, %b groups %c : (tensor<5x2x3xf32>, tensor<4x3x6xf32>, tensor<5xf32>) -> tensor<5x2x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x16xbf16>) {
  // expected-error@+1 {{sums of bf16 are rounded to it, but for those with 'to f32'}}
  %0 = graph.matmul %x, %x transpose_rhs true : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x16xf16>) {
  // expected-error@+1 {{a product of f16 is f16, or f32 with 'to f32', not f64}}
  %0 = graph.matmul %x, %x transpose_rhs true to f64 : (tensor<8x16xf16>, tensor<8x16xf16>) -> tensor<8x8xf64>
  func.return
}

// -----

func.func @f(%x: tensor<8x16xf32>) {
  // expected-error@+1 {{a product is f32 here: 'to' is for floats of 16 bits}}
  %0 = graph.matmul %x, %x transpose_rhs true to f32 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x16xbf16>) {
  // expected-error@+1 {{result 0 has type tensor<8x8xbf16>, but tensor<8x8xf32> follows from the operands}}
  %0 = graph.matmul %x, %x transpose_rhs true to f32 : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x8xbf16>
  func.return
}
