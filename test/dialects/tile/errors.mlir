// RUN: ge-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{rows and columns in l1 are multiples of 16, not 12x16xf16}}
func.func private @f(!tile.tile<12x16xf16, l1>)

// -----

// expected-error@+1 {{columns of i8 in l0a are multiples of 32: 16x16xi8}}
func.func private @f(!tile.tile<16x16xi8, l0a>)

// -----

// expected-error@+1 {{rows of i8 in l0b are multiples of 32: 16x16xi8}}
func.func private @f(!tile.tile<16x16xi8, l0b>)

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    // expected-error@+1 {{rows of an allocation in ub are multiples of 32 bytes: 4x10xf32 has 40; allocate wider ones, of which a tile.view has the columns}}
    %r = tile.alloc : !tile.ring<2 x 4x10xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<4x64xi4, ub>
    // expected-error@+1 {{rows of a sub-tile are whole bytes: 4x3xi4}}
    %v = tile.view %t[%c0, %c0] : !tile.tile<4x64xi4, ub> -> !tile.tile<4x3xi4, ub>
  }
}

// -----

// expected-error@+1 {{a ring has at least one copy, not 0}}
func.func private @f(!tile.ring<0 x 4x8xf32, ub>)

// -----

// expected-error@+1 {{a tile has rows and columns, two numbers}}
func.func private @f(!tile.fifo<4x8x8xf32>)

// -----

// expected-error@+1 {{Expected `l1`, `l0a`, `l0b`, `l0c`, `ub`, `bt`, or `fb`}}
func.func private @f(!tile.tile<4x8xf32, l2>)

// -----

// expected-error@+1 {{rows and columns are at least 1, not 0x8xf32}}
func.func private @f(!tile.box<0x8xf32>)

// -----

// expected-error@+1 {{element type index has no storage size}}
func.func private @f(!tile.box<1x8xindex>)

// -----

// expected-error@+1 {{a kernel runs on at least one core, not 0}}
tile.kernel @k(%x: memref<64xf32>) cores 0 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{arguments of a kernel are memrefs, not tensor<64xf32>}}
tile.kernel @k(%x: tensor<64xf32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{1 dimensions are not known, and `sizes` has 0}}
tile.kernel @k(%x: memref<?xf32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{arguments are dense, without memory space or layout, not memref<4xf32, 1 : i32>}}
tile.kernel @k(%x: memref<4xf32, 1 : i32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{a kernel has one tile.cube, one tile.vector, or both}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
}

// -----

// expected-error@+1 {{a kernel has one tile.cube, one tile.vector, or both}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{tile.core stands in a program, not before it}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %0 = tile.core
  tile.vector {
    %me = tile.core
  }
}

// -----

tile.kernel @k(%x: memref<64xf32>) cores 1 {
  // expected-error@+1 {{memref.alloc does not run on a core}}
  tile.vector {
    %0 = memref.alloc() : memref<64xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %c = arith.constant 4 : index
  // expected-error@+1 {{scf.for of a core carries no values}}
  tile.vector {
    %0 = scf.for %i = %c to %c step %c iter_args(%j = %c) -> (index) {
      scf.yield %j : index
    }
  }
}

// -----

// expected-error@+1 {{one program pushes to a fifo, and the other pops from it}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %f = tile.fifo depth 2 : !tile.fifo<16x16xf32>
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    tile.push %t to %f
    tile.pop %f to %t
  }
}

// -----

// expected-error@+1 {{one program pushes to a fifo, and the other pops from it}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %f = tile.fifo depth 2 : !tile.fifo<16x16xf32>
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    tile.push %t to %f
  }
}

// -----

