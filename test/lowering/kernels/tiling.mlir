// A kernel with a program says how that cuts it, not how a formula would: tiles, blocks, and whether
// the next one comes meanwhile.
// RUN: ge-compile %s --target 910b2 --tiles -o - | filecheck %s

// CHECK: npu_task.kernel @matmul_0 on cube tiling <[[[M:[0-9]+]], [[N:[0-9]+]], [[K:[0-9]+]]] blocks 24 buffers 2> tiles @matmul_0_tiles {
// CHECK: tile.kernel @matmul_0_tiles({{.*}}) cores 24 {
// CHECK: tile.alloc at {{.*}} : !tile.{{(tile<|ring<[0-9] x )}}[[M]]x[[N]]xf32, l0c>
// CHECK: tile.alloc at {{.*}} : !tile.{{(tile<|ring<[0-9] x )}}[[M]]x[[K]]xf16, l0a>
// CHECK: npu_task.kernel @relu_0 on vector tiling <[[[SIZE:[0-9]+]]] blocks 48 buffers 2> tiles @relu_0_tiles {
// CHECK: tile.kernel @relu_0_tiles({{.*}}) cores 48 {
// CHECK: tile.alloc at {{.*}} : !tile.ring<2 x 1x[[SIZE]]xf16, ub>
func.func @main(%x: tensor<512x1024xf16>, %w: tensor<1024x512xf16>) -> (tensor<512x512xf16>, tensor<512x1024xf16>) {
  %0 = graph.matmul %x, %w : (tensor<512x1024xf16>, tensor<1024x512xf16>) -> tensor<512x512xf16>
  %1 = graph.relu %x : (tensor<512x1024xf16>) -> tensor<512x1024xf16>
  func.return %0, %1 : tensor<512x512xf16>, tensor<512x1024xf16>
}
