// Small kernels whose tile programs get faults (planted_tile_faults.py).

npu_task.kernel @region on vector {
^bb0(%x: tensor<3x20x70xf32>, %b: tensor<70xf32>, %s: tensor<3x1x1xf32>):
  %r = fused_op.region(%x, %b, %s) : (tensor<3x20x70xf32>, tensor<70xf32>, tensor<3x1x1xf32>) -> tensor<3x20x70xf32> {
  ^bb1(%0: tensor<3x20x70xf32>, %1: tensor<70xf32>, %2: tensor<3x1x1xf32>):
    %3 = graph.add %0, %1 : (tensor<3x20x70xf32>, tensor<70xf32>) -> tensor<3x20x70xf32>
    %4 = graph.mul %3, %2 : (tensor<3x20x70xf32>, tensor<3x1x1xf32>) -> tensor<3x20x70xf32>
    fused_op.yield %4 : tensor<3x20x70xf32>
  }
  npu_task.return %r : tensor<3x20x70xf32>
}

npu_task.kernel @matmul on cube {
^bb0(%0: tensor<2x50x96xf16>, %1: tensor<2x40x96xf16>):
  %2 = graph.matmul %0, %1 {transpose_rhs = true} : (tensor<2x50x96xf16>, tensor<2x40x96xf16>) -> tensor<2x50x40xf16>
  npu_task.return %2 : tensor<2x50x40xf16>
}

npu_task.kernel @linear on cube {
^bb0(%x: tensor<50x64xf16>, %w: tensor<64x40xf16>, %b: tensor<40xf16>, %y: tensor<50x40xf16>):
  %r = fused_op.linear(%x, %w, %b, %y) : (tensor<50x64xf16>, tensor<64x40xf16>, tensor<40xf16>, tensor<50x40xf16>) -> tensor<50x40xf16> {
  ^bb1(%0: tensor<50x64xf16>, %1: tensor<64x40xf16>, %2: tensor<40xf16>, %3: tensor<50x40xf16>):
    %4 = graph.matmul %0, %1 : (tensor<50x64xf16>, tensor<64x40xf16>) -> tensor<50x40xf16>
    %5 = graph.add %4, %2 : (tensor<50x40xf16>, tensor<40xf16>) -> tensor<50x40xf16>
    %6 = graph.add %5, %3 : (tensor<50x40xf16>, tensor<50x40xf16>) -> tensor<50x40xf16>
    fused_op.yield %6 : tensor<50x40xf16>
  }
  npu_task.return %r : tensor<50x40xf16>
}

npu_task.kernel @attention on cube {
^bb0(%0: tensor<1x4x40x32xf16>, %1: tensor<1x2x70x32xf16>, %2: tensor<1x1x40x70xf16>):
  %3 = graph.attention %0, %1, %1 mask %2 : tensor<1x1x40x70xf16> : tensor<1x4x40x32xf16>, tensor<1x2x70x32xf16>, tensor<1x2x70x32xf16> -> tensor<1x4x40x32xf16>
  npu_task.return %3 : tensor<1x4x40x32xf16>
}

npu_task.kernel @causal on cube {
^bb0(%0: tensor<1x2x70x32xf32>):
  %1 = graph.attention %0, %0, %0 {causal = true} : tensor<1x2x70x32xf32>, tensor<1x2x70x32xf32>, tensor<1x2x70x32xf32> -> tensor<1x2x70x32xf32>
  npu_task.return %1 : tensor<1x2x70x32xf32>
}

npu_task.kernel @norm on vector {
^bb0(%x: tensor<40x96xf16>, %w: tensor<96xf16>, %b: tensor<96xf16>):
  %0 = graph.layer_norm %x, %w, %b : (tensor<40x96xf16>, tensor<96xf16>, tensor<96xf16>) -> tensor<40x96xf16>
  npu_task.return %0 : tensor<40x96xf16>
}

npu_task.kernel @softmax on vector {
^bb0(%x: tensor<6x30x50xf32>):
  %0 = graph.softmax %x {axis = 2 : i64} : (tensor<6x30x50xf32>) -> tensor<6x30x50xf32>
  npu_task.return %0 : tensor<6x30x50xf32>
}

npu_task.kernel @transpose on vector {
^bb0(%x: tensor<50x3x40xf16>):
  %0 = graph.transpose %x permutation [2, 1, 0] : tensor<50x3x40xf16> -> tensor<40x3x50xf16>
  npu_task.return %0 : tensor<40x3x50xf16>
}

npu_task.kernel @gather on vector {
^bb0(%x: tensor<9x40xf32>, %i: tensor<30xi64>):
  %0 = graph.gather %x, %i : (tensor<9x40xf32>, tensor<30xi64>) -> tensor<30x40xf32>
  npu_task.return %0 : tensor<30x40xf32>
}

npu_task.kernel @conv on cube {
^bb0(%x: tensor<1x16x9x9xf16>, %w: tensor<32x16x3x3xf16>):
  %0 = graph.conv %x, %w strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x16x9x9xf16>, tensor<32x16x3x3xf16>) -> tensor<1x32x5x5xf16>
  npu_task.return %0 : tensor<1x32x5x5xf16>
}
