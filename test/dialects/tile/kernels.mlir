// RUN: %roundtrip | filecheck %s

// relu of a product, one core for 128 rows each; the last rows are padded
tile.kernel @gemm(%a: memref<500x256xf16>, %b: memref<256x128xf16>, %c: memref<500x128xf16>) cores 4 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  tile.cube {
    %A = tile.alloc at [0, 16384] : !tile.ring<2 x 128x64xf16, l1>
    %B = tile.alloc at [32768, 49152] : !tile.ring<2 x 64x128xf16, l1>
    %la = tile.alloc : !tile.tile<128x64xf16, l0a>
    %lb = tile.alloc : !tile.tile<64x128xf16, l0b>
    %acc = tile.alloc : !tile.tile<128x128xf32, l0c>
    %me = tile.core
    %row = arith.muli %me, %c128 : index
    scf.for %k = %c0 to %c4 step %c1 {
      %col = arith.muli %k, %c64 : index
      %as = tile.slot %A[%k] : !tile.ring<2 x 128x64xf16, l1>
      %bs = tile.slot %B[%k] : !tile.ring<2 x 64x128xf16, l1>
      %ab = tile.view %a[%row, %col] : memref<500x256xf16> -> !tile.box<128x64xf16>
      %bb = tile.view %b[%col, %c0] : memref<256x128xf16> -> !tile.box<64x128xf16>
      tile.load %ab to %as pad 0.0
      tile.load %bb to %bs
      tile.set mte2 -> mte1[%c0]
      tile.wait mte2 -> mte1[%c0]
      tile.move %as to %la
      tile.move %bs to %lb {my.note = "rows of b"}
      %first = arith.cmpi eq, %k, %c0 : index
      tile.mmad %acc, %la, %lb init %first
    }
    %cb = tile.view %c[%row, %c0] : memref<500x128xf16> -> !tile.box<128x128xf16>
    tile.store %acc to %cb relu
  }
}
// CHECK:       tile.kernel @gemm(%a: memref<500x256xf16>, %b: memref<256x128xf16>, %c: memref<500x128xf16>) cores 4 {
// CHECK:         tile.cube {
// CHECK-NEXT:      %A = tile.alloc at [0, 16384] : !tile.ring<2 x 128x64xf16, l1>
// CHECK:           %la = tile.alloc : !tile.tile<128x64xf16, l0a>
// CHECK:           %me = tile.core
// CHECK:           scf.for %k = %c0 to %c4 step %c1 {
// CHECK:             %as = tile.slot %A[%k] : !tile.ring<2 x 128x64xf16, l1>
// CHECK:             %ab = tile.view %a[%row, %col] : memref<500x256xf16> -> !tile.box<128x64xf16>
// CHECK:             tile.load %ab to %as pad 0.0{{$}}
// CHECK-NEXT:        tile.load %bb to %bs{{$}}
// CHECK-NEXT:        tile.set mte2 -> mte1[%c0]
// CHECK-NEXT:        tile.wait mte2 -> mte1[%c0]
// CHECK-NEXT:        tile.move %as to %la{{$}}
// CHECK-NEXT:        tile.move %bs to %lb {my.note = "rows of b"}
// CHECK:             tile.mmad %acc, %la, %lb init %first{{$}}
// CHECK:           tile.store %acc to %cb relu

// softmax of rows: 16 at a time, cores in turn
tile.kernel @softmax(%x: memref<100x1000xf32>, %y: memref<100x1000xf32>) cores 3 {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c100 = arith.constant 100 : index
  tile.vector {
    %s = tile.alloc : !tile.tile<16x1008xf32, ub>
    %m = tile.alloc : !tile.tile<16x1xf32, ub>
    %cores = tile.cores
    %me = tile.core
    %begin = arith.muli %me, %c16 : index
    %step = arith.muli %cores, %c16 : index
    scf.for %i = %begin to %c100 step %step {
      %in = tile.view %x[%i, %c0] : memref<100x1000xf32> -> !tile.box<16x1008xf32>
      tile.load %in to %s pad -inf
      tile.reduce max %s to %m
      tile.map ins(%s, %m) outs(%s) {
      ^bb0(%0: tensor<16x1008xf32>, %1: tensor<16x1xf32>):
        %2 = graph.sub %0, %1 : (tensor<16x1008xf32>, tensor<16x1xf32>) -> tensor<16x1008xf32>
        %3 = graph.exp %2 : (tensor<16x1008xf32>) -> tensor<16x1008xf32>
        tile.yield %3 : tensor<16x1008xf32>
      }
      tile.reduce sum %s to %m
      tile.map ins(%s, %m) outs(%s) {
      ^bb1(%4: tensor<16x1008xf32>, %5: tensor<16x1xf32>):
        %6 = graph.div %4, %5 : (tensor<16x1008xf32>, tensor<16x1xf32>) -> tensor<16x1008xf32>
        tile.yield %6 : tensor<16x1008xf32>
      }
      %out = tile.view %y[%i, %c0] : memref<100x1000xf32> -> !tile.box<16x1008xf32>
      tile.store %s to %out
    }
  }
}
// CHECK:       tile.kernel @softmax(%x: memref<100x1000xf32>, %y: memref<100x1000xf32>) cores 3 {
// CHECK:           tile.load %in to %s pad -inf
// CHECK-NEXT:      tile.reduce max %s to %m{{$}}
// CHECK-NEXT:      tile.map ins(%s, %m) outs(%s) {
// CHECK-NEXT:      ^bb0(%0: tensor<16x1008xf32>, %1: tensor<16x1xf32>):
// CHECK:             tile.yield %3 : tensor<16x1008xf32>
// CHECK:           tile.store %s to %out{{$}}

