// Examples of the ops of the dialect `tile`, a kernel each: the first one that has an op is its
// example. Tests verify them, print and read them again.

// Each core doubles its rows, two tiles in turn.
tile.kernel @double(%x: memref<64x128xf32>, %y: memref<64x128xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  tile.vector {
    %ring = tile.alloc : !tile.ring<2 x 16x128xf32, ub>
    %cores = tile.cores
    %me = tile.core
    %begin = arith.muli %me, %c16 : index
    %step = arith.muli %cores, %c16 : index
    scf.for %i = %begin to %c64 step %step {
      %t = tile.slot %ring[%i] : !tile.ring<2 x 16x128xf32, ub>
      %in = tile.view %x[%i, %c0] : memref<64x128xf32> -> !tile.box<16x128xf32>
      tile.load %in to %t
      tile.map ins(%t) outs(%t) {
      ^bb0(%0: tensor<16x128xf32>):
        %1 = graph.add %0, %0 : (tensor<16x128xf32>, tensor<16x128xf32>) -> tensor<16x128xf32>
        tile.yield %1 : tensor<16x128xf32>
      }
      %out = tile.view %y[%i, %c0] : memref<64x128xf32> -> !tile.box<16x128xf32>
      tile.store %t to %out
    }
  }
}

// -----

// A product on the cube, with the flags that make each pipe wait for the one before it.
tile.kernel @product(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf16>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %A = tile.alloc : !tile.tile<64x64xf16, l1>
    %B = tile.alloc : !tile.tile<64x64xf16, l1>
    %la = tile.alloc : !tile.tile<64x64xf16, l0a>
    %lb = tile.alloc : !tile.tile<64x64xf16, l0b>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    %ab = tile.view %a[%c0, %c0] : memref<64x64xf16> -> !tile.box<64x64xf16>
    %bb = tile.view %b[%c0, %c0] : memref<64x64xf16> -> !tile.box<64x64xf16>
    tile.load %ab to %A
    tile.load %bb to %B
    tile.set mte2 -> mte1[%c0]
    tile.wait mte2 -> mte1[%c0]
    tile.move %A to %la
    tile.move %B to %lb
    tile.set mte1 -> m[%c0]
    tile.wait mte1 -> m[%c0]
    tile.mmad %acc, %la, %lb
    tile.set m -> fix[%c0]
    tile.wait m -> fix[%c0]
    %cb = tile.view %c[%c0, %c0] : memref<64x64xf16> -> !tile.box<64x64xf16>
    tile.store %acc to %cb relu
  }
}

// -----

