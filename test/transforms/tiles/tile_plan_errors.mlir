// RUN: ge-opt %s -p tile-plan{target=910_merged} --split-input-file --verify-diagnostics

tile.kernel @k(%x: memref<64x64xf16>) cores 1 {
  tile.cube {
    %b = tile.alloc : !tile.tile<128x128xf16, l0a>
    // expected-error@+1 {{l0a of 910_merged has 65536 bytes, the program needs 98304: %a 2 x 128x128xf16 = 65536 (line 7); %b 128x128xf16 = 32768 (line 5); smaller tiles or rings of fewer copies take less}}
    %a = tile.alloc : !tile.ring<2 x 128x128xf16, l0a>
  }
}
