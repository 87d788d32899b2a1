// RUN: ge-opt %s -p tile-flags | filecheck %s
// RUN: ge-opt %s -p tile-flags,tile-flags | filecheck %s

// Straight: the second accesses of the same pipe take no flags, reads and writes count alike, and
// one flag does for two buffers whose accesses stand side by side.
tile.kernel @straight(%x: memref<16x32xf16>, %y: memref<16x16xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %p = tile.alloc : !tile.tile<16x32xf16, l1>
    %q = tile.alloc : !tile.tile<16x32xf16, l1>
    %a = tile.alloc : !tile.tile<16x32xf16, l0a>
    %b = tile.alloc : !tile.tile<32x16xf16, l0b>
    %c = tile.alloc : !tile.tile<16x16xf32, l0c>
    %xs = tile.view %x[%c0, %c0] : memref<16x32xf16> -> !tile.box<16x32xf16>
    %ys = tile.view %y[%c0, %c0] : memref<16x16xf32> -> !tile.box<16x16xf32>
    tile.load %xs to %p
    tile.load %xs to %q
    tile.move %p to %a
    tile.move %q to %b transposed
    tile.mmad %c, %a, %b
    tile.mmad %c, %a, %b
    tile.store %c to %ys
    tile.load %xs to %p
    tile.load %xs to %q
  }
}
// CHECK-LABEL: tile.kernel @straight(
// CHECK:         tile.load %xs to %p{{$}}
// CHECK-NEXT:    tile.load %xs to %q{{$}}
// CHECK-NEXT:    tile.set mte2 -> mte1[%c0]
// CHECK-NEXT:    tile.wait mte2 -> mte1[%c0]
// CHECK-NEXT:    tile.move %p to %a{{$}}
// CHECK-NEXT:    tile.move %q to %b transposed
// CHECK-NEXT:    tile.set mte1 -> mte2[%c0]
// CHECK-NEXT:    tile.set mte1 -> m[%c0]
// CHECK-NEXT:    tile.wait mte1 -> m[%c0]
// CHECK-NEXT:    tile.mmad %c, %a, %b{{$}}
// CHECK-NEXT:    tile.mmad %c, %a, %b{{$}}
// CHECK-NEXT:    tile.set m -> fix[%c0]
// CHECK-NEXT:    tile.wait m -> fix[%c0]
// CHECK-NEXT:    tile.store %c to %ys{{$}}
// CHECK-NEXT:    tile.wait mte1 -> mte2[%c0]
// CHECK-NEXT:    tile.load %xs to %p{{$}}
// CHECK-NEXT:    tile.load %xs to %q{{$}}
// CHECK-NEXT:  }

