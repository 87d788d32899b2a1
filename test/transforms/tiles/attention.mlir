// RUN: ge-opt %s -p tile-split-loops,tile-flags,tile-plan{target=910_merged} | filecheck %s

// Flash attention of one block of 64 queries, keys two blocks ahead of values: the loops come apart
// in prologue, steady loop and epilogue, and the flags of rings stay set from one to the next.
tile.kernel @attention(%q: memref<64x64xf16>, %k: memref<512x64xf16>, %v: memref<512x64xf16>, %o: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c10 = arith.constant 10 : index
  %c64 = arith.constant 64 : index
  %true = arith.constant true
  %scores = tile.fifo depth 2 : !tile.fifo<64x64xf32>
  %weights = tile.fifo depth 2 : !tile.fifo<64x64xf16>
  %sums = tile.fifo depth 2 : !tile.fifo<64x64xf32>
  tile.cube {
    %Q = tile.alloc : !tile.tile<64x64xf16, l1>
    %K = tile.alloc : !tile.ring<2 x 64x64xf16, l1>
    %V = tile.alloc : !tile.ring<2 x 64x64xf16, l1>
    %P = tile.alloc : !tile.ring<2 x 64x64xf16, l1>
    %a = tile.alloc : !tile.tile<64x64xf16, l0a>
    %b = tile.alloc : !tile.tile<64x64xf16, l0b>
    %s = tile.alloc : !tile.ring<2 x 64x64xf32, l0c>
    %u = tile.alloc : !tile.ring<2 x 64x64xf32, l0c>
    %qs = tile.view %q[%c0, %c0] : memref<64x64xf16> -> !tile.box<64x64xf16>
    tile.load %qs to %Q
    scf.for %j = %c0 to %c10 step %c1 {
      %more = arith.cmpi slt, %j, %c8 : index
      scf.if %more {
        %row = arith.muli %j, %c64 : index
        %ks = tile.view %k[%row, %c0] : memref<512x64xf16> -> !tile.box<64x64xf16>
        %kt = tile.slot %K[%j] : !tile.ring<2 x 64x64xf16, l1>
        %st = tile.slot %s[%j] : !tile.ring<2 x 64x64xf32, l0c>
        tile.load %ks to %kt
        tile.move %Q to %a
        tile.move %kt to %b transposed
        tile.mmad %st, %a, %b init %true
        tile.push %st to %scores
      }
      %back = arith.subi %j, %c2 : index
      %begun = arith.cmpi sge, %back, %c0 : index
      scf.if %begun {
        %row = arith.muli %back, %c64 : index
        %vs = tile.view %v[%row, %c0] : memref<512x64xf16> -> !tile.box<64x64xf16>
        %vt = tile.slot %V[%back] : !tile.ring<2 x 64x64xf16, l1>
        %pt = tile.slot %P[%back] : !tile.ring<2 x 64x64xf16, l1>
        %ut = tile.slot %u[%back] : !tile.ring<2 x 64x64xf32, l0c>
        tile.load %vs to %vt
        tile.pop %weights to %pt
        tile.move %pt to %a
        tile.move %vt to %b
        tile.mmad %ut, %a, %b init %true
        tile.push %ut to %sums
      }
    }
  }
  tile.vector {
    %s = tile.alloc : !tile.ring<2 x 64x64xf32, ub>
    %p = tile.alloc : !tile.ring<2 x 64x64xf16, ub>
    %u = tile.alloc : !tile.tile<64x64xf32, ub>
    %acc = tile.alloc : !tile.tile<64x64xf32, ub>
    tile.fill %acc, 0.0
    scf.for %j = %c0 to %c10 step %c1 {
      %more = arith.cmpi slt, %j, %c8 : index
      scf.if %more {
        %st = tile.slot %s[%j] : !tile.ring<2 x 64x64xf32, ub>
        %pt = tile.slot %p[%j] : !tile.ring<2 x 64x64xf16, ub>
        tile.pop %scores to %st
        tile.map ins(%st) outs(%pt) {
        ^bb0(%0: tensor<64x64xf32>):
          %1 = graph.exp %0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
          %2 = graph.cast %1 to f16 : (tensor<64x64xf32>) -> tensor<64x64xf16>
          tile.yield %2 : tensor<64x64xf16>
        }
        tile.push %pt to %weights
      }
      %begun = arith.cmpi sge, %j, %c2 : index
      scf.if %begun {
        tile.pop %sums to %u
        tile.map ins(%acc, %u) outs(%acc) {
        ^bb1(%3: tensor<64x64xf32>, %4: tensor<64x64xf32>):
          %5 = graph.add %3, %4 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
          tile.yield %5 : tensor<64x64xf32>
        }
      }
    }
    %os = tile.view %o[%c0, %c0] : memref<64x64xf32> -> !tile.box<64x64xf32>
    tile.store %acc to %os
  }
}
// CHECK:       %K = tile.alloc at [8192, 16384] : !tile.ring<2 x 64x64xf16, l1>
// CHECK:       %u = tile.alloc at [32768, 49152] : !tile.ring<2 x 64x64xf32, l0c>
// those of %V, %P and %u may come at once
// CHECK:       tile.set fix -> m[%c2]
// CHECK-NEXT:  tile.set fix -> m[%c3]
// CHECK-NEXT:  tile.set mte1 -> mte2[%c2]
// CHECK-NEXT:  tile.set mte1 -> mte2[%c3]
// the first blocks of keys
// CHECK:       tile.set fix -> m[%c0]
// CHECK-NEXT:  tile.set fix -> m[%c1]
// CHECK-NEXT:  scf.for %j = %c0 to %c2 step %c1 {
// CHECK:         tile.push {{.*}} to %scores{{$}}
// CHECK-NEXT:    tile.set fix -> m[%id]
// CHECK-NEXT:  }
// those of %V, %P and %u begin; those of %K and %s go on
// CHECK-NEXT:  scf.for {{.*}} = %c2 to %c8 step %c1 {
// CHECK:         tile.push {{.*}} to %scores{{$}}
// CHECK:         tile.push {{.*}} to %sums{{$}}
// CHECK-NOT:     scf.if
// those of %K and %s end
// CHECK:       }
// CHECK-NEXT:  tile.wait mte1 -> mte2[%c0]
// CHECK-NEXT:  tile.wait mte1 -> mte2[%c1]
// CHECK-NEXT:  tile.wait fix -> m[%c0]
// CHECK-NEXT:  tile.wait fix -> m[%c1]
// CHECK-NEXT:  scf.for {{.*}} = %c8 to %c10 step %c1 {
// CHECK-NOT:     tile.push {{.*}} to %scores
// CHECK:         tile.push {{.*}} to %sums{{$}}
// CHECK:       tile.vector {
// CHECK:       tile.store %acc to %os{{$}}
