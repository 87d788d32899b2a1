tile.kernel @gemm(%a: memref<500x256xf16>, %b: memref<256x128xf16>, %c: memref<500x128xf16>) cores 4 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  tile.cube {
    %A = tile.alloc : !tile.ring<2 x 128x64xf16, l1>
    %B = tile.alloc : !tile.ring<2 x 64x128xf16, l1>
    %L = tile.alloc : !tile.ring<2 x 128x64xf16, l0a>
    %R = tile.alloc : !tile.ring<2 x 64x128xf16, l0b>
    %acc = tile.alloc : !tile.tile<128x128xf32, l0c>
    %me = tile.core
    %row = arith.muli %me, %c128 : index
    scf.for %k = %c0 to %c4 step %c1 {
      %col = arith.muli %k, %c64 : index
      %as = tile.slot %A[%k] : !tile.ring<2 x 128x64xf16, l1>
      %bs = tile.slot %B[%k] : !tile.ring<2 x 64x128xf16, l1>
      %ls = tile.slot %L[%k] : !tile.ring<2 x 128x64xf16, l0a>
      %rs = tile.slot %R[%k] : !tile.ring<2 x 64x128xf16, l0b>
      %ab = tile.view %a[%row, %col] : memref<500x256xf16> -> !tile.box<128x64xf16>
      %bb = tile.view %b[%col, %c0] : memref<256x128xf16> -> !tile.box<64x128xf16>
      tile.load %ab to %as pad 0.0
      tile.load %bb to %bs
      tile.move %as to %ls
      tile.move %bs to %rs
      %first = arith.cmpi eq, %k, %c0 : index
      tile.mmad %acc, %ls, %rs init %first
    }
    %cb = tile.view %c[%row, %c0] : memref<500x128xf16> -> !tile.box<128x128xf16>
    tile.store %acc to %cb relu
  }
}
