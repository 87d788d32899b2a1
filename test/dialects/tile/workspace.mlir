// RUN: %roundtrip | filecheck %s

// each core leaves its sum in the workspace, and core 0 adds them in their order
tile.kernel @sum(%x: memref<4x16xf32>, %y: memref<1x16xf32>) workspace(%w: memref<4x16xf32>) cores 4 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<1x16xf32, ub>
    %me = tile.core
    %in = tile.view %x[%me, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.load %in to %t
    %mine = tile.view %w[%me, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.store %t to %mine
    tile.barrier
    %again = tile.view %w[%c0, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.load %again to %t
    tile.barrier {my.note = "once more"}
  }
}
// CHECK:      tile.kernel @sum(%x: memref<4x16xf32>, %y: memref<1x16xf32>) workspace(%w: memref<4x16xf32>) cores 4 {
// CHECK:        tile.store %t to %mine{{$}}
// CHECK-NEXT:   tile.barrier
// CHECK:        tile.barrier {my.note = "once more"}