// the rest: both programs, fifos, sub-tiles, boxes of more dimensions, masks, atomic sums
tile.kernel @rest(%q: memref<64x4x32xf16>, %l: memref<64xi32>, %o: memref<64x32xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %before = arith.constant -1 : index
  %scores = tile.fifo depth 2 : !tile.fifo<64x64xf32>
  %weights = tile.fifo depth 4 : !tile.fifo<64x64xf16>
  tile.cube {
    %Q = tile.alloc : !tile.tile<64x32xf16, l1>
    %P = tile.alloc : !tile.ring<3 x 64x64xf16, l1>
    %P0 = tile.alloc : !tile.tile<208x16xf16, l1>
    %la = tile.alloc : !tile.tile<64x32xf16, l0a>
    %lb = tile.alloc : !tile.tile<32x64xf16, l0b>
    %acc = tile.alloc : !tile.tile<64x64xf32, l0c>
    %head = tile.view %q[%c0, %c1, %c0] sizes [64, 1, 32] : memref<64x4x32xf16> -> !tile.box<64x32xf16>
    tile.load %head to %Q
    tile.move %Q to %la
    tile.move %Q to %lb transposed
    tile.mmad %acc, %la, %lb
    tile.push %acc to %scores
    %slot = tile.slot %P[%c1] : !tile.ring<3 x 64x64xf16, l1>
    tile.pop %weights to %slot
    %part = tile.view %slot[%c16, %c16] : !tile.tile<64x64xf16, l1> -> !tile.tile<16x32xf16, l1>
    tile.fill %part, 0.0
    %odd = tile.view %q[%before, %c0, %c1] sizes [7, 4, 16] steps [1, 1, 2] : memref<64x4x32xf16> -> !tile.box<7x64xf16>
    tile.load %odd to %slot rows %c1 step 9 pad 0.0
    tile.move %acc to %slot
    tile.unfold %P0 to %lb width 10 pixels 4 kernel [3, 3] strides [1, 2] dilations [2, 1] from 12
    tile.unfold %P0 to %lb width 10 pixels 4 kernel [3, 3] strides [1, 3] dilations [2, 1] from 0 left 2 pad -1.0
  }
  tile.vector {
    %s = tile.alloc : !tile.tile<64x64xf32, ub>
    %n = tile.alloc : !tile.tile<1x64xi32, ub>
    %lengths = tile.alloc : !tile.tile<64x1xi32, ub>
    %p = tile.alloc : !tile.tile<64x64xf16, ub>
    %pt = tile.alloc : !tile.tile<64x64xf16, ub>
    %u = tile.alloc : !tile.tile<64x32xf32, ub>
    %length = tile.view %l[%c0] : memref<64xi32> -> !tile.box<64x1xi32>
    tile.load %length to %lengths pad 0
    tile.pop %scores to %s
    tile.index columns %c0 to %n
    tile.gather %s at %n to %s
    %places = tile.alloc : !tile.tile<64x64xi32, ub>
    tile.index rows %c0 to %places
    tile.scatter max %s at %places to %s
    tile.map ins(%s, %n, %lengths) outs(%p) {
    ^bb0(%0: tensor<64x64xf32>, %1: tensor<1x64xi32>, %2: tensor<64x1xi32>):
      %3 = graph.compare lt %1, %2 : (tensor<1x64xi32>, tensor<64x1xi32>) -> tensor<64x64xi1>
      %4 = graph.constant dense<0.0> : tensor<f32>
      %5 = graph.select %3, %0, %4 : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
      %6 = graph.cast %5 to f16 : (tensor<64x64xf32>) -> tensor<64x64xf16>
      tile.yield %6 : tensor<64x64xf16>
    }
    tile.move %p to %pt transposed
    tile.push %pt to %weights
    tile.fill %u, 1.5
    tile.move %s to %u columns 1 step 2
    tile.move %s to %u columns 1 step -1 each 2 further 2
    tile.fill %u, -1.0e+30
    %b = tile.view %o[%c0, %c0] : memref<64x32xf32> -> !tile.box<64x32xf32>
    tile.store %u to %b add
  }
}
// CHECK:       %scores = tile.fifo depth 2 : !tile.fifo<64x64xf32>
// CHECK:       %head = tile.view %q[%c0, %c1, %c0] sizes [64, 1, 32] : memref<64x4x32xf16> -> !tile.box<64x32xf16>
// CHECK:       tile.move %Q to %lb transposed
// CHECK-NEXT:  tile.mmad %acc, %la, %lb{{$}}
// CHECK-NEXT:  tile.push %acc to %scores{{$}}
// CHECK:       tile.pop %weights to %slot{{$}}
// CHECK-NEXT:  %part = tile.view %slot[%c16, %c16] : !tile.tile<64x64xf16, l1> -> !tile.tile<16x32xf16, l1>
// CHECK:       tile.fill %part, 0.0{{$}}
// CHECK:       %odd = tile.view %q[%before, %c0, %c1] sizes [7, 4, 16] steps [1, 1, 2] : memref<64x4x32xf16> -> !tile.box<7x64xf16>
// CHECK-NEXT:  tile.load %odd to %slot rows %c1 step 9 pad 0.0{{$}}
// CHECK:       tile.unfold %P0 to %lb width 10 pixels 4 kernel [3, 3] strides [1, 2] dilations [2, 1] from 12{{$}}
// CHECK-NEXT:  tile.unfold %P0 to %lb width 10 pixels 4 kernel [3, 3] strides [1, 3] dilations [2, 1] from 0 left 2 pad -1.0{{$}}
// CHECK:       %length = tile.view %l[%c0] : memref<64xi32> -> !tile.box<64x1xi32>
// CHECK-NEXT:  tile.load %length to %lengths pad 0{{$}}
// CHECK:       tile.index columns %c0 to %n{{$}}
// CHECK-NEXT:  tile.gather %s at %n to %s{{$}}
// CHECK:       tile.scatter max %s at %places to %s{{$}}
// CHECK:       tile.fill %u, 1.5{{$}}
// CHECK-NEXT:  tile.move %s to %u columns 1 step 2{{$}}
// CHECK-NEXT:  tile.move %s to %u columns 1 step -1 each 2 further 2{{$}}
// CHECK-NEXT:  tile.fill %u, -1.0e+30{{$}}
// CHECK:       tile.store %u to %b add

