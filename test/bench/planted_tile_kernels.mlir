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
^bb0(%0: tensor<1x35x96xf16>, %1: tensor<1x40x96xf16>):
  %2 = graph.matmul %0, %1 transpose_rhs true : (tensor<1x35x96xf16>, tensor<1x40x96xf16>) -> tensor<1x35x40xf16>
  npu_task.return %2 : tensor<1x35x40xf16>
}

npu_task.kernel @linear on cube {
^bb0(%x: tensor<35x64xf16>, %w: tensor<64x40xf16>, %b: tensor<40xf16>, %y: tensor<35x40xf16>):
  %r = fused_op.linear(%x, %w, %b, %y) : (tensor<35x64xf16>, tensor<64x40xf16>, tensor<40xf16>, tensor<35x40xf16>) -> tensor<35x40xf16> {
  ^bb1(%0: tensor<35x64xf16>, %1: tensor<64x40xf16>, %2: tensor<40xf16>, %3: tensor<35x40xf16>):
    %4 = graph.matmul %0, %1 : (tensor<35x64xf16>, tensor<64x40xf16>) -> tensor<35x40xf16>
    %5 = graph.add %4, %2 : (tensor<35x40xf16>, tensor<40xf16>) -> tensor<35x40xf16>
    %6 = graph.add %5, %3 : (tensor<35x40xf16>, tensor<35x40xf16>) -> tensor<35x40xf16>
    fused_op.yield %6 : tensor<35x40xf16>
  }
  npu_task.return %r : tensor<35x40xf16>
}

npu_task.kernel @attention on cube {
^bb0(%0: tensor<1x2x40x32xf16>, %1: tensor<1x1x70x32xf16>, %2: tensor<1x1x40x70xf16>):
  %3 = graph.attention %0, %1, %1 mask %2 : (tensor<1x2x40x32xf16>, tensor<1x1x70x32xf16>, tensor<1x1x70x32xf16>, tensor<1x1x40x70xf16>) -> tensor<1x2x40x32xf16>
  npu_task.return %3 : tensor<1x2x40x32xf16>
}

npu_task.kernel @causal on cube {
^bb0(%0: tensor<1x2x44x32xf32>):
  %1 = graph.attention %0, %0, %0 causal true : (tensor<1x2x44x32xf32>, tensor<1x2x44x32xf32>, tensor<1x2x44x32xf32>) -> tensor<1x2x44x32xf32>
  npu_task.return %1 : tensor<1x2x44x32xf32>
}

npu_task.kernel @norm on vector {
^bb0(%x: tensor<40x96xf16>, %w: tensor<96xf16>, %b: tensor<96xf16>):
  %0 = graph.layer_norm %x, %w, %b : (tensor<40x96xf16>, tensor<96xf16>, tensor<96xf16>) -> tensor<40x96xf16>
  npu_task.return %0 : tensor<40x96xf16>
}

npu_task.kernel @softmax on vector {
^bb0(%x: tensor<2x21x50xf32>):
  %0 = graph.softmax %x axis 2 : (tensor<2x21x50xf32>) -> tensor<2x21x50xf32>
  npu_task.return %0 : tensor<2x21x50xf32>
}

npu_task.kernel @transpose on vector {
^bb0(%x: tensor<20x2x40xf16>):
  %0 = graph.transpose %x permutation [2, 1, 0] : (tensor<20x2x40xf16>) -> tensor<40x2x20xf16>
  npu_task.return %0 : tensor<40x2x20xf16>
}

npu_task.kernel @gather on vector {
^bb0(%x: tensor<9x40xf32>, %i: tensor<10xi64>):
  %0 = graph.gather %x, %i : (tensor<9x40xf32>, tensor<10xi64>) -> tensor<10x40xf32>
  npu_task.return %0 : tensor<10x40xf32>
}

npu_task.kernel @conv on cube {
^bb0(%x: tensor<1x16x9x9xf16>, %w: tensor<32x16x3x3xf16>):
  %0 = graph.conv %x, %w strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x16x9x9xf16>, tensor<32x16x3x3xf16>) -> tensor<1x32x5x5xf16>
  npu_task.return %0 : tensor<1x32x5x5xf16>
}

npu_task.kernel @lengths on cube {
^bb0(%0: tensor<2x1x20x16xf16>, %1: tensor<2x1x40x16xf16>, %2: tensor<2xi64>):
  %3 = graph.attention %0, %1, %1 key_lengths %2 : (tensor<2x1x20x16xf16>, tensor<2x1x40x16xf16>, tensor<2x1x40x16xf16>, tensor<2xi64>) -> tensor<2x1x20x16xf16>
  npu_task.return %3 : tensor<2x1x20x16xf16>
}

