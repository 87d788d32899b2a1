// A chain that nearly matched: which condition failed, and what one launch would save at most.
// RUN: ge-opt %s --split-input-file --verify-diagnostics --load-plugin %S/Inputs/attention.py -p fuse_custom_attention | filecheck %s
// CHECK: func.func @used_outside(

func.func @used_outside(%q: tensor<4x8xf32>, %k: tensor<8x4xf32>, %v: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  %0 = graph.matmul %q, %k : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-warning@+1 {{fuse_custom_attention: nothing matches MatMul, Softmax, MatMul: at the nearest miss 2 of 3 ops match, then the result of graph.softmax is used elsewhere too}}
  %1 = graph.softmax %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{fuse_custom_attention missed: the result of graph.softmax is used elsewhere too (about}}
  %2 = graph.matmul %1, %v : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %2, %1 : tensor<4x8xf32>, tensor<4x4xf32>
}

// -----

func.func @another_op(%q: tensor<4x8xf32>, %k: tensor<8x4xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-warning@+1 {{fuse_custom_attention: nothing matches MatMul, Softmax, MatMul: at the nearest miss 2 of 3 ops match, then graph.matmul is expected, not graph.exp}}
  %0 = graph.exp %q : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.softmax %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{fuse_custom_attention missed: graph.matmul is expected, not graph.exp (about}}
  %2 = graph.matmul %1, %k : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{fuse_custom_attention missed: graph.softmax is expected, not graph.matmul (about}}
  %3 = graph.matmul %2, %v : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %3 : tensor<4x8xf32>
}
