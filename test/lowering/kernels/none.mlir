// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} --remarks --verify-diagnostics | filecheck %s
// What has no tile program keeps its kernel, and says why.

// Steps of an elimination are no ops of tiles.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @eliminated on
// expected-remark@+1 {{@eliminated has no tile program: there are no tiles for graph.det}}
npu_task.kernel @eliminated on vector {
^bb0(%x: tensor<8x16x16xf32>):
  %r = graph.det %x : (tensor<8x16x16xf32>) -> tensor<8xf32>
  npu_task.return %r : tensor<8xf32>
}

// -----

// A block of sums has one place in a result, not two.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @repeated on
// expected-remark@+1 {{@repeated has no tile program: a result has elements of the matmul's several times}}
npu_task.kernel @repeated on cube {
^bb0(%x: tensor<3x8xf32>, %w: tensor<8x8xf32>):
  %0 = fused_op.linear(%x, %w) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<2x3x8xf32> {
  ^bb1(%a: tensor<3x8xf32>, %b: tensor<8x8xf32>):
    %1 = graph.matmul %a, %b : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
    %2 = graph.unsqueeze %1 axes [0] : (tensor<3x8xf32>) -> tensor<1x3x8xf32>
    %3 = graph.broadcast_to %2 shape [2, 3, 8] : (tensor<1x3x8xf32>) -> tensor<2x3x8xf32>
    fused_op.yield %3 : tensor<2x3x8xf32>
  }
  npu_task.return %0 : tensor<2x3x8xf32>
}

// -----

// A sum of one element is that element: both results are one value, which has one place.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @twice on
// expected-remark@+1 {{@twice has no tile program: a result is the same value as another argument}}
npu_task.kernel @twice on vector {
^bb0(%x: tensor<4x1xf32>):
  %0, %1 = fused_op.region(%x) : (tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
  ^bb1(%a: tensor<4x1xf32>):
    %2 = graph.exp %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %3 = graph.reduce sum %2 axes [1] : (tensor<4x1xf32>) -> tensor<4x1xf32>
    fused_op.yield %2, %3 : tensor<4x1xf32>, tensor<4x1xf32>
  }
  npu_task.return %0, %1 : tensor<4x1xf32>, tensor<4x1xf32>
}

// -----

// So is a sum alone: the element is an operand, too.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @once on
// expected-remark@+1 {{@once has no tile program: a result is the same value as another argument}}
npu_task.kernel @once on vector {
^bb0(%x: tensor<8x1xf32>):
  %0 = graph.reduce max %x axes [1] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  npu_task.return %0 : tensor<8x1xf32>
}

// -----

// What is padded around a matmul's result is none of its elements moved.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @padded on
// expected-remark@+1 {{@padded has no tile program: graph.pad behind a matmul changes elements}}
npu_task.kernel @padded on cube {
^bb0(%x: tensor<3x5x2xf32>, %w: tensor<2x2xf32>):
  %0 = fused_op.linear(%x, %w) : (tensor<3x5x2xf32>, tensor<2x2xf32>) -> tensor<3x6x2xf32> {
  ^bb1(%a: tensor<3x5x2xf32>, %b: tensor<2x2xf32>):
    %1 = graph.matmul %a, %b : (tensor<3x5x2xf32>, tensor<2x2xf32>) -> tensor<3x5x2xf32>
    %2 = graph.pad %1 pads [0, 0, 0, 0, 1, 0] : (tensor<3x5x2xf32>) -> tensor<3x6x2xf32>
    fused_op.yield %2 : tensor<3x6x2xf32>
  }
  npu_task.return %0 : tensor<3x6x2xf32>
}

// -----

// Boxes of the first result would each store all of the second one.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @beside on
// expected-remark@+1 {{@beside has no tile program: a result has not all dimensions along which others are cut}}
npu_task.kernel @beside on vector {
^bb0(%x: tensor<64x256x64xf32>, %y: tensor<256x64xf32>):
  %0, %1 = fused_op.region(%x, %y) : (tensor<64x256x64xf32>, tensor<256x64xf32>) -> (tensor<64x256x64xf32>, tensor<256x64xf32>) {
  ^bb1(%a: tensor<64x256x64xf32>, %b: tensor<256x64xf32>):
    %2 = graph.exp %b : (tensor<256x64xf32>) -> tensor<256x64xf32>
    %3 = graph.add %a, %2 : (tensor<64x256x64xf32>, tensor<256x64xf32>) -> tensor<64x256x64xf32>
    fused_op.yield %3, %2 : tensor<64x256x64xf32>, tensor<256x64xf32>
  }
  npu_task.return %0, %1 : tensor<64x256x64xf32>, tensor<256x64xf32>
}

// -----

// Windows are over planes, lines and columns, and no more.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @four on
// expected-remark@+1 {{@four has no tile program: it has 4 spatial dimensions}}
npu_task.kernel @four on vector {
^bb0(%x: tensor<1x2x3x3x3x3xf32>):
  %r = graph.pool max %x kernel [2, 2, 2, 2] : (tensor<1x2x3x3x3x3xf32>) -> tensor<1x2x2x2x2x2xf32>
  npu_task.return %r : tensor<1x2x2x2x2x2xf32>
}

// -----