// The largest element of each row, of the first columns only: others count as -1.
tile.kernel @largest(%x: memref<16x64xf32>, %y: memref<16x1xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %n = tile.alloc : !tile.tile<1x64xi32, ub>
    %m = tile.alloc : !tile.tile<16x1xf32, ub>
    %others = tile.alloc : !tile.tile<16x64xf32, ub>
    %in = tile.view %x[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.load %in to %t
    tile.fill %others, -1.0
    tile.index columns %c0 to %n
    tile.map ins(%t, %others, %n) outs(%t) {
    ^bb0(%0: tensor<16x64xf32>, %1: tensor<16x64xf32>, %2: tensor<1x64xi32>):
      %3 = graph.constant dense<48> : tensor<i32>
      %4 = graph.compare lt %2, %3 : (tensor<1x64xi32>, tensor<i32>) -> tensor<1x64xi1>
      %5 = graph.select %4, %0, %1 : (tensor<1x64xi1>, tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
      tile.yield %5 : tensor<16x64xf32>
    }
    tile.reduce max %t to %m
    %out = tile.view %y[%c0, %c0] : memref<16x1xf32> -> !tile.box<16x1xf32>
    tile.store %m to %out
  }
}

// -----

// Each row backwards: columns are gathered at numbers.
tile.kernel @backwards(%x: memref<16x64xf32>, %at: memref<1x64xi32>, %y: memref<16x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %k = tile.alloc : !tile.tile<1x64xi32, ub>
    %found = tile.alloc : !tile.tile<16x64xf32, ub>
    %in = tile.view %x[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.load %in to %t
    %numbers = tile.view %at[%c0, %c0] : memref<1x64xi32> -> !tile.box<1x64xi32>
    tile.load %numbers to %k
    tile.gather %t at %k to %found
    %out = tile.view %y[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.store %found to %out
  }
}

// -----

// Each element of a row goes to the column that its number names, or is added there.
tile.kernel @histogram(%x: memref<16x64xf32>, %at: memref<16x64xi32>, %y: memref<16x32xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<16x64xf32, ub>
    %k = tile.alloc : !tile.tile<16x64xi32, ub>
    %sums = tile.alloc : !tile.tile<16x32xf32, ub>
    %in = tile.view %x[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.load %in to %t
    %numbers = tile.view %at[%c0, %c0] : memref<16x64xi32> -> !tile.box<16x64xi32>
    tile.load %numbers to %k
    tile.fill %sums, 0.0
    tile.scatter add %t at %k to %sums
    %out = tile.view %y[%c0, %c0] : memref<16x32xf32> -> !tile.box<16x32xf32>
    tile.store %sums to %out
  }
}

// -----

// A cube core hands its sums to two vector cores, half of the rows to each.
tile.kernel @halves(%x: memref<64x32xf16>, %y: memref<64x32xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %sums = tile.fifo depth 1 : !tile.fifo<64x32xf32>
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x32xf32, l0c>
    tile.push %acc to %sums
  }
  tile.vector split 2 {
    %s = tile.alloc : !tile.tile<32x32xf32, ub>
    tile.pop %sums to %s
    %part = tile.part
    %row = arith.muli %part, %c32 : index
    %b = tile.view %y[%row, %c0] : memref<64x32xf32> -> !tile.box<32x32xf32>
    tile.store %s to %b
  }
}

// -----

// A row whose number stands in memory: the scalar unit reads it, and says in which range it is.
tile.kernel @row(%x: memref<100x64xf32>, %ids: memref<8xi64>, %y: memref<1x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<1x64xf32, ub>
    %row = tile.read %ids[%c0] below 100 : memref<8xi64>
    %in = tile.view %x[%row, %c0] sizes [1, 64] : memref<100x64xf32> -> !tile.box<1x64xf32>
    tile.load %in to %t
    %out = tile.view %y[%c0, %c0] sizes [1, 64] : memref<1x64xf32> -> !tile.box<1x64xf32>
    tile.store %t to %out
  }
}

// -----

// Each core leaves its row in the workspace; behind the barrier each can read those of all.
tile.kernel @meet(%x: memref<4x16xf32>) workspace(%w: memref<4x16xf32>) cores 4 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<1x16xf32, ub>
    %me = tile.core
    %in = tile.view %x[%me, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.load %in to %t
    %mine = tile.view %w[%me, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.store %t to %mine
    tile.barrier
    %first = tile.view %w[%c0, %c0] : memref<4x16xf32> -> !tile.box<1x16xf32>
    tile.load %first to %t
  }
}

// -----

// Windows of a convolution, 3 x 3 over lines of 10 pixels, made between L1 and L0B.
tile.kernel @windows() cores 1 {
  tile.cube {
    %P = tile.alloc : !tile.tile<208x16xf16, l1>
    %lb = tile.alloc : !tile.tile<32x64xf16, l0b>
    tile.unfold %P to %lb width 10 pixels 4 kernel [3, 3] strides [1, 2] dilations [2, 1] from 12
  }
}

// -----

// A copy of rows whose number is an argument.
tile.kernel @open(%x: memref<?x64xf32>, %y: memref<?x64xf32>) sizes ["batch", "batch"] cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<1x64xf32, ub>
    %n = tile.size "batch"
    scf.for %i = %c0 to %n step %c1 {
      %in = tile.view %x[%i, %c0] : memref<?x64xf32> -> !tile.box<1x64xf32>
      tile.load %in to %t
      %out = tile.view %y[%i, %c0] : memref<?x64xf32> -> !tile.box<1x64xf32>
      tile.store %t to %out
    }
  }
}
