// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Weights as they lie in memory, times windows: each kernel element is every ninth row. The bias is
// a product of a column by ones.
// CHECK-LABEL: tile.kernel @conv_tiles(%in0: memref<1x32x8x16xf32>, %in1: memref<1x48x288xf32>, %in2: memref<1x48x1xf32>, %out0: memref<1x48x8x16xf32>) cores
// CHECK-NOT: tile.vector
// CHECK: tile.fill [[ONES:%l1_[0-9]+]], 1.0{{$}}
// CHECK: [[BIAS:%[0-9]+]] = tile.view %in2[
// CHECK: tile.load [[BIAS]] to
// CHECK: tile.move [[ONES]] to
// CHECK: tile.mmad [[SUMS:%[0-9]+]], {{.*}} init
// CHECK: tile.load {{.*}} pad 0.0{{$}}
// CHECK: scf.for
// CHECK: [[BOX:%[0-9]+]] = tile.view %in0[{{.*}}] sizes [1, [[CHANNELS:[0-9]+]], [[LINES:[0-9]+]], 16] : memref<1x32x8x16xf32>
// CHECK: tile.load [[BOX]] to {{%[0-9]+}} rows {{%[0-9]+}} step 9 pad 0.0{{$}}
// CHECK: tile.mmad [[SUMS]],
// CHECK: tile.store [[SUMS]] to {{%[0-9]+}} relu

npu_task.kernel @conv on cube {
^bb0(%x: tensor<1x32x8x16xf32>, %w: tensor<48x32x3x3xf32>, %b: tensor<48xf32>):
  %0 = fused_op.conv(%x, %w, %b) : (tensor<1x32x8x16xf32>, tensor<48x32x3x3xf32>, tensor<48xf32>) -> tensor<1x48x8x16xf32> {
  ^bb1(%1: tensor<1x32x8x16xf32>, %2: tensor<48x32x3x3xf32>, %3: tensor<48xf32>):
    %4 = graph.conv %1, %2 bias %3 pads [1, 1, 1, 1] : (tensor<1x32x8x16xf32>, tensor<48x32x3x3xf32>, tensor<48xf32>) -> tensor<1x48x8x16xf32>
    %5 = graph.relu %4 : (tensor<1x48x8x16xf32>) -> tensor<1x48x8x16xf32>
    fused_op.yield %5 : tensor<1x48x8x16xf32>
  }
  npu_task.return %0 : tensor<1x48x8x16xf32>
}

// One kernel element: an image is one line. What is added comes to a vector core.
// CHECK-LABEL: tile.kernel @add_tiles(%in0: memref<2x32x1x49xf16>, %in1: memref<1x16x32xf16>, %in2: memref<2x16x1x49xf16>, %out0: memref<2x16x1x49xf16>) cores
// CHECK: [[FIFO:%fifo[0-9a-z_]*|%[0-9]+]] = tile.fifo
// CHECK: tile.cube
// CHECK: tile.push {{.*}} to [[FIFO]]{{$}}
// CHECK: tile.vector
// CHECK: tile.pop [[FIFO]] to
// CHECK: tile.map
// CHECK: graph.add
// CHECK: tile.store

npu_task.kernel @add on cube {
^bb0(%x: tensor<2x32x7x7xf16>, %w: tensor<16x32x1x1xf16>, %r: tensor<2x16x7x7xf16>):
  %0 = fused_op.conv(%x, %w, %r) : (tensor<2x32x7x7xf16>, tensor<16x32x1x1xf16>, tensor<2x16x7x7xf16>) -> tensor<2x16x7x7xf16> {
  ^bb1(%1: tensor<2x32x7x7xf16>, %2: tensor<16x32x1x1xf16>, %3: tensor<2x16x7x7xf16>):
    %4 = graph.conv %1, %2 : (tensor<2x32x7x7xf16>, tensor<16x32x1x1xf16>) -> tensor<2x16x7x7xf16>
    %5 = graph.add %4, %3 : (tensor<2x16x7x7xf16>, tensor<2x16x7x7xf16>) -> tensor<2x16x7x7xf16>
    fused_op.yield %5 : tensor<2x16x7x7xf16>
  }
  npu_task.return %0 : tensor<2x16x7x7xf16>
}