// A store is to elements side by side: columns of a phase are those of a memref of their own.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @odd on
// expected-remark@+1 {{@odd has no tile program: 9 columns of its result are no multiple of the stride}}
npu_task.kernel @odd on cube {
^bb0(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x3x3xf32>):
  %r = graph.conv_transpose %x, %w strides [2, 2] : (tensor<1x4x4x4xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x9x9xf32>
  npu_task.return %r : tensor<1x4x9x9xf32>
}

// -----

// Four lines around each place: not yet.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @cubic on
// expected-remark@+1 {{@cubic has no tile program: there is none for cubic interpolation}}
npu_task.kernel @cubic on vector {
^bb0(%x: tensor<4x8xf32>):
  %r = graph.resize %x sizes [4, 5] mode cubic : (tensor<4x8xf32>) -> tensor<4x5xf32>
  npu_task.return %r : tensor<4x5xf32>
}

// -----

// A row is filled row by row: parts of it are none.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @one_row on
// expected-remark@+1 {{@one_row has no tile program: it is concatenated within rows}}
npu_task.kernel @one_row on vector {
^bb0(%x: tensor<1x4xf32>, %y: tensor<1x2xf32>, %z: tensor<1x2xf32>):
  %0, %1 = fused_op.region(%x, %y, %z) : (tensor<1x4xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x4xf32>) {
  ^bb1(%a: tensor<1x4xf32>, %b: tensor<1x2xf32>, %c: tensor<1x2xf32>):
    %2 = graph.reduce mean %a axes [-1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
    %3 = graph.concat %b, %c axis -1 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
    %4 = graph.mul %3, %a : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    fused_op.yield %2, %4 : tensor<1x1xf32>, tensor<1x4xf32>
  }
  npu_task.return %0, %1 : tensor<1x1xf32>, tensor<1x4xf32>
}

// -----

// The first result is over an operand that the third one is computed of, on other cores: each
// result of a kernel that moves elements is cut in its own way.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @over_another on
// CHECK:     npu_task.no_tiles = "results are cut apart, and one is over an operand of another one"
// expected-remark@+1 {{@over_another has no tile program: results are cut apart, and one is over an operand of another one}}
npu_task.kernel @over_another on vector {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>):
  %0, %1, %2 = fused_op.region(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>) {
  ^bb1(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %3 = graph.tanh %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %4, %5 = graph.split %b axis -1 : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
    %6 = graph.mul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    fused_op.yield %3, %5, %6 : tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>
  }
  npu_task.return %0, %1, %2 : tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">, %y: memref<4x4xf32, "hbm">, %p: memref<4x2xf32, "hbm">, %q: memref<4x4xf32, "hbm">) {
  npu_task.launch @over_another on 0 ins(%x, %y : memref<4x4xf32, "hbm">, memref<4x4xf32, "hbm">) outs(%x, %p, %q : memref<4x4xf32, "hbm">, memref<4x2xf32, "hbm">, memref<4x4xf32, "hbm">)
  func.return
}

// -----

// What attention is computed of is stored beside it, over an operand: tiles that come later read
// that again.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @beside_attention on
// expected-remark@+1 {{@beside_attention has no tile program: results are cut apart, and one is over an operand of another one}}
npu_task.kernel @beside_attention on cube {
^bb0(%x: tensor<2x2x2x4xf32>, %y: tensor<2x2x2x4xf32>):
  %0, %1, %2 = fused_op.flash_attention(%x, %y) : (tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>) -> (tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>) {
  ^bb1(%a: tensor<2x2x2x4xf32>, %b: tensor<2x2x2x4xf32>):
    %3 = graph.add %a, %b : (tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
    %4 = graph.mul %3, %3 : (tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
    %5 = graph.attention %b, %b, %b : (tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
    fused_op.yield %3, %4, %5 : tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>
  }
  npu_task.return %0, %1, %2 : tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>
}
func.func @main(%x: memref<2x2x2x4xf32, "hbm">, %y: memref<2x2x2x4xf32, "hbm">, %p: memref<2x2x2x4xf32, "hbm">, %q: memref<2x2x2x4xf32, "hbm">) {
  npu_task.launch @beside_attention on 0 ins(%x, %y : memref<2x2x2x4xf32, "hbm">, memref<2x2x2x4xf32, "hbm">) outs(%x, %p, %q : memref<2x2x2x4xf32, "hbm">, memref<2x2x2x4xf32, "hbm">, memref<2x2x2x4xf32, "hbm">)
  func.return
}

// -----

// Nothing is computed for a result without elements.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @empty on
// expected-remark@+1 {{@empty has no tile program: it has no elements}}
npu_task.kernel @empty on cube {
^bb0(%x: tensor<5x2x2x4xf32>, %w: tensor<2x1x1x3xf32>):
  %r = graph.conv_transpose %x, %w strides [1, 2] pads [0, 0, 2, 1] : (tensor<5x2x2x4xf32>, tensor<2x1x1x3xf32>) -> tensor<5x1x0x8xf32>
  npu_task.return %r : tensor<5x1x0x8xf32>
}

// -----

// Nor along columns.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @no_columns on
// expected-remark@+1 {{@no_columns has no tile program: it has no elements}}
npu_task.kernel @no_columns on cube {
^bb0(%x: tensor<5x2x1x2xf32>, %w: tensor<2x2x3x1xf32>):
  %r = graph.conv_transpose %x, %w strides [2, 1] pads [0, 1, 1, 1] : (tensor<5x2x1x2xf32>, tensor<2x2x3x1xf32>) -> tensor<5x2x2x0xf32>
  npu_task.return %r : tensor<5x2x2x0xf32>
}
