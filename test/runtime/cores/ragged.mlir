// RUN: ge-check %s | filecheck %s
// RUN: sed '/%out_box = /s/ ends.[^ ]* %c32.//' %s > %t.endless
// RUN: not ge-check %t.endless 2>&1 | filecheck %s --check-prefix ENDLESS
// RUN: sed 's/ ascending//' %s > %t.unordered
// RUN: not ge-check %t.unordered 2>&1 | filecheck %s --check-prefix ENDLESS
// RUN: sed 's/%high = tile.read %offsets.%next./%high = tile.read %offsets[%e]/' %s > %t.wrong
// RUN: not ge-check %t.wrong 2>&1 | filecheck %s --check-prefix ENDLESS

// Rows of three groups are copied, 16 at a time; the last block of a group ends where the next group
// begins. Whatever the offsets are, no two groups meet. Without that end, of offsets that do not
// ascend, or with the end of another group they may.

// CHECK: @groups: proved, 28 instructions on 2 cores, in any order of the pipes, for the least and the largest of each number that it reads, and for groups of %offsets that are alike and that grow, not for all; whatever they are, groups of %offsets stay apart, provided that the numbers of %offsets ascend from 0 to 40{{$}}

// ENDLESS: error: tile.store {{.*}} stores to %out from a number on that the kernel reads, and may lie over a part of what another one stores: end its box where the next begins, at the next number of those that are read as `ascending` [T4]
tile.kernel @groups(%x: memref<40x32xf32>, %offsets: memref<4xi32>, %out: memref<40x32xf32>) cores 2 {
  tile.vector {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %me = tile.core
    %all = tile.cores
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %ub = tile.alloc at [0] : !tile.tile<16x32xf32, ub>
    %left = arith.subi %c3, %me : index
    %turns = arith.ceildivsi %left, %all : index
    tile.set mte3 -> mte2[%c0]
    scf.for %turn = %c0 to %turns step %c1 {
      %before = arith.muli %turn, %all : index
      %e = arith.addi %me, %before : index
      %next = arith.addi %e, %c1 : index
      %high = tile.read %offsets[%next] below 41 ascending : memref<4xi32>
      %low = tile.read %offsets[%e] below 41 ascending : memref<4xi32>
      %rows = arith.subi %high, %low : index
      %blocks = arith.ceildivsi %rows, %c16 : index
      scf.for %b = %c0 to %blocks step %c1 {
        %first = arith.muli %b, %c16 : index
        %row = arith.addi %low, %first : index
        %in = tile.view %x[%row, %c0] ends[%high, %c32] sizes [16, 32] : memref<40x32xf32> -> !tile.box<16x32xf32>
        tile.wait mte3 -> mte2[%c0]
        tile.load %in to %ub pad 0.0
        tile.set mte2 -> mte3[%c0]
        %out_box = tile.view %out[%row, %c0] ends[%high, %c32] sizes [16, 32] : memref<40x32xf32> -> !tile.box<16x32xf32>
        tile.wait mte2 -> mte3[%c0]
        tile.store %ub to %out_box
        tile.set mte3 -> mte2[%c0]
      }
    }
    tile.wait mte3 -> mte2[%c0]
  }
}
