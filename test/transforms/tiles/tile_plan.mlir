// RUN: ge-opt %s -p tile-plan | filecheck %s
// RUN: ge-opt %s -p tile-plan,tile-plan | filecheck %s

// Copies of a ring follow each other; places are multiples of 32 bytes, in l0 of 512; each memory
// begins at 0; what has a place keeps it.
tile.kernel @k(%x: memref<64x64xf16>) cores 1 {
  %zero = arith.constant 0 : index
  %f = tile.fifo depth 1 : !tile.fifo<16x16xf32>
  tile.cube {
    %p = tile.alloc : !tile.ring<2 x 16x16xf16, l1>
    %q = tile.alloc at [96] : !tile.tile<16x16xf16, l1>
    %r = tile.alloc : !tile.tile<16x16xf16, l1>
    %a = tile.alloc : !tile.ring<2 x 16x16xf16, l0a>
    %b = tile.alloc : !tile.tile<16x16xf16, l0b>
    %c = tile.alloc : !tile.ring<2 x 16x16xf32, l0c>
    %s = tile.slot %c[%zero] : !tile.ring<2 x 16x16xf32, l0c>
    tile.push %s to %f
  }
  tile.vector {
    %m = tile.alloc : !tile.ring<3 x 5x1xf32, ub>
    %n = tile.alloc : !tile.tile<16x16xf32, ub>
    tile.pop %f to %n
  }
}
// CHECK:       %p = tile.alloc at [608, 1120] : !tile.ring<2 x 16x16xf16, l1>
// CHECK-NEXT:  %q = tile.alloc at [96] : !tile.tile<16x16xf16, l1>
// CHECK-NEXT:  %r = tile.alloc at [1632] : !tile.tile<16x16xf16, l1>
// CHECK-NEXT:  %a = tile.alloc at [0, 512] : !tile.ring<2 x 16x16xf16, l0a>
// CHECK-NEXT:  %b = tile.alloc at [0] : !tile.tile<16x16xf16, l0b>
// CHECK-NEXT:  %c = tile.alloc at [0, 1024] : !tile.ring<2 x 16x16xf32, l0c>
// CHECK:       %m = tile.alloc at [0, 32, 64] : !tile.ring<3 x 5x1xf32, ub>
// CHECK-NEXT:  %n = tile.alloc at [96] : !tile.tile<16x16xf32, ub>
