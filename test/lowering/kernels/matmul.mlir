// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Cores share the blocks of the result. Steps of L1 go on from block to block; two parts of each
// take turns in L0.
// CHECK-LABEL: tile.kernel @matmul_tiles(%in0: memref<500x1024xf16>, %in1: memref<300x1024xf16>, %out0: memref<500x300xf16>) cores
// CHECK: tile.alloc : !tile.ring<2 x [[M:[0-9]+]]x[[N:[0-9]+]]xf32, l0c>
// CHECK: tile.alloc : !tile.ring<2 x [[M]]x[[K:[0-9]+]]xf16, l1>
// CHECK: tile.alloc : !tile.ring<2 x [[N]]x[[K]]xf16, l1>
// CHECK: scf.for
// CHECK: scf.for [[STEP:%[0-9]+]] =
// CHECK: [[COPY:%[0-9]+]] = arith.addi {{.*}}, [[STEP]] :
// CHECK-NEXT: tile.slot {{.*}}[[[COPY]]]
// CHECK: tile.load {{.*}} pad 0.0{{$}}
// CHECK: tile.load {{.*}} pad 0.0{{$}}
// CHECK: tile.move {{.*}} to [[A:%[a-z0-9_]+]]{{$}}
// CHECK: tile.move {{.*}} to [[B:%[a-z0-9_]+]] transposed
// CHECK: tile.mmad [[SUMS:%[0-9]+]], [[A]], [[B]] init
// CHECK-NOT: tile.move {{.*}} to [[A]]{{$}}
// CHECK: tile.mmad [[SUMS]],
// CHECK: tile.store

npu_task.kernel @matmul on cube {
^bb0(%0: tensor<500x1024xf16>, %1: tensor<300x1024xf16>):
  %2 = graph.matmul %0, %1 transpose_rhs true : (tensor<500x1024xf16>, tensor<300x1024xf16>) -> tensor<500x300xf16>
  npu_task.return %2 : tensor<500x300xf16>
}

// One matrix for all of a batch: its rows are rows of one matmul.
// CHECK-LABEL: tile.kernel @rows_tiles(%in0: memref<48x64xf16>, %in1: memref<64x32xf16>, %out0: memref<3x16x32xf16>)

npu_task.kernel @rows on cube {
^bb0(%0: tensor<3x16x64xf16>, %1: tensor<64x32xf16>):
  %2 = graph.matmul %0, %1 : (tensor<3x16x64xf16>, tensor<64x32xf16>) -> tensor<3x16x32xf16>
  npu_task.return %2 : tensor<3x16x32xf16>
}

// Sums pass to the vector core in parts, and what follows is computed there.
// CHECK-LABEL: tile.kernel @gate_tiles(
// CHECK: tile.cube
// CHECK: tile.mmad [[A:%[0-9]+]],
// CHECK: tile.mmad [[B:%[0-9]+]],
// CHECK: tile.push {{.*}} to [[GATE:%[0-9]+]]
// CHECK: tile.push {{.*}} to [[UP:%[0-9]+]]
// CHECK: tile.vector
// CHECK: tile.pop [[GATE]] to
// CHECK: tile.pop [[UP]] to
// CHECK: tile.map
// CHECK: graph.silu
// CHECK: graph.mul
// CHECK: tile.store

npu_task.kernel @gate on cube {
^bb0(%0: tensor<64x64xf16>, %1: tensor<64x32xf16>, %2: tensor<64x32xf16>):
  %3 = fused_op.linear(%0, %1, %2) : (tensor<64x64xf16>, tensor<64x32xf16>, tensor<64x32xf16>) -> tensor<64x32xf16> {
  ^bb0(%4: tensor<64x64xf16>, %5: tensor<64x32xf16>, %6: tensor<64x32xf16>):
    %7 = graph.matmul %4, %5 : (tensor<64x64xf16>, tensor<64x32xf16>) -> tensor<64x32xf16>
    %8 = graph.silu %7 : (tensor<64x32xf16>) -> tensor<64x32xf16>
    %9 = graph.matmul %4, %6 : (tensor<64x64xf16>, tensor<64x32xf16>) -> tensor<64x32xf16>
    %10 = graph.mul %8, %9 : (tensor<64x32xf16>, tensor<64x32xf16>) -> tensor<64x32xf16>
    fused_op.yield %10 : tensor<64x32xf16>
  }
  npu_task.return %3 : tensor<64x32xf16>
}

