// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Cores share the blocks of the result. Steps of L1 go on from block to block; two parts of each
// take turns in L0.
// CHECK-LABEL: tile.kernel @matmul_tiles(%in0: memref<500x256xf16>, %in1: memref<300x256xf16>, %out0: memref<500x300xf16>) cores
// CHECK: tile.alloc : !tile.ring<2 x [[M:[0-9]+]]x[[K:[0-9]+]]xf16, l1>
// CHECK: tile.alloc : !tile.ring<2 x [[N:[0-9]+]]x[[K]]xf16, l1>
// CHECK: tile.alloc : !tile.ring<2 x [[M]]x[[N]]xf32, l0c>
// CHECK: scf.for
// CHECK: scf.for [[STEP:%[0-9]+]] =
// CHECK: [[COPY:%[0-9]+]] = arith.addi {{.*}}, [[STEP]]
// CHECK-NEXT: tile.slot {{.*}}[[[COPY]]]
// CHECK: tile.load {{.*}} pad 0.0
// CHECK: tile.load {{.*}} pad 0.0
// CHECK: tile.move {{.*}} to [[A:%[a-z0-9_]+]]{{$}}
// CHECK: tile.move {{.*}} to [[B:%[a-z0-9_]+]] transposed
// CHECK: tile.mmad [[SUMS:%[0-9]+]], [[A]], [[B]] init
// CHECK-NOT: tile.move {{.*}} to [[A]]{{$}}
// CHECK: tile.mmad [[SUMS]],
// CHECK: tile.store

npu_task.kernel @matmul on cube {
^bb0(%0: tensor<500x256xf16>, %1: tensor<300x256xf16>):
  %2 = graph.matmul %0, %1 {transpose_rhs = true} : (tensor<500x256xf16>, tensor<300x256xf16>) -> tensor<500x300xf16>
  npu_task.return %2 : tensor<500x300xf16>
}

// One matrix for all of a batch: its rows are rows of one matmul.
// CHECK-LABEL: tile.kernel @rows_tiles(%in0: memref<24x64xf16>, %in1: memref<64x32xf16>, %out0: memref<24x32xf16>)

npu_task.kernel @rows on cube {
^bb0(%0: tensor<3x8x64xf16>, %1: tensor<64x32xf16>):
  %2 = graph.matmul %0, %1 : (tensor<3x8x64xf16>, tensor<64x32xf16>) -> tensor<3x8x32xf16>
  npu_task.return %2 : tensor<3x8x32xf16>
}

// Heads that share keys: the index of the matrix is computed.
// CHECK-LABEL: tile.kernel @heads_tiles(%in0: memref<6x16x32xf16>, %in1: memref<2x32x16xf16>, %out0: memref<6x16x16xf16>)

npu_task.kernel @heads on cube {
^bb0(%0: tensor<2x3x16x32xf16>, %1: tensor<2x1x32x16xf16>):
  %2 = graph.matmul %0, %1 : (tensor<2x3x16x32xf16>, tensor<2x1x32x16xf16>) -> tensor<2x3x16x16xf16>
  npu_task.return %2 : tensor<2x3x16x16xf16>
}
