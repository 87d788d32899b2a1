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

// -----

// A ring in fewer loops has flags for fewer slots first, though another one has more.
tile.kernel @outer(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark@+1 {{mte2 -> mte3 needs 9 flags, the target has 8: flags for 1 of 3 copies of %few}}
  tile.vector {
    %few = tile.alloc : !tile.ring<3 x 16x16xf32, ub>
    %often = tile.alloc : !tile.ring<6 x 16x16xf32, ub>
    scf.for %i = %c0 to %c4 step %c1 {
      %a = tile.slot %few[%i] : !tile.ring<3 x 16x16xf32, ub>
      %r = arith.muli %i, %c4 : index
      %xa = tile.view %x[%r, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      %ya = tile.view %y[%r, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.load %xa to %a
      tile.store %a to %ya
      scf.for %j = %c0 to %c4 step %c1 {
        %b = tile.slot %often[%j] : !tile.ring<6 x 16x16xf32, ub>
        %q = arith.muli %j, %c4 : index
        %xb = tile.view %x[%q, %c4] : memref<64x64xf32> -> !tile.box<16x16xf32>
        %yb = tile.view %y[%q, %c4] : memref<64x64xf32> -> !tile.box<16x16xf32>
        tile.load %xb to %b
        tile.store %b to %yb
      }
    }
  }
}