npu_task.kernel @codes on cube {
^bb0(%x: tensor<33x64xi8>, %w: tensor<64x48xi8>, %b: tensor<48xi32>, %s: tensor<48xf32>):
  %r = fused_op.linear(%x, %w, %b, %s) : (tensor<33x64xi8>, tensor<64x48xi8>, tensor<48xi32>, tensor<48xf32>) -> tensor<33x48xi8> {
  ^bb1(%0: tensor<33x64xi8>, %1: tensor<64x48xi8>, %2: tensor<48xi32>, %3: tensor<48xf32>):
    %4 = graph.matmul %0, %1 : (tensor<33x64xi8>, tensor<64x48xi8>) -> tensor<33x48xi32>
    %5 = graph.add %4, %2 : (tensor<33x48xi32>, tensor<48xi32>) -> tensor<33x48xi32>
    %6 = graph.requantize %5, %3 to i8 axis 1 rounding float32 low 0 : (tensor<33x48xi32>, tensor<48xf32>) -> tensor<33x48xi8>
    fused_op.yield %6 : tensor<33x48xi8>
  }
  npu_task.return %r : tensor<33x48xi8>
}

npu_task.kernel @pool on vector {
^bb0(%x: tensor<1x2x10x9xf16>):
  %0 = graph.pool max %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x2x10x9xf16>) -> tensor<1x2x5x5xf16>
  npu_task.return %0 : tensor<1x2x5x5xf16>
}

npu_task.kernel @depthwise on vector {
^bb0(%x: tensor<1x6x9x9xf16>, %w: tensor<6x1x3x3xf16>):
  %0 = graph.conv %x, %w group 6 pads [1, 1, 1, 1] : (tensor<1x6x9x9xf16>, tensor<6x1x3x3xf16>) -> tensor<1x6x9x9xf16>
  npu_task.return %0 : tensor<1x6x9x9xf16>
}

npu_task.kernel @concat on vector {
^bb0(%x: tensor<3x5x40xf32>, %y: tensor<3x9x40xf32>):
  %0 = graph.concat %x, %y axis 1 : (tensor<3x5x40xf32>, tensor<3x9x40xf32>) -> tensor<3x14x40xf32>
  npu_task.return %0 : tensor<3x14x40xf32>
}

npu_task.kernel @sums on vector {
^bb0(%x: tensor<5x30x50xf32>):
  %0 = graph.reduce sum %x axes [1] : (tensor<5x30x50xf32>) -> tensor<5x1x50xf32>
  npu_task.return %0 : tensor<5x1x50xf32>
}

npu_task.kernel @split_keys on cube {
^bb0(%0: tensor<1x32x1x32xf16>, %1: tensor<1x1x2048x32xf16>, %2: tensor<1x1x2048x32xf16>):
  %3 = graph.attention %0, %1, %2 : (tensor<1x32x1x32xf16>, tensor<1x1x2048x32xf16>, tensor<1x1x2048x32xf16>) -> tensor<1x32x1x32xf16>
  npu_task.return %3 : tensor<1x32x1x32xf16>
}

npu_task.kernel @running on vector {
^bb0(%x: tensor<12x40xf32>):
  %0 = graph.cumulative sum %x axis 1 : (tensor<12x40xf32>) -> tensor<12x40xf32>
  npu_task.return %0 : tensor<12x40xf32>
}

npu_task.kernel @scatter on vector {
^bb0(%x: tensor<9x300xf32>, %i: tensor<5x1xi64>, %u: tensor<5x300xf32>):
  %0 = graph.scatter_nd %x, %i, %u : (tensor<9x300xf32>, tensor<5x1xi64>, tensor<5x300xf32>) -> tensor<9x300xf32>
  npu_task.return %0 : tensor<9x300xf32>
}

// Updates that all cores add behind a barrier.
npu_task.kernel @summed on vector {
^bb0(%x: tensor<9x72xf32>, %k: tensor<14x1xi64>, %u: tensor<14x72xf32>):
  %0 = graph.scatter_nd %x, %k, %u reduction add : (tensor<9x72xf32>, tensor<14x1xi64>, tensor<14x72xf32>) -> tensor<9x72xf32>
  npu_task.return %0 : tensor<9x72xf32>
}

// Columns gathered at places that are computed before.
npu_task.kernel @resized on vector {
^bb0(%x: tensor<2x6x20xf16>):
  %0 = graph.resize %x sizes [9, 33] axes [1, 2] mode linear : (tensor<2x6x20xf16>) -> tensor<2x9x33xf16>
  npu_task.return %0 : tensor<2x9x33xf16>
}

// Columns gathered at what is loaded.
npu_task.kernel @picked on vector {
^bb0(%x: tensor<9x40xf32>, %k: tensor<7x40xi64>):
  %0 = graph.gather_elements %x, %k axis 0 : (tensor<9x40xf32>, tensor<7x40xi64>) -> tensor<7x40xf32>
  npu_task.return %0 : tensor<7x40xf32>
}

// Images that are turned, of which lines are combined in parts of tiles.
npu_task.kernel @pooled on vector {
^bb0(%x: tensor<1x40x7x7xf16>):
  %0 = graph.pool average %x kernel [3, 3] pads [1, 1, 1, 1] : (tensor<1x40x7x7xf16>) -> tensor<1x40x7x7xf16>
  npu_task.return %0 : tensor<1x40x7x7xf16>
}