tile.kernel @k(%x: memref<64xf32>) cores 1 {
  // expected-error@+1 {{a fifo has at least one place, not 0}}
  %f = tile.fifo depth 0 : !tile.fifo<16x16xf32>
  tile.vector {
    %me = tile.core
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    // expected-error@+1 {{tile.vector has no l1}}
    %e = tile.alloc : !tile.tile<16x16xf16, l1>
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    // expected-error@+1 {{2 copies have as many offsets, not 1}}
    %e = tile.alloc at [0] : !tile.ring<2 x 16x16xf16, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    // expected-error@+1 {{offsets are multiples of 32 from 0 on, not 16}}
    %e = tile.alloc at [16] : !tile.tile<16x16xf16, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    // expected-error@+1 {{a tile or a ring is allocated, not !tile.box<16x16xf16>}}
    %e = tile.alloc : !tile.box<16x16xf16>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %i = tile.core
    scf.for %j = %c0 to %c4 step %c4 {
      // expected-error@+1 {{an allocation stands at the top of a program, not in a loop}}
      %e = tile.alloc : !tile.tile<16x16xf16, ub>
    }
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a memref of rank 2 has as many offsets}}
    %e = tile.view %x[%c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a box of sizes [16, 8] is not 16 x 16}}
    %e = tile.view %x[%c0, %c0] sizes [16, 8] : memref<64x64xf32> -> !tile.box<16x16xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c0, %c64] : memref<64x64xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{offset 64 is outside of a dimension of 64}}
    tile.load %e to %t
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %before = arith.constant -31 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c0, %before] steps [1, 2] : memref<64x64xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{offset -31 is outside of a dimension of 64}}
    tile.load %e to %t
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c64, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{offset 64 is outside of a dimension of 64}}
    tile.store %t to %e
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a memref of rank 2 has as many steps, at least 1}}
    %e = tile.view %x[%c0, %c0] steps [1, 0] : memref<64x64xf32> -> !tile.box<16x16xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64x8x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a box of sizes [4, 6, 8] is not 16 x 12}}
    %e = tile.view %x[%c0, %c0, %c0] sizes [4, 6, 8] : memref<64x8x64xf32> -> !tile.box<16x12xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c0, %c0] steps [2, 1] : memref<64x64xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{a store is to elements side by side: its box has no steps}}
    tile.store %t to %e
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<8x16xf32>
    tile.load %e to %t rows %c1 step 2
    // expected-error@+1 {{does not fit into !tile.tile<16x16xf32, ub>: 8 rows from 1 on, 3 apart}}
    tile.load %e to %t rows %c1 step 3
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a view keeps the element type f32, not f16}}
    %e = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x16xf16>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a view of memref<64x64xf32> is no !tile.tile<16x16xf32, ub>}}
    %e = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.tile<16x16xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{the sub-tile passes its tile: 16 from 4 on of 16}}
    %e = tile.view %s[%c4, %c0] : !tile.tile<16x64xf32, ub> -> !tile.tile<16x16xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{a sub-tile begins at a multiple of 32 bytes, not at byte 16; a tile.move of columns takes others}}
    %e = tile.view %s[%c0, %c4] : !tile.tile<16x64xf32, ub> -> !tile.tile<16x16xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %i = tile.core
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %r = tile.view %s[%i, %c0] : !tile.tile<16x64xf32, ub> -> !tile.tile<1x64xf32, ub>
    // expected-error@+1 {{a sub-tile begins at a multiple of 32 bytes, not at byte 16; a tile.move of columns takes others}}
    %e = tile.view %r[%c0, %c4] : !tile.tile<1x64xf32, ub> -> !tile.tile<1x8xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{a slot is of a ring, not of !tile.tile<16x64xf32, ub>}}
    %e = tile.slot %s[%c0] : !tile.tile<16x64xf32, ub>
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{%nothing is not defined before}}
    tile.load %nothing to %s
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{operand 'source': !tile.tile<16x64xf32, ub> should be of base attribute tile.box}}
    tile.load %s to %s
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %small = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{!tile.box<16x16xf32> does not fit into !tile.tile<16x64xf32, ub>}}
    tile.load %small to %s
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    %box = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
    // expected-error@+1 {{!tile.box<16x64xf32> and !tile.tile<16x64xf16, ub> differ in element type}}
    tile.load %box to %h
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    %box = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
    // expected-error@+1 {{!tile.tile<16x64xf16, ub> and !tile.box<16x64xf32> differ in element type}}
    tile.store %h to %box
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %box = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
    // expected-error@+1 {{relu is of stores from l0c: what is in ub has passed a tile.map}}
    tile.store %s to %box relu
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    // expected-error@+1 {{!tile.tile<16x64xf32, ub> and !tile.tile<16x64xf16, ub> differ in element type}}
    tile.move %s to %h
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{!tile.tile<16x64xf32, ub> transposed does not fit into !tile.tile<16x64xf32, ub>}}
    tile.move %s to %s transposed
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{16x64xf32 is reduced to 16x1 or 1x64: !tile.tile<16x64xf32, ub>}}
    tile.reduce max %s to %s
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    // expected-error@+1 {{numbers of rows and columns are i32 or f32, not f16}}
    tile.index rows %c0 to %h
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %t = tile.alloc : !tile.tile<16x32xf32, ub>
    %k = tile.alloc : !tile.tile<1x64xi32, ub>
    // expected-error@+1 {{1x64xi32 of 16x64xf32 is no 16x32xf32}}
    tile.gather %s at %k to %t
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{columns are gathered at numbers of i32, not f32}}
    tile.gather %s at %s to %s
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %k = tile.alloc : !tile.tile<1x64xi32, ub>
    // expected-error@+1 {{16x64xf32 at 1x64xi32 is not for 16x64xf32}}
    tile.scatter add %s at %k to %s
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %box = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
    // expected-error@+1 {{expected a tile, got !tile.box<16x64xf32>}}
    tile.fill %box, 0.0
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a flag is between two pipes: each runs in order by itself}}
    tile.set mte2 -> mte2[%c0]
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{tile.vector has no pipe fix}}
    tile.set mte2 -> fix[%c0]
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{graph.transpose is not elementwise: a map has no other ops}}
    tile.map ins(%s) outs(%s) {
    ^bb0(%0: tensor<16x64xf32>):
      %1 = graph.transpose %0 permutation [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>
      tile.yield %0 : tensor<16x64xf32>
    }
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    // expected-error@+1 {{the body's argument is tensor<16x64xf32>, for a tile of tensor<16x64xf16>}}
    tile.map ins(%h) outs(%s) {
    ^bb0(%0: tensor<16x64xf32>):
      tile.yield %0 : tensor<16x64xf32>
    }
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    %h = tile.alloc : !tile.tile<16x64xf16, ub>
    // expected-error@+1 {{what the body yields is tensor<16x64xf32>, for a tile of tensor<16x64xf16>}}
    tile.map ins(%s) outs(%h) {
    ^bb0(%0: tensor<16x64xf32>):
      tile.yield %0 : tensor<16x64xf32>
    }
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{2 tiles, and 1 times the body's argument}}
    tile.map ins(%s, %s) outs(%s) {
    ^bb0(%0: tensor<16x64xf32>):
      tile.yield %0 : tensor<16x64xf32>
    }
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %s = tile.alloc : !tile.tile<16x64xf32, ub>
    // expected-error@+1 {{a map writes at least one tile}}
    tile.map ins(%s) {
    ^bb0(%0: tensor<16x64xf32>):
      tile.yield %0 : tensor<16x64xf32>
    }
  }
}

