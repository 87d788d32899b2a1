"""Kernels in the `tile` dialect, with their flags and offsets, for tests of the emulated cores."""

EXP = """
tile.kernel @exp(%x: memref<16x64xf32>, %y: memref<16x64xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x64xf32, ub>
    %in = tile.view %x[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.load %in to %t
    tile.set mte2 -> v [%c0]
    tile.wait mte2 -> v [%c0]
    tile.map ins(%t) outs(%t) {
    ^bb0(%0: tensor<16x64xf32>):
      %1 = graph.exp %0 : (tensor<16x64xf32>) -> tensor<16x64xf32>
      tile.yield %1 : tensor<16x64xf32>
    }
    tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    %out = tile.view %y[%c0, %c0] : memref<16x64xf32> -> !tile.box<16x64xf32>
    tile.store %t to %out
  }
}
"""

GEMM = """
tile.kernel @gemm(%a: memref<72x96x{t}>, %b: memref<96x40x{t}>, %c: memref<72x40x{o}>) cores {n} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  tile.cube {{
    %A = tile.alloc at [0, 2048] : !tile.ring<2 x 16x32x{t}, l1>
    %B = tile.alloc at [4096, 8192] : !tile.ring<2 x 32x64x{t}, l1>
    %LA = tile.alloc at [0, 2048] : !tile.ring<2 x 16x32x{t}, l0a>
    %LB = tile.alloc at [0, 8192] : !tile.ring<2 x 32x64x{t}, l0b>
    %acc = tile.alloc at [0] : !tile.tile<16x64x{s}, l0c>
    %me = tile.core
    %cores = tile.cores
    scf.for %k = %c0 to %c2 step %c1 {{
      tile.set mte1 -> mte2 [%k]
      tile.set m -> mte1 [%k]
    }}
    scf.for %i = %me to %c5 step %cores {{
      %row = arith.muli %i, %c16 : index
      scf.for %k = %c0 to %c3 step %c1 {{
        %s = arith.remui %k, %c2 : index
        %col = arith.muli %k, %c32 : index
        %as = tile.slot %A[%k] : !tile.ring<2 x 16x32x{t}, l1>
        %bs = tile.slot %B[%k] : !tile.ring<2 x 32x64x{t}, l1>
        %la = tile.slot %LA[%k] : !tile.ring<2 x 16x32x{t}, l0a>
        %lb = tile.slot %LB[%k] : !tile.ring<2 x 32x64x{t}, l0b>
        %ab = tile.view %a[%row, %col] : memref<72x96x{t}> -> !tile.box<16x32x{t}>
        %bb = tile.view %b[%col, %c0] : memref<96x40x{t}> -> !tile.box<32x64x{t}>
        tile.wait mte1 -> mte2 [%s]
        tile.load %ab to %as pad 0
        tile.load %bb to %bs pad 0
        tile.set mte2 -> mte1 [%s]
        tile.wait mte2 -> mte1 [%s]
        tile.wait m -> mte1 [%s]
        tile.move %as to %la
        tile.move %bs to %lb
        tile.set mte1 -> mte2 [%s]
        tile.set mte1 -> m [%s]
        tile.wait mte1 -> m [%s]
        %first = arith.cmpi eq, %k, %c0 : index
        tile.mmad %acc, %la, %lb init %first
        tile.set m -> mte1 [%s]
      }}
      tile.set m -> fix [%c0]
      tile.wait m -> fix [%c0]
      %cb = tile.view %c[%row, %c0] : memref<72x40x{o}> -> !tile.box<16x64x{o}>
      tile.store %acc to %cb {relu}
      tile.set fix -> m [%c0]
      tile.wait fix -> m [%c0]
    }}
    scf.for %k = %c0 to %c2 step %c1 {{
      tile.wait mte1 -> mte2 [%k]
      tile.wait m -> mte1 [%k]
    }}
  }}
}}
"""