// Vector cores compute the weights, a half of each part on either of two, and a fifo takes them to
// the cube. Codes of 8 bits are multiplied in f16: the scales are.
// CHECK-LABEL: tile.kernel @weights_tiles(
// CHECK: tile.fifo
// CHECK: tile.cube
// CHECK: tile.load
// CHECK: tile.pop {{.*}} to [[W:%[0-9]+]]
// CHECK: tile.mmad
// CHECK: tile.vector split 2 {
// CHECK: tile.map
// CHECK: graph.cast {{.*}} to f16 :
// CHECK-NEXT: graph.mul {{.*}} tensor<{{[0-9]+x[0-9]+}}xf16>
// CHECK-NEXT: tile.yield
// CHECK: tile.push

npu_task.kernel @weights on cube {
^bb0(%0: tensor<16x64xf16>, %1: tensor<64x64xi8>, %2: tensor<64xf16>):
  %3 = fused_op.linear(%0, %1, %2) : (tensor<16x64xf16>, tensor<64x64xi8>, tensor<64xf16>) -> tensor<16x64xf16> {
  ^bb0(%4: tensor<16x64xf16>, %5: tensor<64x64xi8>, %6: tensor<64xf16>):
    %7 = graph.dequantize %5, %6 axis 1 : (tensor<64x64xi8>, tensor<64xf16>) -> tensor<64x64xf16>
    %8 = graph.matmul %4, %7 : (tensor<16x64xf16>, tensor<64x64xf16>) -> tensor<16x64xf16>
    fused_op.yield %8 : tensor<16x64xf16>
  }
  npu_task.return %3 : tensor<16x64xf16>
}

// One matmul takes what another one computes: there is no program.
// CHECK-LABEL: npu_task.kernel @chain on
// CHECK-SAME: npu_task.no_tiles = "a matmul takes what another one computes"

npu_task.kernel @chain on cube {
^bb0(%0: tensor<16x16xf16>):
  %1 = fused_op.linear(%0) : (tensor<16x16xf16>) -> tensor<16x16xf16> {
  ^bb0(%2: tensor<16x16xf16>):
    %3 = graph.matmul %2, %2 : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
    %4 = graph.matmul %3, %2 : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
    fused_op.yield %4 : tensor<16x16xf16>
  }
  npu_task.return %1 : tensor<16x16xf16>
}

// Rows that are reduced are whole in a block; each vector core has some of them.
// CHECK-LABEL: tile.kernel @softmax_tiles(
// CHECK: tile.mmad
// CHECK: tile.vector split 2 {
// CHECK: tile.pop {{.*}} to [[X:%[a-z0-9_]+]]
// CHECK: tile.reduce max [[X]] to
// CHECK: graph.exp
// CHECK: tile.reduce sum
// CHECK: graph.div
// CHECK: tile.store

