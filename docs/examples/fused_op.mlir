// An example of each op of the dialect `fused_op`: the function of its name. The reference shows what
// it returns; tests run it, and print and read it again.

func.func @linear() -> tensor<1x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %w = graph.constant dense<[[1.0, -1.0], [1.0, -1.0]]> : tensor<2x2xf32>
  %b = graph.constant dense<0.5> : tensor<2xf32>
  %y = fused_op.linear(%x, %w, %b) : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32> {
  ^bb0(%0: tensor<1x2xf32>, %1: tensor<2x2xf32>, %2: tensor<2xf32>):
    %3 = graph.matmul %0, %1 : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %4 = graph.add %3, %2 : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
    %5 = graph.relu %4 : (tensor<1x2xf32>) -> tensor<1x2xf32>
    fused_op.yield %5 : tensor<1x2xf32>
  }
  func.return %y : tensor<1x2xf32>
}

func.func @conv() -> tensor<1x1x3xf32> {
  %x = graph.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
  %w = graph.constant dense<[[[1.0, -1.0]]]> : tensor<1x1x2xf32>
  %y = fused_op.conv(%x, %w) : (tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x3xf32> {
  ^bb0(%0: tensor<1x1x4xf32>, %1: tensor<1x1x2xf32>):
    %2 = graph.conv %0, %1 : (tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x3xf32>
    %3 = graph.abs %2 : (tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
    fused_op.yield %3 : tensor<1x1x3xf32>
  }
  func.return %y : tensor<1x1x3xf32>
}

func.func @norm() -> tensor<1x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %r = graph.constant dense<[[2.0, 2.0]]> : tensor<1x2xf32>
  %s = graph.constant dense<1.0> : tensor<2xf32>
  %y = fused_op.norm(%x, %r, %s) : (tensor<1x2xf32>, tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32> {
  ^bb0(%0: tensor<1x2xf32>, %1: tensor<1x2xf32>, %2: tensor<2xf32>):
    %3 = graph.add %0, %1 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    %4 = graph.rms_norm %3, %2 : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
    fused_op.yield %4 : tensor<1x2xf32>
  }
  func.return %y : tensor<1x2xf32>
}

func.func @flash_attention() -> tensor<1x1x1x1xf32> {
  %q = graph.constant dense<1.0> : tensor<1x1x1x2xf32>
  %past = graph.constant dense<[[[[1.0, 0.0]]]]> : tensor<1x1x1x2xf32>
  %new = graph.constant dense<[[[[0.0, 1.0]]]]> : tensor<1x1x1x2xf32>
  %v = graph.constant dense<[[[[10.0], [20.0]]]]> : tensor<1x1x2x1xf32>
  %y = fused_op.flash_attention(%q, %past, %new, %v) : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x1x1xf32> {
  ^bb0(%0: tensor<1x1x1x2xf32>, %1: tensor<1x1x1x2xf32>, %2: tensor<1x1x1x2xf32>, %3: tensor<1x1x2x1xf32>):
    %4 = graph.concat %1, %2 axis 2 : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x2x2xf32>
    %5 = graph.attention %0, %4, %3 : (tensor<1x1x1x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x1x1xf32>
    fused_op.yield %5 : tensor<1x1x1x1xf32>
  }
  func.return %y : tensor<1x1x1x1xf32>
}

func.func @region() -> tensor<2xf32> {
  %x = graph.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %y = fused_op.region(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%0: tensor<2xf32>):
    %1 = graph.sqrt %0 : (tensor<2xf32>) -> tensor<2xf32>
    %2 = graph.neg %1 : (tensor<2xf32>) -> tensor<2xf32>
    fused_op.yield %2 : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}

// What a user's kernel of this name computes, where it is not loaded.
func.func @custom() -> tensor<1x1xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %w = graph.constant dense<[[3.0], [4.0]]> : tensor<2x1xf32>
  %y = fused_op.custom "MyLinear"(%x, %w) : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32> {
  ^bb0(%0: tensor<1x2xf32>, %1: tensor<2x1xf32>):
    %2 = graph.matmul %0, %1 : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
    fused_op.yield %2 : tensor<1x1xf32>
  }
  func.return %y : tensor<1x1xf32>
}

// Two results of one launch.
func.func @yield() -> (tensor<2xf32>, tensor<2xf32>) {
  %x = graph.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %y, %z = fused_op.region(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  ^bb0(%0: tensor<2xf32>):
    %1 = graph.sqrt %0 : (tensor<2xf32>) -> tensor<2xf32>
    %2 = graph.neg %1 : (tensor<2xf32>) -> tensor<2xf32>
    fused_op.yield %1, %2 : tensor<2xf32>, tensor<2xf32>
  }
  func.return %y, %z : tensor<2xf32>, tensor<2xf32>
}
