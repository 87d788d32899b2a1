// RUN: ge-opt %s -p tile-flags --verify-diagnostics | filecheck %s

// Nine buffers, eight flags: two of them share one, and are used one after the other.
tile.kernel @many(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  // expected-remark@+1 {{mte2 -> mte3 needs 9 flags, the target has 8: one flag for %t0 and %t1}}
  tile.vector {
    %t0 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t1 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t2 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t3 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t4 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t5 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t6 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t7 = tile.alloc : !tile.tile<16x16xf32, ub>
    %t8 = tile.alloc : !tile.tile<16x16xf32, ub>
    %xs = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
    %ys = tile.view %y[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
    tile.load %xs to %t0
    tile.store %t0 to %ys
    tile.load %xs to %t1
    tile.store %t1 to %ys
    tile.load %xs to %t2
    tile.store %t2 to %ys
    tile.load %xs to %t3
    tile.store %t3 to %ys
    tile.load %xs to %t4
    tile.store %t4 to %ys
    tile.load %xs to %t5
    tile.store %t5 to %ys
    tile.load %xs to %t6
    tile.store %t6 to %ys
    tile.load %xs to %t7
    tile.store %t7 to %ys
    tile.load %xs to %t8
    tile.store %t8 to %ys
  }
}
// CHECK:       tile.load {{.*}} to %t0{{$}}
// CHECK-NEXT:  tile.set mte2 -> mte3[%c0]
// CHECK-NEXT:  tile.wait mte2 -> mte3[%c0]
// CHECK-NEXT:  tile.store %t0 to
// CHECK-NEXT:  tile.set mte3 -> mte2[%c0]
// CHECK-NEXT:  tile.wait mte3 -> mte2[%c0]
// CHECK-NEXT:  tile.load {{.*}} to %t1{{$}}
// CHECK-NEXT:  tile.set mte2 -> mte3[%c0]
// CHECK-NEXT:  tile.wait mte2 -> mte3[%c0]

// Rings of 4 slots in loops one after the other: the second loop takes the flags of the first, and
// none of the slots lose theirs.
tile.kernel @loops(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark@+1 {{mte2 -> mte3 needs 9 flags, the target has 8: the same flags for %first and, in other loops, %second}}
  tile.vector {
    %first = tile.alloc : !tile.ring<4 x 16x64xf32, ub>
    %second = tile.alloc : !tile.ring<4 x 16x64xf32, ub>
    %one = tile.alloc : !tile.tile<16x64xf32, ub>
    scf.for %i = %c0 to %c4 step %c1 {
      %xs = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      %ys = tile.view %y[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      scf.for %j = %c0 to %c4 step %c1 {
        %a = tile.slot %first[%j] : !tile.ring<4 x 16x64xf32, ub>
        tile.load %xs to %a
        tile.store %a to %ys
      }
      tile.load %xs to %one
      tile.store %one to %ys
      scf.for %j = %c0 to %c4 step %c1 {
        %b = tile.slot %second[%j] : !tile.ring<4 x 16x64xf32, ub>
        tile.load %xs to %b
        tile.store %b to %ys
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @loops
// CHECK:       tile.set mte3 -> mte2[%c4]
// CHECK-NEXT:  scf.for
// CHECK:         scf.for [[J:%.*]] = %c0
// CHECK-NEXT:      [[ID:%.*]] = arith.remsi [[J]], %c4
// CHECK-NEXT:      tile.slot %first
// CHECK-NEXT:      tile.wait mte3 -> mte2{{\[}}[[ID]]]
// CHECK-NEXT:      tile.load
// CHECK-NEXT:      tile.set mte2 -> mte3{{\[}}[[ID]]]
// CHECK:         tile.wait mte3 -> mte2[%c4]
// CHECK-NEXT:    tile.load {{.*}} to %one
// CHECK:         scf.for [[K:%.*]] = %c0
// CHECK-NEXT:      [[AT:%.*]] = arith.remsi [[K]], %c4
// CHECK-NEXT:      tile.slot %second
// CHECK-NEXT:      tile.wait mte3 -> mte2{{\[}}[[AT]]]
// CHECK-NEXT:      tile.load

// The rings of one loop do not: one of them, the smaller, has flags for 2 of its 4 slots.
tile.kernel @small(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark@+1 {{mte2 -> mte3 needs 9 flags, the target has 8: flags for 2 of 4 copies of %second}}
  tile.vector {
    %first = tile.alloc : !tile.ring<4 x 16x64xf32, ub>
    %second = tile.alloc : !tile.ring<4 x 8x64xf32, ub>
    %one = tile.alloc : !tile.tile<16x64xf32, ub>
    scf.for %i = %c0 to %c4 step %c1 {
      %xs = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      %zs = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<8x64xf32>
      %ws = tile.view %y[%c0, %c0] : memref<64x64xf32> -> !tile.box<8x64xf32>
      %ys = tile.view %y[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
      scf.for %j = %c0 to %c4 step %c1 {
        %a = tile.slot %first[%j] : !tile.ring<4 x 16x64xf32, ub>
        tile.load %xs to %a
        tile.store %a to %ys
        %b = tile.slot %second[%j] : !tile.ring<4 x 8x64xf32, ub>
        tile.load %zs to %b
        tile.store %b to %ws
      }
      tile.load %xs to %one
      tile.store %one to %ys
    }
  }
}
// CHECK-LABEL: tile.kernel @small
// CHECK:         [[REST:%.*]] = arith.remsi [[I:%.*]], %c2
// CHECK-NEXT:    [[SMALL:%.*]] = arith.addi [[REST]], %c4
// CHECK-NEXT:    [[LARGE:%.*]] = arith.remsi [[I]], %c4
// CHECK:         tile.wait mte3 -> mte2{{\[}}[[LARGE]]]
// CHECK-NEXT:    tile.load {{.*}} to %a
// CHECK:         tile.wait mte3 -> mte2{{\[}}[[SMALL]]]
// CHECK-NEXT:    tile.load {{.*}} to %b
