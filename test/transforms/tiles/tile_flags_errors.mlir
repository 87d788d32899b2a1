// RUN: ge-opt %s -p tile-flags --split-input-file --verify-diagnostics

tile.kernel @branch(%x: memref<16x16xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x16xf32, ub>
    %me = tile.core
    %first = arith.cmpi eq, %me, %c0 : index
    // expected-error@+1 {{this branch has instructions, and flags are not set in branches}}
    scf.if %first {
      tile.fill %s, 1.0
    }
  }
}

// -----

tile.kernel @fewer(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark@+1 {{mte2 -> mte3 needs 10 flags, the target has 8: flags for 5 of 10 copies of %r}}
  tile.vector {
    %r = tile.alloc : !tile.ring<10 x 16x16xf32, ub>
    scf.for %j = %c0 to %c4 step %c1 {
      %s = tile.slot %r[%j] : !tile.ring<10 x 16x16xf32, ub>
      %xs = tile.view %x[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.load %xs to %s
      %ys = tile.view %y[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.store %s to %ys
    }
  }
}
