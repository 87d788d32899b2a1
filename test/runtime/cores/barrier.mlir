// RUN: ge-check %s | filecheck %s
// RUN: sed '/tile.barrier/d' %s > %t.bare
// RUN: not ge-check %t.bare 2>&1 | filecheck %s --check-prefix BARE
// RUN: sed 's,//BRANCH,scf.if %first {,; s,//END,},' %s > %t.some
// RUN: not ge-check %t.some 2>&1 | filecheck %s --check-prefix SOME

// Each core stores a row in the workspace, and takes that of the other one: a barrier is between.

// CHECK: @other: proved, 16 instructions on 2 cores, in any order of the pipes

// BARE-DAG: error: one core reads elements of %w that another one stores: no barrier is between [T3]
// BARE-DAG: error: tile.load reads elements of %w that nothing stored before a barrier, or before in the same program [T6]

// SOME: error: core 1 comes to 0 of the 1 barriers that core 0 waits at [T17]
tile.kernel @other(%x: memref<2x16xf32>, %y: memref<2x16xf32>) workspace(%w: memref<2x16xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<1x16xf32, ub>
    %me = tile.core
    %first = arith.cmpi eq, %me, %c0 : index
    %next = arith.subi %c1, %me : index
    %in = tile.view %x[%me, %c0] : memref<2x16xf32> -> !tile.box<1x16xf32>
    %mine = tile.view %w[%me, %c0] : memref<2x16xf32> -> !tile.box<1x16xf32>
    %other = tile.view %w[%next, %c0] : memref<2x16xf32> -> !tile.box<1x16xf32>
    %out = tile.view %y[%me, %c0] : memref<2x16xf32> -> !tile.box<1x16xf32>
    tile.load %in to %t
    tile.set mte2 -> mte3[%c0]
    tile.wait mte2 -> mte3[%c0]
    tile.store %t to %mine
    //BRANCH
    tile.barrier
    //END
    tile.load %other to %t
    tile.set mte2 -> mte3[%c0]
    tile.wait mte2 -> mte3[%c0]
    tile.store %t to %out
  }
}
