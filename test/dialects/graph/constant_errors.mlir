// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: the literal has shape [2], its type [3]
func.func @f() {
  %0 = graph.constant dense<[1, 2]> : tensor<3xi32>
  func.return
}

// -----

// CHECK: error: 'graph.constant' op a weight has a static shape, not tensor<?xf32>
func.func @f() {
  %0 = graph.constant #graph.weight<"w"> : tensor<?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.constant' op result 'result': expected a ranked tensor of elements that ge has, not f32{{$}}
func.func @f() {
  %0 = graph.constant #graph.weight<"w"> : f32
  func.return
}

// -----

// CHECK: error: string literal expected
func.func @f() {
  %0 = graph.constant #graph.weight<w> : tensor<1xf32>
  func.return
}

// -----

// CHECK: error: Expected ':'
func.func @f() {
  %0 = graph.constant 3 : i32
  func.return
}

// -----

// CHECK: error: 'graph.constant' op result 0 has type tensor<3xi32>, but tensor<2xi32> follows from the operands
func.func @f() {
  %0 = "graph.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<3xi32>
  func.return
}

// -----

// CHECK: error: f16 has only 16 bits
func.func @f() {
  %0 = graph.constant dense<[0x1FFFF]> : tensor<1xf16>
  func.return
}

// -----

// CHECK: error: Dense literal attribute should have a static shape.
func.func @f() {
  %0 = graph.constant dense<1> : tensor<2x?xi32>
  func.return
}