// -----

tile.kernel @k() cores 1 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  tile.cube {
    %l = tile.alloc : !tile.tile<64x32xf16, l1>
    // expected-error@+1 {{a sub-tile in l1 begins at multiples of 16: 4}}
    %e = tile.view %l[%c4, %c0] : !tile.tile<64x32xf16, l1> -> !tile.tile<16x32xf16, l1>
  }
}

// -----

tile.kernel @k(%y: memref<64x32xf16>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    %box = tile.view %y[%c0, %c0] : memref<64x32xf16> -> !tile.box<64x32xf16>
    // expected-error@+1 {{a load is to l1 or ub, not to l0a}}
    tile.load %box to %a
  }
}

// -----

tile.kernel @k(%y: memref<64x32xf16>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %l = tile.alloc : !tile.tile<64x32xf16, l1>
    %box = tile.view %y[%c0, %c0] : memref<64x32xf16> -> !tile.box<64x32xf16>
    // expected-error@+1 {{a store is from l0c or ub, not from l1}}
    tile.store %l to %box
  }
}

// -----

tile.kernel @k(%z: memref<64x64xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    %ints = tile.view %z[%c0, %c0] : memref<64x64xi32> -> !tile.box<64x64xi32>
    // expected-error@+1 {{sums of f32 become floats, sums of i32 stay: not f32 to i32}}
    tile.store %acc to %ints
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %l = tile.alloc : !tile.tile<64x32xf16, l1>
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    // expected-error@+1 {{there is no way from l0a to l1; moves are l1 to l0a, l1 to l0b, l1 to bt, l1 to fb, l0c to l1, ub to ub}}
    tile.move %a to %l
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %lt = tile.alloc : !tile.tile<64x64xf16, l1>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    // expected-error@+1 {{what leaves l0c is not transposed}}
    tile.move %acc to %lt transposed
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    %b = tile.alloc : !tile.tile<32x64xf16, l0b>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    // expected-error@+1 {{the cube multiplies l0a by l0b into l0c: !tile.tile<32x64xf16, l0b> in l0a}}
    tile.mmad %acc, %b, %a
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    %b16 = tile.alloc : !tile.tile<16x64xf16, l0b>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    // expected-error@+1 {{64x32xf16 times 16x64xf16 is no 64x64xf32}}
    tile.mmad %acc, %a, %b16
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    %b = tile.alloc : !tile.tile<32x64xf16, l0b>
    %halves = tile.alloc : !tile.tile<64x64xf16, l0c>
    // expected-error@+1 {{sums of f16 are f32, not f16}}
    tile.mmad %halves, %a, %b
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    %bb = tile.alloc : !tile.tile<32x64xbf16, l0b>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    // expected-error@+1 {{!tile.tile<64x32xf16, l0a> and !tile.tile<32x64xbf16, l0b> differ in element type}}
    tile.mmad %acc, %a, %bb
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    %a8 = tile.alloc : !tile.tile<64x32xi16, l0a>
    %b8 = tile.alloc : !tile.tile<32x64xi16, l0b>
    // expected-error@+1 {{the cube does not multiply i16}}
    tile.mmad %acc, %a8, %b8
  }
}

