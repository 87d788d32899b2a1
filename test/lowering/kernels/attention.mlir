// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} | filecheck %s
// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2},tile-split-loops,tile-flags,tile-plan{target=910b2} > /dev/null

// Tokens before heads: a tile of queries is a box of one head. 50 keys are one tile of 64, whose
// last columns are left out. Two vector cores have half of its rows each.
npu_task.kernel @plain on cube {
^bb0(%0: tensor<2x40x4x64xf16>, %1: tensor<2x50x4x64xf16>):
  %2 = graph.attention %0, %1, %1 value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<2x40x4x64xf16>, tensor<2x50x4x64xf16>, tensor<2x50x4x64xf16>) -> tensor<2x40x4x64xf16>
  npu_task.return %2 : tensor<2x40x4x64xf16>
}
// CHECK:       npu_task.kernel @plain on cube tiles @plain_tiles {
// CHECK:       tile.kernel @plain_tiles(%in0: memref<2x40x4x64xf16>, %in1: memref<2x50x4x64xf16>, %out0: memref<2x40x4x64xf16>) cores
// CHECK:         tile.cube {
// CHECK:           tile.view %in0[{{.*}}] sizes [1, {{[0-9]+}}, 1, 64]
// CHECK:           scf.if
// CHECK:             tile.view %in1[{{.*}}] sizes [1, {{[0-9]+}}, 1, 64]
// CHECK:             tile.move {{.*}} transposed
// CHECK:             tile.mmad
// CHECK:             tile.push
// CHECK:           scf.if
// CHECK:             tile.pop
// CHECK:             tile.mmad
// CHECK:             tile.push
// CHECK:         tile.vector split 2 {
// CHECK:             tile.part
// CHECK:             tile.index columns
// CHECK:             graph.select
// CHECK:             tile.reduce max
// CHECK:             graph.exp
// CHECK:             tile.reduce sum
// CHECK:           tile.store

// -----

// Causal: a tile of queries ends with the keys that its last query sees; heads share keys.
npu_task.kernel @causal on cube {
^bb0(%0: tensor<1x8x1024x64xf16>, %1: tensor<1x2x1024x64xf16>):
  %2 = graph.attention %0, %1, %1 causal true : (tensor<1x8x1024x64xf16>, tensor<1x2x1024x64xf16>, tensor<1x2x1024x64xf16>) -> tensor<1x8x1024x64xf16>
  npu_task.return %2 : tensor<1x8x1024x64xf16>
}
// CHECK:       tile.kernel @causal_tiles(
// CHECK:         tile.vector split 2 {
// CHECK:           %[[END:.*]] = arith.minsi
// CHECK:           %[[TO:.*]] = arith.addi %[[END]],
// CHECK:           scf.for {{.*}} to %[[TO]] step
// CHECK:             graph.compare le

// -----

// Heads that share keys are rows of one tile where they have few queries: of one token, 4 of 8.
npu_task.kernel @decode on cube {
^bb0(%0: tensor<2x1x8x64xf16>, %1: tensor<2x50x2x64xf16>):
  %2 = graph.attention %0, %1, %1 value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<2x1x8x64xf16>, tensor<2x50x2x64xf16>, tensor<2x50x2x64xf16>) -> tensor<2x1x8x64xf16>
  npu_task.return %2 : tensor<2x1x8x64xf16>
}
// CHECK:       tile.kernel @decode_tiles(%in0: memref<2x2x4x64xf16>, %in1: memref<2x50x2x64xf16>, %out0: memref<2x2x4x64xf16>) cores 4 {
// CHECK:         tile.cube {
// CHECK:           tile.view %in0[{{.*}}] : memref<2x2x4x64xf16> -> !tile.box<16x64xf16>
// CHECK:           tile.view %in1[{{.*}}] sizes [1, 64, 1, 64]

// -----

// Of three tokens: the heads of a token stand together, a tile is a box of four tokens.
npu_task.kernel @tokens on cube {
^bb0(%0: tensor<2x3x8x64xf16>, %1: tensor<2x50x2x64xf16>):
  %2 = graph.attention %0, %1, %1 offset 47 value_tokens_first true result_tokens_first true causal true query_tokens_first true key_tokens_first true : (tensor<2x3x8x64xf16>, tensor<2x50x2x64xf16>, tensor<2x50x2x64xf16>) -> tensor<2x3x8x64xf16>
  npu_task.return %2 : tensor<2x3x8x64xf16>
}
// CHECK:       tile.kernel @tokens_tiles(%in0: memref<2x3x2x4x64xf16>,
// CHECK:           tile.view %in0[{{.*}}] sizes [1, 4, 1, 4, 64] : memref<2x3x2x4x64xf16> -> !tile.box<16x64xf16>