// -----

// The scalar unit reads numbers: of a row to load, of blocks.
// CHECK-LABEL: tile.kernel @rows(
tile.kernel @rows(%x: memref<100x64xf32>, %ids: memref<8xi64>, %y: memref<8x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c5 = arith.constant 5 : index
  tile.vector {
    %t = tile.alloc : !tile.tile<1x64xf32, ub>
    // CHECK: %row = tile.read %ids[%c5] below 100 : memref<8xi64>
    %row = tile.read %ids[%c5] below 100 : memref<8xi64>
    // CHECK: %last = tile.read %ids[%c0] from -100 below 100 : memref<8xi64>
    %last = tile.read %ids[%c0] from -100 below 100 : memref<8xi64>
    // CHECK: %other = tile.read %ids[%c5] below 8 distinct : memref<8xi64>
    %other = tile.read %ids[%c5] below 8 distinct : memref<8xi64>
    // CHECK: %first = tile.read %ids[%c0] below 101 ascending : memref<8xi64>
    %first = tile.read %ids[%c0] below 101 ascending : memref<8xi64>
    // CHECK: %ended = tile.view %x[%row, %c0] ends[%first, %c5] sizes [1, 64] : memref<100x64xf32> -> !tile.box<1x64xf32>
    %ended = tile.view %x[%row, %c0] ends[%first, %c5] sizes [1, 64] : memref<100x64xf32> -> !tile.box<1x64xf32>
    tile.load %ended to %t pad 1.0
    %box = tile.view %x[%row, %c0] sizes [1, 64] : memref<100x64xf32> -> !tile.box<1x64xf32>
    tile.load %box to %t
    %out = tile.view %y[%c0, %c0] sizes [1, 64] : memref<8x64xf32> -> !tile.box<1x64xf32>
    tile.store %t to %out
  }
}

// -----