// -----

tile.kernel @k() cores 1 {
  %f = tile.fifo depth 1 : !tile.fifo<64x32xf16>
  tile.cube {
    %a = tile.alloc : !tile.tile<64x32xf16, l0a>
    // expected-error@+1 {{a pop is to l1 or ub, not to l0a}}
    tile.pop %f to %a
  }
}

// -----

tile.kernel @k() cores 1 {
  %f = tile.fifo depth 1 : !tile.fifo<64x32xf16>
  tile.cube {
    %l = tile.alloc : !tile.tile<64x32xf16, l1>
    // expected-error@+1 {{a push is from l0c or ub, not from l1}}
    tile.push %l to %f
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %l = tile.alloc : !tile.tile<64x32xf16, l0a>
    // expected-error@+1 {{tiles in ub and l1 are filled, not !tile.tile<64x32xf16, l0a>}}
    tile.fill %l, 0.0
  }
}

// -----

tile.kernel @k(%x: memref<64x64xi8>) cores 1 {
  tile.vector {
    %n = tile.alloc : !tile.tile<16x64xi8, ub>
    // expected-error@+1 {{1.5 is no i8}}
    tile.fill %n, 1.5
  }
}

// -----

tile.kernel @k(%x: memref<64x64xi8>) cores 1 {
  tile.vector {
    %n = tile.alloc : !tile.tile<16x64xi8, ub>
    // expected-error@+1 {{200 is no i8}}
    tile.fill %n, 200
  }
}

