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
