// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Lines come once for each column of the kernel, with the lines that windows reach beyond a block;
// lines of windows are parts of them. One map has all products, and the ops after.
// CHECK-LABEL: tile.kernel @depthwise_tiles(%in0: memref<1x32x40x40xf32>, %in1: memref<32x9xf32>, %out0: memref<1x32x40x40xf32>) cores
// CHECK-NOT: tile.cube
// CHECK: scf.for
// CHECK: tile.view %in0[{{.*}}] sizes [1, [[ROWS:[0-9]+]], [[LINES:[0-9]+]], 40]
// CHECK-NEXT: tile.slot
// CHECK-NEXT: tile.load {{.*}} pad 0.0{{$}}
// CHECK-COUNT-2: tile.view %in0[
// CHECK: tile.view %in1[{{.*}}] sizes {{\[}}[[ROWS]], 1] : memref<32x9xf32>
// CHECK-COUNT-1: tile.map
// CHECK-COUNT-9: graph.mul
// CHECK: graph.relu
// CHECK: tile.store
// CHECK-LABEL: npu_task.kernel @pool on

npu_task.kernel @depthwise on cube {
^bb0(%x: tensor<1x32x40x40xf32>, %w: tensor<32x1x3x3xf32>):
  %0 = fused_op.conv(%x, %w) : (tensor<1x32x40x40xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x40x40xf32> {
  ^bb1(%1: tensor<1x32x40x40xf32>, %2: tensor<32x1x3x3xf32>):
    %3 = graph.conv %1, %2 group 32 pads [1, 1, 1, 1] : (tensor<1x32x40x40xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x40x40xf32>
    %4 = graph.relu %3 : (tensor<1x32x40x40xf32>) -> tensor<1x32x40x40xf32>
    fused_op.yield %4 : tensor<1x32x40x40xf32>
  }
  npu_task.return %0 : tensor<1x32x40x40xf32>
}

// Images of a batch are channels of one; what windows reach beyond an image never is the largest.
// CHECK-LABEL: tile.kernel @pool_tiles(%in0: memref<1x8x16x16xf16>, %out0: memref<1x8x16x16xf16>) cores
// CHECK: tile.load {{.*}} pad -inf
// CHECK: graph.maximum
// CHECK: tile.store

npu_task.kernel @pool on vector {
^bb0(%x: tensor<2x4x16x16xf16>):
  %0 = graph.pool max %x kernel [3, 3] pads [1, 1, 1, 1] : (tensor<2x4x16x16xf16>) -> tensor<2x4x16x16xf16>
  npu_task.return %0 : tensor<2x4x16x16xf16>
}

// Whole lines of an image come once and are combined; the columns for each column of the kernel are
// taken of that.
// CHECK-LABEL: tile.kernel @strided_tiles(
// CHECK-COUNT-2: tile.load {{.*}} pad -inf
// CHECK: tile.map {{.*}} outs([[WIDE:%[a-z0-9_]+]])
// CHECK-COUNT-2: graph.maximum
// CHECK-NOT: graph.maximum
// CHECK: tile.move [[WIDE]] to {{%[a-z0-9_]+}} columns 0 step 2{{$}}
// CHECK-NEXT: tile.move [[WIDE]] to {{%[a-z0-9_]+}} columns 1 step 2{{$}}
// CHECK-NEXT: tile.move [[WIDE]] to {{%[a-z0-9_]+}} columns 2 step 2{{$}}

npu_task.kernel @strided on vector {
^bb0(%x: tensor<1x64x112x112xf32>):
  %0 = graph.pool max %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32>
  npu_task.return %0 : tensor<1x64x56x56xf32>
}

// Windows over planes, too: each plane of the kernel has lines of its own, and each plane of the
// result is an image of its own.
// CHECK-LABEL: tile.kernel @planes_tiles(%in0: memref<1x8x6x16x16xf16>, %out0: memref<1x8x4x16x16xf16>) cores
// CHECK-COUNT-9: tile.view %in0[{{.*}}] sizes [1, [[ROWS:[0-9]+]], 1, {{[0-9]+}}, 16]
// CHECK-NOT: tile.view %in0
// CHECK-COUNT-10: graph.maximum
// CHECK-NOT: graph.maximum
// CHECK: tile.view %out0[{{.*}}] sizes [1, 1, 1, {{[0-9]+}}, 16]

npu_task.kernel @planes on vector {
^bb0(%x: tensor<1x8x6x16x16xf16>):
  %0 = graph.pool max %x kernel [3, 3, 3] pads [0, 1, 1, 0, 1, 1] : (tensor<1x8x6x16x16xf16>) -> tensor<1x8x4x16x16xf16>
  npu_task.return %0 : tensor<1x8x4x16x16xf16>
}

// Windows of an average that pass the image have fewer elements: one over how many there are is a
// column for lines and a row for columns.
// CHECK-LABEL: tile.kernel @average_tiles(
// CHECK: tile.map {{.*}} outs([[LINES:%[a-z0-9_]+]])
// CHECK: graph.floor
// CHECK: tile.map {{.*}} outs([[COLUMNS:%[a-z0-9_]+]])
// CHECK: tile.map ins({{.*}}[[LINES]], [[COLUMNS]])
// CHECK: tile.store

npu_task.kernel @average on vector {
^bb0(%x: tensor<1x64x14x14xf16>):
  %0 = graph.pool average %x kernel [3, 3] pads [1, 1, 1, 1] : (tensor<1x64x14x14xf16>) -> tensor<1x64x14x14xf16>
  npu_task.return %0 : tensor<1x64x14x14xf16>
}

// All windows within the image have as many.
// CHECK-LABEL: tile.kernel @within_tiles(
// CHECK-NOT: tile.index
// CHECK: graph.mul

npu_task.kernel @within on vector {
^bb0(%x: tensor<1x64x14x14xf16>):
  %0 = graph.pool average %x kernel [2, 2] strides [2, 2] : (tensor<1x64x14x14xf16>) -> tensor<1x64x7x7xf16>
  npu_task.return %0 : tensor<1x64x7x7xf16>
}
