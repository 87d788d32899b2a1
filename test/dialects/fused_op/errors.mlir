// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @conv(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the body holds a convolution, not graph.relu}}
  %0 = fused_op.conv(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = graph.relu %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fused_op.yield %1 : tensor<4x8xf32>
  }
  func.return
}

// -----

func.func @flash_attention(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the body holds an attention, not graph.neg}}
  %0 = fused_op.flash_attention(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = graph.neg %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fused_op.yield %1 : tensor<4x8xf32>
  }
  func.return
}

// -----

func.func @linear(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the body holds a matmul, not nothing}}
  %0 = fused_op.linear(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    fused_op.yield %a : tensor<4x8xf32>
  }
  func.return
}

// -----

func.func @norm(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{the body holds a norm, not graph.relu}}
  %0 = fused_op.norm(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = graph.relu %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fused_op.yield %1 : tensor<4x8xf32>
  }
  func.return
}
