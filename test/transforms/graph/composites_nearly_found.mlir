// What nearly was a composite says which condition failed, and what that may cost.
// RUN: ge-opt %s --split-input-file --verify-diagnostics -p find-norms,find-attention,find-softmax,find-activations,find-rotary | filecheck %s
// CHECK: func.func @norm(

func.func @norm(%x: tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x1xf32>) {
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce mean %x axes [1] : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %1 = graph.sub %x, %0 : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  %2 = graph.mul %1, %1 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %3 = graph.reduce mean %2 axes [1] : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %4 = graph.add %3, %eps : (tensor<64x1xf32>, tensor<f32>) -> tensor<64x1xf32>
  // expected-remark@+1 {{find-layer-norm missed: the root is used elsewhere too (about}}
  %5 = graph.sqrt %4 : (tensor<64x1xf32>) -> tensor<64x1xf32>
  %6 = graph.div %1, %5 : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  func.return %6, %5 : tensor<64x256xf32>, tensor<64x1xf32>
}

// -----

func.func @attention(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>, %v: tensor<1x2x64x16xf32>) -> (tensor<1x2x64x16xf32>, tensor<1x2x64x64xf32>) {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) -> tensor<1x2x64x64xf32>
  // expected-remark@+1 {{find-attention missed: the weights are used elsewhere too (about}}
  %1 = graph.softmax %0 : (tensor<1x2x64x64xf32>) -> tensor<1x2x64x64xf32>
  %2 = graph.matmul %1, %v : (tensor<1x2x64x64xf32>, tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32>
  func.return %2, %1 : tensor<1x2x64x16xf32>, tensor<1x2x64x64xf32>
}

// -----

func.func @softmax(%x: tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x1xf32>) {
  %0 = graph.reduce max %x axes [1] : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %1 = graph.sub %x, %0 : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  %2 = graph.exp %1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %3 = graph.reduce sum %2 axes [1] : (tensor<64x256xf32>) -> tensor<64x1xf32>
  // expected-remark@+1 {{find-softmax missed: the result of graph.reduce is used elsewhere too (about}}
  %4 = graph.div %2, %3 : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  func.return %4, %3 : tensor<64x256xf32>, tensor<64x1xf32>
}

// -----

func.func @gelu(%x: tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
  %a = graph.constant dense<1.41421354> : tensor<f32>
  %b = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.div %x, %a : (tensor<64x256xf32>, tensor<f32>) -> tensor<64x256xf32>
  // expected-remark@+1 {{find-gelu missed: the ops from graph.erf on compute another function (about}}
  %1 = graph.erf %0 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %2 = graph.add %1, %b : (tensor<64x256xf32>, tensor<f32>) -> tensor<64x256xf32>
  %3 = graph.mul %2, %x : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  func.return %3, %1 : tensor<64x256xf32>, tensor<64x256xf32>
}

// -----

func.func @rotary(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a, %b = graph.split %x axis 1 : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %0 = graph.neg %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.concat %0, %a axis 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %2 = graph.mul %x, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.mul %1, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{find-rotary-embedding missed: an operand does not have the second elements of pairs (about}}
  %4 = graph.add %2, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %4 : tensor<4x8xf32>
}