SOFTMAX = """
tile.kernel @softmax(%x: memref<20x3x50x{t}>, %n: memref<20xi32>, %y: memref<50x20xf32>) cores 3 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  tile.vector {{
    %x0 = tile.alloc at [0] : !tile.tile<8x64x{t}, ub>
    %lengths = tile.alloc at [4096] : !tile.tile<8x1xi32, ub>
    %cols = tile.alloc at [4160] : !tile.tile<1x64xi32, ub>
    %s = tile.alloc at [8192] : !tile.tile<8x64xf32, ub>
    %m = tile.alloc at [10240] : !tile.tile<8x1xf32, ub>
    %tr = tile.alloc at [10304] : !tile.tile<64x8xf32, ub>
    %top = tile.alloc at [16384] : !tile.tile<64x16xf32, ub>
    %me = tile.core
    %row = arith.muli %me, %c8 : index
    %in = tile.view %x[%row, %c2, %c0] sizes [8, 1, 64] : memref<20x3x50x{t}> -> !tile.box<8x64x{t}>
    tile.load %in to %x0 pad -inf
    %nb = tile.view %n[%row] : memref<20xi32> -> !tile.box<8x1xi32>
    tile.load %nb to %lengths pad 0
    tile.set mte2 -> v [%c0]
    tile.wait mte2 -> v [%c0]
    tile.index columns %c0 to %cols
    tile.map ins(%x0, %cols, %lengths) outs(%s) {{
    ^bb0(%0: tensor<8x64x{t}>, %1: tensor<1x64xi32>, %2: tensor<8x1xi32>):
      %3 = graph.compare lt %1, %2 : (tensor<1x64xi32>, tensor<8x1xi32>) -> tensor<8x64xi1>
      %4 = graph.constant dense<0xFF800000> : tensor<f32>
      %5 = graph.cast %0 to f32 : (tensor<8x64x{t}>) -> tensor<8x64xf32>
      %6 = graph.select %3, %5, %4
        : (tensor<8x64xi1>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
      tile.yield %6 : tensor<8x64xf32>
    }}
    tile.reduce max %s to %m
    tile.map ins(%s, %m) outs(%s) {{
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<8x1xf32>):
      %2 = graph.sub %0, %1 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
      %3 = graph.exp %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
      tile.yield %3 : tensor<8x64xf32>
    }}
    tile.reduce sum %s to %m
    tile.map ins(%s, %m) outs(%s) {{
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<8x1xf32>):
      %2 = graph.div %0, %1 : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
      tile.yield %2 : tensor<8x64xf32>
    }}
    tile.move %s to %tr transposed
    tile.fill %top, 7
    %left = tile.view %top[%c0, %c8] : !tile.tile<64x16xf32, ub> -> !tile.tile<64x8xf32, ub>
    tile.move %tr to %left
    tile.set v -> mte3 [%c0]
    tile.wait v -> mte3 [%c0]
    %out = tile.view %y[%c0, %row] : memref<50x20xf32> -> !tile.box<64x8xf32>
    tile.store %left to %out
  }}
}}
"""

WIDE = """
tile.kernel @wide(%x: memref<16x192xf32>, %y: memref<16x1xf32>, %z: memref<1x192xf32>) cores 1 {
  %c0 = arith.constant 0 : index
  tile.vector {
    %t = tile.alloc at [0] : !tile.tile<16x192xf32, ub>
    %m = tile.alloc at [12288] : !tile.tile<16x1xf32, ub>
    %n = tile.alloc at [12352] : !tile.tile<1x192xf32, ub>
    tile.reduce sum %t to %m
    tile.reduce min %t to %n
  }
}
"""