// -----

tile.kernel @k(%x: memref<64x64xi8>) cores 1 {
  tile.vector {
    %n = tile.alloc : !tile.tile<16x64xi8, ub>
    // expected-error@+1 {{-inf is no i8}}
    tile.fill %n, -inf
  }
}

// -----

tile.kernel @k(%x: memref<64x64xi8>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %n = tile.alloc : !tile.tile<16x64xi8, ub>
    %box = tile.view %x[%c0, %c0] : memref<64x64xi8> -> !tile.box<16x64xi8>
    // expected-error@+1 {{-129 is no i8}}
    tile.load %box to %n pad -129
  }
}

// -----

tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{the step of a loop is at least 1, not 0}}
  tile.vector {
    scf.for %i = %c0 to %c0 step %c0 {
    }
  }
}

// -----

tile.kernel @k(%x: memref<64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{the scalar unit reads integers, not memref<64xf32>}}
    %n = tile.read %x[%c0] below 8 : memref<64xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %c64 = arith.constant 64 : index
  tile.vector {
    // expected-error@+1 {{offset 64 is outside of a dimension of 64}}
    %n = tile.read %x[%c64] below 8 : memref<64xi32>
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{no number is at least 8 and below 8}}
    %n = tile.read %x[%c0] from 8 below 8 : memref<64xi32>
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{64 elements are not all different, at least 0 and below 63}}
    %n = tile.read %x[%c0] below 63 distinct : memref<64xi32>
  }
}

// -----

tile.kernel @k(%x: memref<8x8xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{numbers that ascend are those of one dimension, and not distinct: memref<8x8xi32>}}
    %n = tile.read %x[%c0, %c0] below 63 ascending : memref<8x8xi32>
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{numbers that ascend are those of one dimension, and not distinct: memref<64xi32>}}
    %n = tile.read %x[%c0] below 65 distinct ascending : memref<64xi32>
  }
}

// -----

tile.kernel @k(%x: memref<1xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{numbers that ascend are a first and a last one at least}}
    %n = tile.read %x[%c0] below 65 ascending : memref<1xi32>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    // expected-error@+1 {{a memref of rank 2 has as many ends, or none}}
    %e = tile.view %x[%c0, %c0] ends [%c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %e = tile.view %x[%c16, %c0] ends [%c16, %c16] : memref<64x64xf32> -> !tile.box<16x16xf32>
    tile.load %e to %t pad 0.0
    // expected-error@+1 {{a box from 16 on that ends at 16 has no elements}}
    tile.store %t to %e
  }
}

// -----

tile.kernel @k(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    // expected-error@+1 {{a sub-tile has two offsets, and its sizes are in its type}}
    %e = tile.view %t[%c0, %c0] ends [%c0, %c0] : !tile.tile<16x16xf32, ub> -> !tile.tile<8x16xf32, ub>
  }
}

// -----