npu_task.kernel @softmax on cube {
^bb0(%0: tensor<64x64xf32>, %1: tensor<64x96xf32>):
  %2 = fused_op.linear(%0, %1) : (tensor<64x64xf32>, tensor<64x96xf32>) -> tensor<64x96xf32> {
  ^bb0(%3: tensor<64x64xf32>, %4: tensor<64x96xf32>):
    %5 = graph.matmul %3, %4 : (tensor<64x64xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
    %6 = graph.softmax %5 axis 1 : (tensor<64x96xf32>) -> tensor<64x96xf32>
    fused_op.yield %6 : tensor<64x96xf32>
  }
  npu_task.return %2 : tensor<64x96xf32>
}

// Numbers of matrices are read where a block begins.
// CHECK-LABEL: tile.kernel @experts_tiles(%in0: memref<5x1x8192xf16>, %in1: memref<4x8192x32xf16>, %in2: memref<5xi64>, %out0: memref<5x1x32xf16>)
// CHECK: tile.read %in2[
// CHECK: scf.for
// CHECK: tile.view %in1[

npu_task.kernel @experts on cube {
^bb0(%0: tensor<5x1x8192xf16>, %1: tensor<4x8192x32xf16>, %2: tensor<5xi64>):
  %3 = graph.grouped_matmul %0, %1 groups %2 : (tensor<5x1x8192xf16>, tensor<4x8192x32xf16>, tensor<5xi64>) -> tensor<5x1x32xf16>
  npu_task.return %3 : tensor<5x1x32xf16>
}

// Rows become columns on the vector core, where what is added has the other order.
// CHECK-LABEL: tile.kernel @turned_tiles(
// CHECK: tile.mmad
// CHECK: tile.pop {{.*}} to [[X:%[a-z0-9_]+]]
// CHECK: tile.map ins([[X]], {{.*}}) outs([[SUM:%[a-z0-9_]+]])
// CHECK: tile.move [[SUM]] to [[TURNED:%[a-z0-9_]+]] transposed
// CHECK: tile.map ins([[TURNED]],
// CHECK: tile.store

npu_task.kernel @turned on cube {
^bb0(%0: tensor<64x64xf32>, %1: tensor<64x96xf32>, %2: tensor<96xf32>, %3: tensor<96x64xf32>):
  %4 = fused_op.linear(%0, %1, %2, %3) : (tensor<64x64xf32>, tensor<64x96xf32>, tensor<96xf32>, tensor<96x64xf32>) -> tensor<96x64xf32> {
  ^bb0(%5: tensor<64x64xf32>, %6: tensor<64x96xf32>, %7: tensor<96xf32>, %8: tensor<96x64xf32>):
    %9 = graph.matmul %5, %6 : (tensor<64x64xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
    %10 = graph.add %9, %7 : (tensor<64x96xf32>, tensor<96xf32>) -> tensor<64x96xf32>
    %11 = graph.transpose %10 permutation [1, 0] : (tensor<64x96xf32>) -> tensor<96x64xf32>
    %12 = graph.add %11, %8 : (tensor<96x64xf32>, tensor<96x64xf32>) -> tensor<96x64xf32>
    fused_op.yield %12 : tensor<96x64xf32>
  }
  npu_task.return %4 : tensor<96x64xf32>
}

// 32 blocks are one for each of 24 cores, and 8 more: three cores share the terms of one of these.
// The parts are added behind a barrier.
// CHECK-LABEL: tile.kernel @waves_tiles({{.*}}) workspace(%workspace: memref<3x8x256x128xf32>) cores 24
// CHECK: tile.cube
// CHECK: tile.mmad
// CHECK: tile.push
// CHECK: tile.mmad
// CHECK: tile.view %workspace[
// CHECK: tile.store
// CHECK: tile.barrier
// CHECK: tile.vector split 2 {
// CHECK: tile.pop
// CHECK: tile.barrier
// CHECK: tile.view %workspace[
// CHECK: tile.load
// CHECK: scf.for
// CHECK: graph.add
// CHECK: tile.store

npu_task.kernel @waves on cube {
^bb0(%0: tensor<1024x8192xf16>, %1: tensor<8192x1024xf16>, %2: tensor<1024xf16>):
  %3 = fused_op.linear(%0, %1, %2) : (tensor<1024x8192xf16>, tensor<8192x1024xf16>, tensor<1024xf16>) -> tensor<1024x1024xf16> {
  ^bb0(%4: tensor<1024x8192xf16>, %5: tensor<8192x1024xf16>, %6: tensor<1024xf16>):
    %7 = graph.matmul %4, %5 : (tensor<1024x8192xf16>, tensor<8192x1024xf16>) -> tensor<1024x1024xf16>
    %8 = graph.add %7, %6 : (tensor<1024x1024xf16>, tensor<1024xf16>) -> tensor<1024x1024xf16>
    fused_op.yield %8 : tensor<1024x1024xf16>
  }
  npu_task.return %3 : tensor<1024x1024xf16>
}

// Three blocks for each core: none is left. Sums are stored as they are.
// CHECK-LABEL: tile.kernel @full_tiles(
// CHECK-NOT: workspace
// CHECK-NOT: tile.barrier
// CHECK: tile.store
// CHECK-NOT: tile.barrier

npu_task.kernel @full on cube {
^bb0(%0: tensor<1536x4096xf16>, %1: tensor<4096x1536xf16>):
  %2 = graph.matmul %0, %1 : (tensor<1536x4096xf16>, tensor<4096x1536xf16>) -> tensor<1536x1536xf16>
  npu_task.return %2 : tensor<1536x1536xf16>
}

// 250 MB of weights do not fit into L2: some columns of blocks are walked down together, the last
// ones being fewer.
// CHECK-LABEL: tile.kernel @beyond_tiles(
// CHECK: arith.minsi
// CHECK: tile.load

npu_task.kernel @beyond on cube {
^bb0(%0: tensor<2048x4096xf16>, %1: tensor<4096x32000xf16>):
  %2 = graph.matmul %0, %1 : (tensor<2048x4096xf16>, tensor<4096x32000xf16>) -> tensor<2048x32000xf16>
  npu_task.return %2 : tensor<2048x32000xf16>
}

// Both operands fit: row after row of blocks.
// CHECK-LABEL: tile.kernel @within_tiles(
// CHECK-NOT: arith.minsi
// CHECK: tile.load

npu_task.kernel @within on cube {
^bb0(%0: tensor<2048x4096xf16>, %1: tensor<4096x4096xf16>):
  %2 = graph.matmul %0, %1 : (tensor<2048x4096xf16>, tensor<4096x4096xf16>) -> tensor<2048x4096xf16>
  npu_task.return %2 : tensor<2048x4096xf16>
}
