// RUN: ge-opt %s -p tile-split-loops | filecheck %s

// The second stage runs two blocks behind the first.
tile.kernel @pipelined(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  tile.vector {
    %r = tile.alloc : !tile.ring<3 x 16x64xf32, ub>
    scf.for %j = %c0 to %c6 step %c1 {
      %0 = arith.cmpi slt, %j, %c4 : index
      scf.if %0 {
        %s = tile.slot %r[%j] : !tile.ring<3 x 16x64xf32, ub>
        tile.fill %s, 1.0
      }
      %b = arith.subi %j, %c2 : index
      %1 = arith.cmpi sge, %b, %c0 : index
      scf.if %1 {
        %t = tile.slot %r[%b] : !tile.ring<3 x 16x64xf32, ub>
        %box = tile.view %x[%b, %c0] : memref<64x64xf32> -> !tile.box<16x64xf32>
        tile.store %t to %box
      }
    }
  }
}
// CHECK:       tile.kernel @pipelined(
// CHECK:         scf.for [[J:%j[_0-9]*]] = %c0 to %c2 step %c1 {
// CHECK-NEXT:      [[S:%s[_0-9]*]] = tile.slot %r[[[J]]]
// CHECK-NEXT:      tile.fill [[S]], 1.0{{$}}
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for [[J:%j[_0-9]*]] = %c2 to %c4 step %c1 {
// CHECK-NEXT:      [[S:%s[_0-9]*]] = tile.slot %r[[[J]]]
// CHECK-NEXT:      tile.fill [[S]], 1.0{{$}}
// CHECK-NEXT:      [[B:%b[_0-9]*]] = arith.subi [[J]], %c2 :
// CHECK-NEXT:      [[T:%t[_0-9]*]] = tile.slot %r[[[B]]]
// CHECK:           tile.store [[T]] to
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for [[J:%j[_0-9]*]] = %c4 to %c6 step %c1 {
// CHECK-NEXT:      [[B:%b[_0-9]*]] = arith.subi [[J]], %c2 :
// CHECK-NOT:       tile.fill
// CHECK:           tile.store
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// A bound that is known when the kernel runs; the step is not 1, so the cut is rounded up to a step.
tile.kernel @value(%x: memref<64x64xf32>) cores 4 {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %me = tile.core
    scf.for %j = %c0 to %c7 step %c2 {
      %0 = arith.cmpi sgt, %me, %j : index
      scf.if %0 {
        tile.fill %t, 1.0
      } else {
        tile.fill %t, 2.0
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @value(
// CHECK:         [[STEPS:%[0-9]+]] = arith.ceildivsi %me, {{.*}} : index
// CHECK:         [[LENGTH:%[0-9]+]] = arith.muli [[STEPS]],
// CHECK:         [[AT:%[0-9]+]] = arith.maxsi [[LENGTH]],
// CHECK:         [[END:%[0-9]+]] = arith.minsi [[AT]],
// CHECK-NEXT:    scf.for {{.*}} = %c0 to [[END]] step %c2 {
// CHECK-NEXT:      tile.fill %t, 1.0{{$}}
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for {{.*}} = [[AT]] to %c7 step %c2 {
// CHECK-NEXT:      tile.fill %t, 2.0{{$}}
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// The first step alone, in an inner loop; both loops are cut.
tile.kernel @nested(%x: memref<64x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    scf.for %i = %c0 to %c3 step %c1 {
      scf.for %j = %c0 to %c3 step %c1 {
        %0 = arith.cmpi eq, %i, %c0 : index
        scf.if %0 {
          tile.fill %t, 1.0
        }
        %1 = arith.cmpi ne, %j, %c0 : index
        scf.if %1 {
          tile.fill %t, 2.0
        }
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @nested(
// CHECK:         scf.for {{.*}} = %c0 to %c1 step %c1 {
// CHECK-NEXT:      scf.for {{.*}} = %c0 to {{.*}} {
// CHECK-NEXT:        tile.fill %t, 1.0{{$}}
// CHECK-NEXT:      }
// CHECK-NEXT:      scf.for {{.*}} to %c3 step %c1 {
// CHECK-NEXT:        tile.fill %t, 1.0{{$}}
// CHECK-NEXT:        tile.fill %t, 2.0{{$}}
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for {{.*}} = %c1 to %c3 step %c1 {
// CHECK-NEXT:      scf.for {{.*}} to %c3 step %c1 {
// CHECK-NEXT:        tile.fill %t, 2.0{{$}}
// CHECK-NEXT:      }
// CHECK-NEXT:    }

// Stays: a condition without the loop's variable, one that multiplies it, and one without signs.
tile.kernel @others(%x: memref<64x64xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %me = tile.core
    scf.for %i = %c0 to %c3 step %c1 {
      %0 = arith.cmpi eq, %me, %c0 : index
      scf.if %0 {
        tile.fill %t, 1.0
      }
      %twice = arith.muli %i, %c3 : index
      %1 = arith.cmpi slt, %twice, %c3 : index
      scf.if %1 {
        tile.fill %t, 2.0
      }
      %2 = arith.cmpi ult, %i, %c1 : index
      scf.if %2 {
        tile.fill %t, 3.0
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @others(
// CHECK:         scf.for %i = %c0 to %c3 step %c1 {
// CHECK-COUNT-3:   scf.if
// CHECK-NOT:     scf.for

// An if in another one, and a loop that ends at a value: its parts end there, too.
tile.kernel @both(%x: memref<64x64xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %n = tile.core
    scf.for %i = %c0 to %n step %c1 {
      tile.fill %t, 3.0
      %0 = arith.cmpi sge, %i, %c1 : index
      scf.if %0 {
        tile.fill %t, 1.0
        %1 = arith.cmpi sge, %i, %c1 : index
        scf.if %1 {
          tile.fill %t, 2.0
        }
      }
    }
  }
}
// CHECK-LABEL: tile.kernel @both(
// CHECK:         %[[END:.*]] = arith.minsi {{.*}}, %n : index
// CHECK-NEXT:    scf.for {{.*}} = %c0 to %[[END]] step %c1 {
// CHECK-NEXT:      tile.fill %t, 3.0{{$}}
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for {{.*}} = {{.*}} to %n step %c1 {
// CHECK-NEXT:      tile.fill %t, 3.0{{$}}
// CHECK-NEXT:      tile.fill %t, 1.0{{$}}
// CHECK-NEXT:      tile.fill %t, 2.0{{$}}
// CHECK-NEXT:    }