// expected-error@+1 {{a memref that tile.read reads is stored to}}
tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<1x64xi32, ub>
    %n = tile.read %x[%c0] below 8 : memref<64xi32>
    tile.fill %t, 0
    %b = tile.view %x[%n] : memref<64xi32> -> !tile.box<1x64xi32>
    tile.store %t to %b
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  // expected-error@+1 {{a tile.vector is split beside a tile.cube; without a tile.cube all vector cores are `cores`}}
  tile.vector split 2 {
    %c0 = arith.constant 0 : index
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  // expected-error@+1 {{a program is split between at least 2 cores, not 1}}
  tile.vector split 1 {
    %c0 = arith.constant 0 : index
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  tile.cube {
    // expected-error@+1 {{a cube core has no part: tile.vector is split}}
    %part = tile.part
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %f = tile.fifo depth 1 : !tile.fifo<64x32xf32>
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x32xf32, l0c>
    tile.push %acc to %f
  }
  tile.vector split 2 {
    %s = tile.alloc : !tile.tile<64x32xf32, ub>
    // expected-error@+1 {{!tile.fifo<32x32xf32> does not fit into !tile.tile<64x32xf32, ub>}}
    tile.pop %f to %s
  }
}

// -----

tile.kernel @k(%x: memref<64xi32>) cores 1 {
  %f = tile.fifo depth 1 : !tile.fifo<64x32xf32>
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x32xf32, l0c>
    tile.push %acc to %f
  }
  tile.vector split 3 {
    %s = tile.alloc : !tile.tile<16x32xf32, ub>
    // expected-error@+1 {{64 rows of !tile.fifo<64x32xf32> cannot be split between 3 cores}}
    tile.pop %f to %s
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %a = tile.alloc : !tile.tile<16x64xf32, ub>
    %b = tile.alloc : !tile.tile<16x32xf32, ub>
    tile.move %a to %b columns 1 step 2
    // expected-error@+1 {{has not what !tile.tile<16x32xf32, ub> takes: 32 columns from 2 on, 2 apart}}
    tile.move %a to %b columns 2 step 2
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.vector {
    %a = tile.alloc : !tile.tile<16x64xf32, ub>
    %b = tile.alloc : !tile.tile<16x32xf32, ub>
    tile.move %a to %b columns 1 step -1 each 2 further 2
    // expected-error@+1 {{has not what !tile.tile<16x32xf32, ub> takes: 32 columns from 0 on, -1 apart}}
    tile.move %a to %b columns 0 step -1 each 2 further 2
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<16x64xf32, l1>
    %b = tile.alloc : !tile.tile<16x32xf32, l0a>
    // expected-error@+1 {{columns are taken within ub, and not transposed}}
    tile.move %a to %b columns 0 step 2
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0c>
    // expected-error@+1 {{windows pass from l1 to l0a or l0b: !tile.tile<64x16xf16, l1> to !tile.tile<32x32xf16, l0c>}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf32, l0b>
    // expected-error@+1 {{f16, l1> and !tile.tile<32x32xf32, l0b> differ in element type}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0b>
    // expected-error@+1 {{sizes, strides and dilations of windows are at least 1}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3, 3] strides [0, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0b>
    // expected-error@+1 {{32 windows are no whole lines of 5}}
    tile.unfold %i to %l width 8 pixels 5 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0b>
    // expected-error@+1 {{8 x 4 windows pass 64 pixels, 8 in a line}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0a>
    // expected-error@+1 {{4 x 8 windows pass 64 pixels, 8 in a line}}
    tile.unfold %i to %l width 8 pixels 8 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x16xf16, l0b>
    // expected-error@+1 {{32 elements from 120 on pass windows of 16 channels x 9}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3, 3] strides [1, 1] dilations [1, 1] from 120
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x16xf16, l0b>
    // expected-error@+1 {{kernel has a number for lines and one for columns}}
    tile.unfold %i to %l width 8 pixels 4 kernel [3] strides [1, 1] dilations [1, 1] from 0
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0b>
    // expected-error@+1 {{4 x 8 windows pass 64 pixels, 8 in a line}}
    tile.unfold %i to %l width 8 pixels 8 kernel [3, 3] strides [1, 1] dilations [1, 1] from 0 left 1
  }
}

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %i = tile.alloc : !tile.tile<64x16xf16, l1>
    %l = tile.alloc : !tile.tile<32x32xf16, l0b>
    // expected-error@+1 {{4 x 8 windows pass 64 pixels, 8 in a line}}
    tile.unfold %i to %l width 8 pixels 8 kernel [3, 3] strides [2, 1] dilations [1, 1] from 0 left 1 pad 0.0
  }
}