// Rings: the flag of a slot has its number. Flags that loops leave as they found them stay set from
// one block to the next; %m is of one pipe, and needs none.
tile.kernel @blocks(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %r = tile.alloc : !tile.ring<3 x 16x16xf32, ub>
    %m = tile.alloc : !tile.tile<16x1xf32, ub>
    scf.for %i = %c0 to %c4 step %c1 {
      tile.fill %m, 0.0
      scf.for %j = %c0 to %c4 step %c1 {
        %s = tile.slot %r[%j] : !tile.ring<3 x 16x16xf32, ub>
        %xs = tile.view %x[%i, %j] : memref<64x64xf32> -> !tile.box<16x16xf32>
        tile.load %xs to %s
        tile.reduce max %s to %m
        %ys = tile.view %y[%i, %j] : memref<64x64xf32> -> !tile.box<16x16xf32>
        tile.store %s to %ys
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @blocks(
// CHECK:         tile.set mte3 -> mte2[%c0]
// CHECK-NEXT:    tile.set mte3 -> mte2[%c1]
// CHECK-NEXT:    tile.set mte3 -> mte2[%c2]
// CHECK-NEXT:    scf.for %i = %c0 to %c4 step %c1 {
// CHECK-NEXT:      tile.fill %m, 0.0{{$}}
// CHECK-NEXT:      scf.for %j = %c0 to %c4 step %c1 {
// CHECK-NEXT:        %id = arith.remsi %j, %c3 : index
// CHECK-NEXT:        %s = tile.slot
// CHECK-NEXT:        %xs = tile.view
// CHECK-NEXT:        tile.wait mte3 -> mte2[%id]
// CHECK-NEXT:        tile.load %xs to %s{{$}}
// CHECK-NEXT:        tile.set mte2 -> v[%id]
// CHECK-NEXT:        tile.wait mte2 -> v[%id]
// CHECK-NEXT:        tile.reduce max %s to %m{{$}}
// CHECK-NEXT:        tile.set v -> mte3[%id]
// CHECK-NEXT:        %ys = tile.view
// CHECK-NEXT:        tile.wait v -> mte3[%id]
// CHECK-NEXT:        tile.store %s to %ys{{$}}
// CHECK-NEXT:        tile.set mte3 -> mte2[%id]
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    tile.wait mte3 -> mte2[%c0]
// CHECK-NEXT:    tile.wait mte3 -> mte2[%c1]
// CHECK-NEXT:    tile.wait mte3 -> mte2[%c2]
// CHECK-NEXT:  }

// A load one block ahead: before and after the steady loop slots are where the stages left them.
tile.kernel @ahead(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %r = tile.alloc : !tile.ring<2 x 16x16xf32, ub>
    %first = tile.slot %r[%c0] : !tile.ring<2 x 16x16xf32, ub>
    %x0 = tile.view %x[%c0, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
    tile.load %x0 to %first
    scf.for %j = %c0 to %c4 step %c1 {
      %next = arith.addi %j, %c1 : index
      %s = tile.slot %r[%next] : !tile.ring<2 x 16x16xf32, ub>
      %xs = tile.view %x[%next, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.load %xs to %s
      %t = tile.slot %r[%j] : !tile.ring<2 x 16x16xf32, ub>
      %ys = tile.view %y[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.store %t to %ys
    }
  }
}
// CHECK-LABEL: tile.kernel @ahead(
// CHECK:         tile.load %x0 to %first{{$}}
// CHECK:         tile.set mte2 -> mte3[
// CHECK:         tile.set mte3 -> mte2[
// CHECK-NEXT:    scf.for
// CHECK:           tile.wait mte3 -> mte2[[[NEXT:%id[_0-9]*]]]
// CHECK-NEXT:      tile.load %xs to %s{{$}}
// CHECK-NEXT:      tile.set mte2 -> mte3[[[NEXT]]]
// CHECK:           tile.wait mte2 -> mte3[[[THIS:%id[_0-9]*]]]
// CHECK-NEXT:      tile.store %t to %ys{{$}}
// CHECK-NEXT:      tile.set mte3 -> mte2[[[THIS]]]
// CHECK-NEXT:    }

// A slot that is no loop's variable and a number: one iteration after the other.
tile.kernel @whole(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %r = tile.alloc : !tile.ring<2 x 16x16xf32, ub>
    scf.for %j = %c0 to %c4 step %c1 {
      %twice = arith.muli %j, %j : index
      %s = tile.slot %r[%twice] : !tile.ring<2 x 16x16xf32, ub>
      %xs = tile.view %x[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.load %xs to %s
      %ys = tile.view %y[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.store %s to %ys
    }
  }
}
// CHECK-LABEL: tile.kernel @whole(
// CHECK:         tile.set mte3 -> mte2[%c0]
// CHECK-NEXT:    scf.for
// CHECK:           tile.wait mte3 -> mte2[%c0]
// CHECK:           tile.set mte3 -> mte2[%c0]
// CHECK-NEXT:    }
// CHECK-NEXT:    tile.wait mte3 -> mte2[%c0]
// CHECK-NEXT:  }

// A memref that is stored and loaded, and a program that needs no flags.
tile.kernel @memory(%x: memref<16x16xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %f = tile.fifo depth 1 : !tile.fifo<16x16xf32>
  tile.vector {
    %s = tile.alloc : !tile.tile<16x16xf32, ub>
    %t = tile.alloc : !tile.tile<16x16xf32, ub>
    %xs = tile.view %x[%c0, %c0] : memref<16x16xf32> -> !tile.box<16x16xf32>
    tile.fill %s, 1.0
    tile.store %s to %xs
    tile.load %xs to %t
    tile.push %t to %f
  }
  tile.cube {
    %u = tile.alloc : !tile.tile<16x16xf32, l1>
    tile.pop %f to %u
  }
}
// CHECK-LABEL: tile.kernel @memory(
// CHECK:         tile.store %s to %xs{{$}}
// CHECK-NEXT:    tile.set mte3 -> mte2[%c0]
// CHECK-NEXT:    tile.wait mte3 -> mte2[%c0]
// CHECK-NEXT:    tile.load %xs to %t{{$}}
// CHECK-NEXT:    tile.set mte2 -> mte3[%c0]
// CHECK-NEXT:    tile.wait mte2 -> mte3[%c0]
// CHECK-NEXT:    tile.push %t to %f{{$}}
// CHECK-NEXT:  }
// CHECK:         tile.pop %f to %u{{$}}
// CHECK-NEXT:  }

// More slots than flags: %q does with three flags for its six copies.
tile.kernel @fewer(%x: memref<64x64xf32>, %y: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  tile.vector {
    %r = tile.alloc : !tile.ring<3 x 16x16xf32, ub>
    %q = tile.alloc : !tile.ring<6 x 16x16xf32, ub>
    scf.for %j = %c0 to %c4 step %c1 {
      %s = tile.slot %r[%j] : !tile.ring<3 x 16x16xf32, ub>
      %t = tile.slot %q[%j] : !tile.ring<6 x 16x16xf32, ub>
      %xs = tile.view %x[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      %ys = tile.view %y[%j, %c0] : memref<64x64xf32> -> !tile.box<16x16xf32>
      tile.load %xs to %s
      tile.store %s to %ys
      tile.load %xs to %t
      tile.store %t to %ys
    }
  }
}
// CHECK-LABEL: tile.kernel @fewer(
// CHECK:           %id = arith.remsi %j, %c3 : index
// CHECK-NEXT:      [[OTHER:%id[_0-9]*]] = arith.addi %id, %c3 : index
// CHECK:           tile.wait mte3 -> mte2[%id]
// CHECK-NEXT:      tile.load %xs to %s{{$}}
// CHECK:           tile.wait mte3 -> mte2[[[OTHER]]]
// CHECK-NEXT:      tile.load %xs to %t{{$}}