// Two vector cores beside each cube core, with half of the rows each.
// CHECK-LABEL: tile.kernel @halves(
tile.kernel @halves(%x: memref<64x32xf16>, %y: memref<64x32xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %sums = tile.fifo depth 1 : !tile.fifo<64x32xf32>
  tile.cube {
    %acc = tile.alloc : !tile.tile<64x32xf32, l0c>
    tile.push %acc to %sums
  }
  // CHECK: tile.vector split 2 {
  tile.vector split 2 {
    %s = tile.alloc : !tile.tile<32x32xf32, ub>
    // CHECK: tile.pop %sums to %s{{$}}
    tile.pop %sums to %s
    // CHECK: %part = tile.part
    %part = tile.part
    %row = arith.muli %part, %c32 : index
    %b = tile.view %y[%row, %c0] : memref<64x32xf32> -> !tile.box<32x32xf32>
    tile.store %s to %b
  }
}

// -----

// Sizes are arguments: a core asks for them.
// CHECK-LABEL: tile.kernel @open(%x: memref<?x64xf32>, %y: memref<?x64xf32>) sizes ["2 * batch + 1", "batch"] cores 1 {
tile.kernel @open(%x: memref<?x64xf32>, %y: memref<?x64xf32>) sizes ["2 * batch + 1", "batch"] cores 1 {
  tile.vector {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = tile.alloc : !tile.tile<1x64xf32, ub>
    // CHECK: %[[N:.+]] = tile.size "batch"
    %n = tile.size "batch"
    // CHECK: scf.for %i = %c0 to %[[N]] step %c1 {
    scf.for %i = %c0 to %n step %c1 {
      // CHECK: tile.view %x[%i, %c0] : memref<?x64xf32> -> !tile.box<1x64xf32>
      %in = tile.view %x[%i, %c0] : memref<?x64xf32> -> !tile.box<1x64xf32>
      tile.load %in to %t
      %out = tile.view %y[%i, %c0] : memref<?x64xf32> -> !tile.box<1x64xf32>
      tile.store %t to %out
    }
  }
}

// Sums of integers begin with a bias, and leave as codes of 8 bits.
tile.kernel @codes(%b: memref<16xi32>, %s: memref<16xf32>, %o: memref<16x16xi8>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.cube {
    %a = tile.alloc : !tile.tile<16x32xi8, l0a>
    %w = tile.alloc : !tile.tile<32x16xi8, l0b>
    %acc = tile.alloc : !tile.tile<16x16xi32, l0c>
    %row = tile.alloc : !tile.tile<1x16xi32, l1>
    %bias = tile.alloc : !tile.tile<1x16xi32, bt>
    %numbers = tile.alloc : !tile.tile<1x16xf32, l1>
    %scales = tile.alloc : !tile.tile<1x16xf32, fb>
    %bb = tile.view %b[%c0] : memref<16xi32> -> !tile.box<1x16xi32>
    %sb = tile.view %s[%c0] : memref<16xf32> -> !tile.box<1x16xf32>
    tile.load %bb to %row
    tile.load %sb to %numbers
    tile.move %row to %bias
    tile.move %numbers to %scales
    %first = arith.cmpi eq, %c0, %c0 : index
    tile.mmad %acc, %a, %w init %first bias %bias
    %ob = tile.view %o[%c0, %c0] : memref<16x16xi8> -> !tile.box<16x16xi8>
    tile.store %acc to %ob relu scale %scales zero -3
  }
}
// CHECK:       tile.kernel @codes
// CHECK:           %bias = tile.alloc : !tile.tile<1x16xi32, bt>
// CHECK:           tile.move %row to %bias
// CHECK:           tile.mmad %acc, %a, %w init %first bias %bias
// CHECK:           tile.store %acc to %ob relu scale %scales zero -3

// Sums of integers pass to vector cores as f16.
tile.kernel @passed_by_scales(%s: memref<16xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  %f = tile.fifo depth 8 : !tile.fifo<16x16xf16>
  tile.cube {
    %acc = tile.alloc : !tile.tile<16x16xi32, l0c>
    %numbers = tile.alloc : !tile.tile<1x16xf32, l1>
    %scales = tile.alloc : !tile.tile<1x16xf32, fb>
    %sb = tile.view %s[%c0] : memref<16xf32> -> !tile.box<1x16xf32>
    tile.load %sb to %numbers
    tile.move %numbers to %scales
    tile.push %acc to %f scale %scales
  }
  tile.vector {
    %half = tile.alloc : !tile.tile<16x16xf16, ub>
    tile.pop %f to %half
  }
}
// CHECK:       tile.kernel @passed_by_scales
// CHECK:           tile.push %acc to %{{.*}} scale %scales
