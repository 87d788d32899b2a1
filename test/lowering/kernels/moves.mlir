// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} --remarks --verify-diagnostics | filecheck %s

// Both sides of a transposed tile move along their memory.
// CHECK:      tile.kernel @turned_tiles(%in0: memref<500x70xf16>, %out0: memref<70x500xf16>) cores
// CHECK:        tile.view %in0[{{.+}}, {{.+}}] : memref<500x70xf16> -> !tile.box<[[R:[0-9]+]]x[[C:[0-9]+]]xf16>
// CHECK:        tile.move %{{.+}} to %{{.+}} transposed
// CHECK:        tile.view %out0[{{.+}}, {{.+}}] sizes {{.+}} : memref<70x500xf16> -> !tile.box<[[C]]x[[R]]xf16>
npu_task.kernel @turned on vector {
^bb0(%x: tensor<500x70xf16>):
  %r = graph.transpose %x permutation [1, 0] : (tensor<500x70xf16>) -> tensor<70x500xf16>
  npu_task.return %r : tensor<70x500xf16>
}

// -----

// Each operand of a concatenation has boxes of its own; nothing is transposed.
// CHECK:      tile.kernel @joined_tiles(
// CHECK-NOT:    transposed
// CHECK:        tile.view %in0[
// CHECK:        tile.view %out0[
// CHECK:        tile.view %in1[
// CHECK:        tile.view %out0[
npu_task.kernel @joined on vector {
^bb0(%x: tensor<3x5x40xf32>, %y: tensor<3x9x40xf32>):
  %r = graph.concat %x, %y axis 1 : (tensor<3x5x40xf32>, tensor<3x9x40xf32>) -> tensor<3x14x40xf32>
  npu_task.return %r : tensor<3x14x40xf32>
}

// -----

// A row at an index, which may count from the end.
// CHECK:      tile.kernel @rows_tiles(
// CHECK:        [[I:%.+]] = tile.read %in1[{{.+}}] from -90 below 90 : memref<28xi64>
// CHECK:        tile.view %in0[{{.+}}, {{.+}}] {{.*}}-> !tile.box<1x72xf32>
npu_task.kernel @rows on vector {
^bb0(%x: tensor<90x72xf32>, %i: tensor<28xi64>):
  %r = graph.gather %x, %i axis 0 : (tensor<90x72xf32>, tensor<28xi64>) -> tensor<28x72xf32>
  npu_task.return %r : tensor<28x72xf32>
}

// -----

// An element of each row, at an index.
// CHECK:      tile.kernel @along_tiles(
// CHECK:        [[I:%.+]] = tile.read %in1[{{.+}}] from -30 below 30 : memref<40x3xi64>
// CHECK:        tile.view %in0[{{.+}}, {{.+}}] {{.*}}-> !tile.box<1x1xf32>
npu_task.kernel @along on vector {
^bb0(%x: tensor<40x30xf32>, %i: tensor<40x3xi64>):
  %r = graph.gather_elements %x, %i axis 1 : (tensor<40x30xf32>, tensor<40x3xi64>) -> tensor<40x3xf32>
  npu_task.return %r : tensor<40x3xf32>
}

// -----

// An element comes two times along both dimensions: a tile is stored four times.
// CHECK:      tile.kernel @repeated_tiles(%in0: memref<1x2x7x6xf32>, %out0: memref<1x2x7x2x6x2xf32>)
// CHECK:        tile.load
// CHECK-COUNT-4: tile.store
npu_task.kernel @repeated on vector {
^bb0(%x: tensor<1x2x7x6xf32>):
  %r = graph.resize %x sizes [1, 2, 14, 12] : (tensor<1x2x7x6xf32>) -> tensor<1x2x14x12xf32>
  npu_task.return %r : tensor<1x2x14x12xf32>
}

// -----

// A result is over an operand that no other one is computed of.
// CHECK:      tile.kernel @over_its_own_tiles(
npu_task.kernel @over_its_own on vector {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>):
  %0, %1, %2 = fused_op.region(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>) {
  ^bb1(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %3 = graph.tanh %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %4, %5 = graph.split %b axis -1 : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
    %6 = graph.exp %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
    fused_op.yield %3, %5, %6 : tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>
  }
  npu_task.return %0, %1, %2 : tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>
}
func.func @main(%x: memref<4x4xf32, "hbm">, %y: memref<4x4xf32, "hbm">, %p: memref<4x2xf32, "hbm">, %q: memref<4x4xf32, "hbm">) {
  npu_task.launch @over_its_own on 0 ins(%x, %y : memref<4x4xf32, "hbm">, memref<4x4xf32, "hbm">) outs(%x, %p, %q : memref<4x4xf32, "hbm">, memref<4x2xf32, "hbm">, memref<4x4xf32, "hbm">)
  func.return
}

// -----

// Mirrored elements are parts of the input, set side by side: all of it, and each of the others.
// CHECK-LABEL: tile.kernel @mirrored_tiles(
// CHECK-SAME:    %in0: memref<3x50xf32>, %out0: memref<3x57xf32>
// CHECK:         tile.load
// CHECK:         tile.store
npu_task.kernel @mirrored on vector {
^bb0(%x: tensor<3x50xf32>):
  %r = graph.pad %x pads [0, 3, 0, 4] mode reflect : (tensor<3x50xf32>) -> tensor<3x57xf32>
  npu_task.return %r : tensor<3x57xf32>
}