// A stride over columns: vector cores bring lines whole, and turn them, half of them each; windows
// are unfolded on the way to L0B.
// CHECK-LABEL: tile.kernel @stem_tiles(%in0: memref<1x3x14336xf16>, %in1: memref<1x64x147xf16>, %out0: memref<1x64x32x112xf16>) cores
// CHECK: [[FIFO:%fifo[0-9a-z_]*|%[0-9]+]] = tile.fifo
// CHECK: tile.cube
// CHECK: tile.pop [[FIFO]] to [[IMAGE:%[0-9]+]]
// CHECK: tile.unfold [[IMAGE]] to [[WINDOWS:%[0-9a-z_]+]] width 224 pixels 112 kernel [7, 7] strides [2, 2] dilations [1, 1] from 0 left 3 pad 0.0{{$}}
// CHECK: tile.mmad {{.*}}, {{.*}}, [[WINDOWS]] init
// CHECK: tile.vector split 2 {
// CHECK: [[BOX:%[0-9]+]] = tile.view %in0[{{.*}}] sizes [1, 16, {{[0-9]+}}] : memref<1x3x14336xf16>
// CHECK: tile.load [[BOX]] to [[LINES:%[0-9]+]] pad 0.0{{$}}
// CHECK: tile.move {{%[0-9]+}} to {{%[0-9]+}} transposed
// CHECK: tile.push {{.*}} to [[FIFO]]{{$}}

npu_task.kernel @stem on cube {
^bb0(%x: tensor<1x3x64x224xf16>, %w: tensor<64x3x7x7xf16>):
  %0 = graph.conv %x, %w strides [2, 2] pads [3, 3, 3, 3] : (tensor<1x3x64x224xf16>, tensor<64x3x7x7xf16>) -> tensor<1x64x32x112xf16>
  npu_task.return %0 : tensor<1x64x32x112xf16>
}

// Planes: those of the kernel are more rows of windows.
// CHECK-LABEL: tile.kernel @volume_tiles(%in0: memref<1x16x6x8x16xf16>, %in1: memref<1x32x432xf16>, %out0: memref<1x32x6x8x16xf16>) cores
// CHECK-COUNT-9: tile.load {{.*}} rows {{%[a-z0-9_]+}} step 27 pad 0.0{{$}}
// CHECK-NOT: step 27
// CHECK: tile.mmad
// CHECK: tile.store

npu_task.kernel @volume on cube {
^bb0(%x: tensor<1x16x6x8x16xf16>, %w: tensor<32x16x3x3x3xf16>):
  %0 = graph.conv %x, %w pads [1, 1, 1, 1, 1, 1] : (tensor<1x16x6x8x16xf16>, tensor<32x16x3x3x3xf16>) -> tensor<1x32x6x8x16xf16>
  npu_task.return %0 : tensor<1x32x6x8x16xf16>
}

// A transposed convolution: lines and columns of the result that are a stride apart are dimensions
// of their own, and which of them a block has is a number. Of the kernel's 16 elements each has 4.
// CHECK-LABEL: tile.kernel @phases_tiles(%in0: memref<1x32x8x16xf16>, %in1: memref<1x32x16x4x4xf16>, %out0: memref<1x16x8x2x16x2xf16>) cores
// CHECK-NOT: tile.vector
// CHECK-COUNT-4: tile.view %in1[{{.*}}] sizes [1, [[CHANNELS:[0-9]+]], 16, 1, 1]
// CHECK-COUNT-4: tile.view %in0[{{.*}}] sizes [1, [[CHANNELS]], [[LINES:[0-9]+]], 16]
// CHECK: tile.move {{.*}} transposed
// CHECK: tile.mmad
// CHECK: tile.view %out0[{{.*}}] sizes [1, 16, [[LINES]], 1, 16, 1]
// CHECK: tile.store {{.*}} relu

npu_task.kernel @phases on cube {
^bb0(%x: tensor<1x32x8x16xf16>, %w: tensor<32x16x4x4xf16>):
  %0 = fused_op.conv(%x, %w) : (tensor<1x32x8x16xf16>, tensor<32x16x4x4xf16>) -> tensor<1x16x16x32xf16> {
  ^bb1(%1: tensor<1x32x8x16xf16>, %2: tensor<32x16x4x4xf16>):
    %3 = graph.conv_transpose %1, %2 strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x32x8x16xf16>, tensor<32x16x4x4xf16>) -> tensor<1x16x16x32xf16>
    %4 = graph.relu %3 : (tensor<1x16x16x32xf16>) -> tensor<1x16x16x32xf16>
    fused_op.yield %4 : tensor<1x16x16x32xf16>
  }
  npu_task.return %0 : tensor<1x16x16x32xf16>
}