WEIGHTED = """
tile.kernel @weighted(%q: memref<32x32xf16>, %k: memref<96x32xf16>, %v: memref<96x32xf16>,
                      %o: memref<32x32xf32>) cores 2 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %scores = tile.fifo depth 2 : !tile.fifo<16x32xf32>
  %weights = tile.fifo depth 2 : !tile.fifo<16x32xf16>
  tile.cube {
    %Q = tile.alloc at [0] : !tile.tile<16x32xf16, l1>
    %K = tile.alloc at [1024] : !tile.tile<32x32xf16, l1>
    %P = tile.alloc at [3072] : !tile.tile<16x32xf16, l1>
    %la = tile.alloc at [0] : !tile.tile<16x32xf16, l0a>
    %lb = tile.alloc at [0] : !tile.tile<32x32xf16, l0b>
    %s = tile.alloc at [0] : !tile.tile<16x32xf32, l0c>
    %acc = tile.alloc at [2048] : !tile.tile<16x32xf32, l0c>
    %me = tile.core
    %row = arith.muli %me, %c16 : index
    %qb = tile.view %q[%row, %c0] : memref<32x32xf16> -> !tile.box<16x32xf16>
    tile.load %qb to %Q
    scf.for %j = %c0 to %c3 step %c1 {
      %col = arith.muli %j, %c32 : index
      %kb = tile.view %k[%col, %c0] : memref<96x32xf16> -> !tile.box<32x32xf16>
      %vb = tile.view %v[%col, %c0] : memref<96x32xf16> -> !tile.box<32x32xf16>
      tile.load %kb to %K
      tile.set mte2 -> mte1 [%c0]
      tile.wait mte2 -> mte1 [%c0]
      tile.move %Q to %la
      tile.move %K to %lb transposed
      tile.set mte1 -> m [%c0]
      tile.set mte1 -> mte2 [%c0]
      tile.wait mte1 -> m [%c0]
      tile.mmad %s, %la, %lb init %true
      tile.set m -> fix [%c0]
      tile.set m -> mte1 [%c0]
      tile.wait m -> fix [%c0]
      tile.push %s to %scores
      tile.wait mte1 -> mte2 [%c0]
      tile.load %vb to %K
      tile.pop %weights to %P
      tile.set mte2 -> mte1 [%c0]
      tile.wait mte2 -> mte1 [%c0]
      tile.wait m -> mte1 [%c0]
      tile.move %P to %la
      tile.move %K to %lb
      tile.set mte1 -> m [%c0]
      tile.set mte1 -> mte2 [%c0]
      tile.wait mte1 -> mte2 [%c0]
      tile.wait mte1 -> m [%c0]
      %first = arith.cmpi eq, %j, %c0 : index
      tile.mmad %acc, %la, %lb init %first
      tile.set m -> mte1 [%c0]
      tile.wait m -> mte1 [%c0]
      tile.set fix -> m [%c0]
      tile.wait fix -> m [%c0]
    }
    tile.set m -> fix [%c0]
    tile.wait m -> fix [%c0]
    %ob = tile.view %o[%row, %c0] : memref<32x32xf32> -> !tile.box<16x32xf32>
    tile.store %acc to %ob
  }
  tile.vector {
    %s = tile.alloc at [0] : !tile.tile<16x32xf32, ub>
    %n = tile.alloc at [2048] : !tile.tile<1x32xi32, ub>
    %p = tile.alloc at [4096] : !tile.tile<16x32xf16, ub>
    %top = tile.alloc at [8192] : !tile.tile<16x1xf32, ub>
    scf.for %j = %c0 to %c3 step %c1 {
      %col = arith.muli %j, %c32 : index
      tile.pop %scores to %s
      tile.set mte2 -> v [%c0]
      tile.wait mte2 -> v [%c0]
      tile.index columns %col to %n
      tile.reduce max %s to %top
      tile.map ins(%s, %n, %top) outs(%p) {
      ^bb0(%0: tensor<16x32xf32>, %1: tensor<1x32xi32>, %2: tensor<16x1xf32>):
        %3 = graph.sub %0, %2 : (tensor<16x32xf32>, tensor<16x1xf32>) -> tensor<16x32xf32>
        %4 = graph.exp %3 : (tensor<16x32xf32>) -> tensor<16x32xf32>
        %5 = graph.cast %1 to f32 : (tensor<1x32xi32>) -> tensor<1x32xf32>
        %6 = graph.mul %4, %5 : (tensor<16x32xf32>, tensor<1x32xf32>) -> tensor<16x32xf32>
        %7 = graph.cast %6 to f16 : (tensor<16x32xf32>) -> tensor<16x32xf16>
        tile.yield %7 : tensor<16x32xf16>
      }
      tile.set v -> mte3 [%c0]
      tile.set v -> mte2 [%c0]
      tile.wait v -> mte2 [%c0]
      tile.wait v -> mte3 [%c0]
      tile.push %p to %weights
      tile.set mte3 -> v [%c0]
      tile.wait mte3 -> v [%c0]
    }
  }
}
""".replace("  tile.cube {", "  %true = arith.constant true\n  tile.cube {")

_CUBE, _VECTOR = WEIGHTED.split("  tile.vector {")
SPLIT = f"{_CUBE}  tile.vector split 2 {{{_VECTOR.replace('16x', '8x')}"
"""WEIGHTED on two vector cores beside each cube core."""
