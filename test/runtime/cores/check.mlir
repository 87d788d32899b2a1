// RUN: ge-check %s | filecheck %s
// RUN: sed '/TWO/d' %s > %t.two
// RUN: not ge-check %t.two 2>&1 | filecheck %s --check-prefix RACE

// Rows of x doubled, 16 at a time by turns in two buffers: flags order load, map and store of each.
// Without one wait the map may read before the load has written (test_tile_check.py plants more).

// CHECK: @twice: proved, 80 instructions on 2 cores, in any order of the pipes

// RACE: check.mlir.tmp.two:{{.*}} error: tile.map {{.*}} on v reads what tile.load {{.*}} on mte2 writes, and no flag orders them [T1]
tile.kernel @twice(%x: memref<128x64xf32>, %y: memref<128x64xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  tile.vector {
    %t = tile.alloc at [0, 4096] : !tile.ring<2 x 16x64xf32, ub>
    %me = tile.core
    %begin = arith.muli %me, %c64 : index
    tile.set mte3 -> mte2 [%c0]  // ONE
    tile.set mte3 -> mte2 [%c1]
    scf.for %i = %c0 to %c4 step %c1 {
      %off = arith.muli %i, %c16 : index
      %row = arith.addi %begin, %off : index
      %rest = arith.remui %i, %c2 : index
      %s = tile.slot %t[%i] : !tile.ring<2 x 16x64xf32, ub>
      %in = tile.view %x[%row, %c0] : memref<128x64xf32> -> !tile.box<16x64xf32>
      %out = tile.view %y[%row, %c0] : memref<128x64xf32> -> !tile.box<16x64xf32>
      tile.wait mte3 -> mte2 [%rest]
      tile.load %in to %s
      tile.set mte2 -> v [%rest]
      tile.wait mte2 -> v [%rest]  // TWO
      tile.map ins(%s) outs(%s) {
      ^bb0(%0: tensor<16x64xf32>):
        %1 = graph.add %0, %0 : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
        tile.yield %1 : tensor<16x64xf32>
      }
      tile.set v -> mte3 [%rest]
      tile.wait v -> mte3 [%rest]
      tile.store %s to %out
      tile.set mte3 -> mte2 [%rest]
    }
    tile.wait mte3 -> mte2 [%c0]
    tile.wait mte3 -> mte2 [%c1]  // LAST
  }
}
