// RUN: ge-opt %s --split-input-file -p find-attention --validate | filecheck %s

// What looks like attention and is not: the op would give other numbers, or does not take it.

// Scores or weights that are rounded to 16 bits on the way.
func.func @rounded_scores(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %1 = graph.cast %0 to f16 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf16>
  %2 = graph.cast %1 to f32 : (tensor<1x2x8x8xf16>) -> tensor<1x2x8x8xf32>
  %3 = graph.softmax %2 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %4 = graph.matmul %3, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  func.return %4 : tensor<1x2x8x4xf32>
}
// CHECK-LABEL: func.func @rounded_scores(
// CHECK-NOT:   graph.attention

// -----

func.func @rounded_weights(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %1 = graph.softmax %0 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %2 = graph.cast %1 to bf16 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xbf16>
  %3 = graph.cast %2 to f32 : (tensor<1x2x8x8xbf16>) -> tensor<1x2x8x8xf32>
  %4 = graph.matmul %3, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  func.return %4 : tensor<1x2x8x4xf32>
}
// CHECK-LABEL: func.func @rounded_weights(
// CHECK-NOT:   graph.attention

// -----

// One query head for several key heads, one value head for several weights.
func.func @one_query_head(%q: tensor<2x1x8x4xf32>, %k: tensor<2x3x8x4xf32>, %v: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<2x1x8x4xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x8x8xf32>
  %1 = graph.softmax %0 : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %2 = graph.matmul %1, %v : (tensor<2x3x8x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32>
  func.return %2 : tensor<2x3x8x4xf32>
}
// CHECK-LABEL: func.func @one_query_head(
// CHECK-NOT:   graph.attention

// -----

func.func @one_value_head(%q: tensor<2x3x8x4xf32>, %k: tensor<2x3x8x4xf32>, %v: tensor<2x1x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<2x3x8x4xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x8x8xf32>
  %1 = graph.softmax %0 : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %2 = graph.matmul %1, %v : (tensor<2x3x8x8xf32>, tensor<2x1x8x4xf32>) -> tensor<2x3x8x4xf32>
  func.return %2 : tensor<2x3x8x4xf32>
}
// CHECK-LABEL: func.func @one_value_head(
// CHECK-NOT:   graph.attention

// -----

// One head of key and value for all queries is attention.
func.func @one_key_head(%q: tensor<2x3x8x4xf32>, %k: tensor<2x1x8x4xf32>, %v: tensor<2x1x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<2x3x8x4xf32>, tensor<2x1x8x4xf32>) -> tensor<2x3x8x8xf32>
  %1 = graph.softmax %0 : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %2 = graph.matmul %1, %v : (tensor<2x3x8x8xf32>, tensor<2x1x8x4xf32>) -> tensor<2x3x8x4xf32>
  func.return %2 : tensor<2x3x8x4xf32>
}
// CHECK-LABEL: func.func @one_key_head(
// CHECK-NEXT:  graph.attention

// -----

// Softmax over the queries.
func.func @columns(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %1 = graph.softmax %0 axis 2 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %2 = graph.matmul %1, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  func.return %2 : tensor<1x2x8x4xf32>
}
// CHECK-LABEL: func.func @columns(
// CHECK-NOT:   graph.attention

// -----

// Scores that are the same in each round of a loop are computed once.
func.func @loop(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %n = graph.constant dense<3> : tensor<i64>
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %y = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %v : tensor<1x2x8x4xf32>) -> (tensor<1x2x8x4xf32>) {
    %1 = graph.softmax %0 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %2 = graph.matmul %1, %a : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
    graph.yield %go, %2 : tensor<i1>, tensor<1x2x8x4xf32>
  }
  func.return %y : tensor<1x2x8x4xf32>
}
// CHECK-LABEL: func.func @loop(
// CHECK-NOT:   graph.attention

// -----

// A mask that is added in 32 bits leaves the scores of a row that it excludes apart; in 16 bits it
// would swallow them. So it stays a mask of 32 bits.
func.func @wide_mask(%q: tensor<1x2x8x4xf16>, %k: tensor<1x2x8x4xf16>, %v: tensor<1x2x8x4xf16>) -> tensor<1x2x8x4xf16> {
  %low = graph.constant dense<-60000.0> : tensor<8x8xf16>
  %mask = graph.cast %low to f32 : (tensor<8x8xf16>) -> tensor<8x8xf32>
  %wq = graph.cast %q to f32 : (tensor<1x2x8x4xf16>) -> tensor<1x2x8x4xf32>
  %wk = graph.cast %k to f32 : (tensor<1x2x8x4xf16>) -> tensor<1x2x8x4xf32>
  %wv = graph.cast %v to f32 : (tensor<1x2x8x4xf16>) -> tensor<1x2x8x4xf32>
  %0 = graph.matmul %wq, %wk transpose_rhs true : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %1 = graph.add %0, %mask : (tensor<1x2x8x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8x8xf32>
  %2 = graph.softmax %1 : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %3 = graph.matmul %2, %wv : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %4 = graph.cast %3 to f16 : (tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf16>
  func.return %4 : tensor<1x2x8x4xf16>
}
// CHECK-LABEL: func.func @wide_mask(
// CHECK:       %[[MASK:.*]] = graph.cast
// CHECK-NEXT:  graph.attention %q, %k, %v mask %[[MASK]]