// -----

// expected-error@+1 {{tile.read reads what a kernel is given, no workspace}}
tile.kernel @k(%x: memref<64xf32>) workspace(%w: memref<4xi32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %0 = tile.read %w[%c0] below 4 : memref<4xi32>
  }
}

// -----

// expected-error@+1 {{1 dimensions are not known, and `sizes` has 0}}
tile.kernel @k(%x: memref<64xf32>) workspace(%w: memref<?xf32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{tile.barrier stands in a program, not before it}}
tile.kernel @k(%x: memref<64xf32>) cores 1 {
  tile.barrier
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{2 of its memrefs are its workspace}}
"tile.kernel"() <{sym_name = "k", cores = 1 : i64, workspaces = 2 : i64}> ({
^bb0(%x: memref<64xf32>):
  "tile.vector"() ({
    %me = "tile.core"() : () -> index
  }) : () -> ()
}) : () -> ()

// -----

// expected-error@+1 {{arguments have at least one dimension, not memref<f32>}}
tile.kernel @k(%x: memref<f32>) cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{2 dimensions are not known, and `sizes` has 1}}
tile.kernel @k(%x: memref<?x?xf32>) sizes ["batch"] cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{'batch +' is no expression of dimensions}}
tile.kernel @k(%x: memref<?xf32>) sizes ["batch +"] cores 1 {
  tile.vector {
    %me = tile.core
  }
}

// -----

// expected-error@+1 {{'batch' is a size, and all of its memrefs are known}}
tile.kernel @k(%x: memref<8xf32>) cores 1 {
  tile.vector {
    %n = tile.size "batch"
  }
}

// -----

tile.kernel @k(%x: memref<?xf32>) sizes ["batch"] cores 1 {
  tile.vector {
    // expected-error@+1 {{'batch + 1' is no name of a dimension}}
    %n = tile.size "batch + 1"
  }
}

// -----

// expected-error@+1 {{bt has a row of numbers, not 16x16xi32}}
func.func private @f(!tile.tile<16x16xi32, bt>)

// -----

tile.kernel @k() cores 1 {
  tile.cube {
    %a = tile.alloc : !tile.tile<16x32xi8, l0a>
    %b = tile.alloc : !tile.tile<32x16xi8, l0b>
    %s = tile.alloc : !tile.tile<16x16xi32, l0c>
    %r = tile.alloc : !tile.tile<1x16xi32, bt>
    // expected-error@+1 {{sums begin with a bias where they begin: `init` says where}}
    tile.mmad %s, %a, %b bias %r
  }
}

// -----

tile.kernel @k(%o: memref<16x16xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %s = tile.alloc : !tile.tile<16x16xi32, l0c>
    %f = tile.alloc : !tile.tile<1x16xf32, fb>
    %box = tile.view %o[%c0, %c0] : memref<16x16xf32> -> !tile.box<16x16xf32>
    // expected-error@+1 {{sums leave by a scale as f16 or i8, not f32}}
    tile.store %s to %box scale %f
  }
}

// -----

tile.kernel @k(%o: memref<16x16xf16>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %s = tile.alloc : !tile.tile<16x16xi32, l0c>
    %f = tile.alloc : !tile.tile<1x32xf32, fb>
    %box = tile.view %o[%c0, %c0] : memref<16x16xf16> -> !tile.box<16x16xf16>
    // expected-error@+1 {{1x32xf32 has no scale for each column of 16x16xi32}}
    tile.store %s to %box scale %f
  }
}

// -----

tile.kernel @k() cores 1 {
  %f = tile.fifo depth 2 : !tile.fifo<16x16xi8>
  tile.cube {
    %s = tile.alloc : !tile.tile<16x16xi32, l0c>
    %r = tile.alloc : !tile.tile<1x16xf32, fb>
    // expected-error@+1 {{sums leave by a scale as f16, not i8}}
    tile.push %s to %f scale %r
  }
}
