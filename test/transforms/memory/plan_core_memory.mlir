// RUN: ge-opt %s --split-input-file -p 'fuse-linear,fuse-attention,fuse-region,lower-to-tasks,plan-core-memory' | filecheck %s
// RUN: ge-opt %s --split-input-file -p fuse-linear,fuse-attention,fuse-vector-ops,lower-to-tasks,fit-tilings,assign-core-offsets | filecheck %s

// What crosses between memory and core has two copies while the loop is double-buffered.
// CHECK:      npu_task.kernel @add_0 on vector tiling <[1376] blocks 24 buffers 2>
// CHECK-SAME:   core <ub [in0 5504 at [0, 5504], in1 5504 at [11008, 16512], op0 5504 at [22016, 27520]]> {
func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = graph.add %x, %y : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  func.return %0 : tensor<1024x1024xf32>
}

// -----

// One tile: one copy of each, from the step that makes it to the one that needs it last.
// CHECK:      npu_task.kernel @add_0 on vector tiling <[16] blocks 1 buffers 1>
// CHECK-SAME:   core <ub [in0 64 at [0] from 0 to 1, in1 64 at [64] from 0 to 1, op0 64 at [128] from 1 to 2]> {
func.func @main(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %0 = graph.add %x, %y : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %0 : tensor<16xf32>
}

// -----

// All of the bias stays on the core. What lives in between takes over the bytes of what dies.
// CHECK:      npu_task.kernel @region_0 on vector tiling <[1824] blocks 24 buffers 2>
// CHECK-SAME:   in1 1024 at [29184]
// CHECK-SAME:   op0 7296 at [30208] from 1 to 2, op1 7296 at [30208] from 2 to 3, op2 7296 at [30208] from 3 to 4
func.func @main(%x: tensor<4096x256xf32>, %b: tensor<256xf32>) -> tensor<4096x256xf32> {
  %0 = graph.add %x, %b : (tensor<4096x256xf32>, tensor<256xf32>) -> tensor<4096x256xf32>
  %1 = graph.exp %0 : (tensor<4096x256xf32>) -> tensor<4096x256xf32>
  %2 = graph.tanh %1 : (tensor<4096x256xf32>) -> tensor<4096x256xf32>
  %3 = graph.mul %2, %x : (tensor<4096x256xf32>, tensor<4096x256xf32>) -> tensor<4096x256xf32>
  func.return %3 : tensor<4096x256xf32>
}

// -----

// What is moved on the way in is loaded to where the result has it: the input has no tile.
// CHECK:      npu_task.kernel @region_0 on vector
// CHECK-SAME:   core <ub [op0 21856 at [0] from 0 to 2, op1 21856 at [21856] from 2 to 3]> {
func.func @main(%x: tensor<512x256xf32>) -> tensor<256x512xf32> {
  %0 = graph.transpose %x permutation [1, 0] : tensor<512x256xf32> -> tensor<256x512xf32>
  %1 = graph.exp %0 : (tensor<256x512xf32>) -> tensor<256x512xf32>
  func.return %1 : tensor<256x512xf32>
}

// -----

// Operands of a product pass L1 and L0, its sum stands in L0C, and 16 rows at a time pass UB: with
// 4 bytes from L0C, and with what the epilogue needs beside them.
// CHECK:      npu_task.kernel @linear_0 on cube tiling <[64, 96, 128] blocks 24 buffers 2>
// CHECK-SAME:   core <l1 [lhs 16384 at [49152, 65536], rhs 24576 at [0, 24576]],
// CHECK-SAME:   l0a [lhs 16384 at [0, 16384]], l0b [rhs 24576 at [0, 24576]], l0c [sum 24576 at [0]],
// CHECK-SAME:   ub [op0 6144 at [0, 6144], in2 192 at [24576, 24768], in3 3072 at [12288, 15360],
// CHECK-SAME:   op1 3072 at [24960] from 2 to 3, op2 3072 at [18432, 21504]]> {
func.func @main(%x: tensor<256x512xf16>, %w: tensor<512x1024xf16>, %b: tensor<1024xf16>, %r: tensor<256x1024xf16>) -> tensor<256x1024xf16> {
  %0 = graph.matmul %x, %w : (tensor<256x512xf16>, tensor<512x1024xf16>) -> tensor<256x1024xf16>
  %1 = graph.add %0, %b : (tensor<256x1024xf16>, tensor<1024xf16>) -> tensor<256x1024xf16>
  %2 = graph.add %1, %r : (tensor<256x1024xf16>, tensor<256x1024xf16>) -> tensor<256x1024xf16>
  func.return %2 : tensor<256x1024xf16>
}

// -----

// Attention: scores in L0C beside the sum, a block of them in UB, their weights back in L1.
// CHECK:      npu_task.kernel @flash_attention_0 on cube
// CHECK-SAME:   core <l1 [query 6144 at [0], key 2048 at [6144, 8192], value 2048 at [10240, 12288], weights 1536 at
// CHECK-SAME:   l0c [scores 3072 at [12288], sum 12288 at [0]],
// CHECK-SAME:   ub [scores 1024 at [8192, 9216], weights 1024 at [10240, 11264], statistics 384 at [12288], sum 4096 at [0, 4096]]> {
func.func @main(%q: tensor<1x8x256x64xf16>, %k: tensor<1x8x256x64xf16>, %v: tensor<1x8x256x64xf16>) -> tensor<1x8x256x64xf16> {
  %0 = graph.attention %q, %k, %v : tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16>, tensor<1x8x256x64xf16> -> tensor<1x8x256x64xf16>
  func.return %0 : tensor<1x8x256x64xf16>
}

// -----

// A split at the end is stored from its operand's tile, also where one half is dead.
// CHECK:      npu_task.kernel @region_0 on vector tiling <[160] blocks 1 buffers 1>
// CHECK-SAME:   core <ub [in0 640 at [0] from 0 to 1, in1 640 at [640] from 0 to 1,
// CHECK-SAME:   op0 640 at [1280] from 1 to 2, op1 640 at [0] from 2 to 4]> {
func.func @main(%x: tensor<5x8x4xf32>, %y: tensor<5x8x4xf32>) -> tensor<5x4x4xf32> {
  %0 = graph.add %x, %y : (tensor<5x8x4xf32>, tensor<5x8x4xf32>) -> tensor<5x8x4xf32>
  %1 = graph.exp %0 : (tensor<5x8x4xf32>) -> tensor<5x8x4xf32>
  %2, %3 = graph.split %1 axis 1 : tensor<5x8x4xf32> -> tensor<5x4x4xf32>, tensor<5x4x4xf32>
  func.return %3 : tensor<5x4x4xf32>
}

// -----

// The rows that a wide window reaches over do not fit: they pass one by one.
// CHECK:      npu_task.kernel @pool_0 on vector
// CHECK-SAME:   core <ub [in0 {{[0-9]+}} at [
func.func @main(%x: tensor<1x1x1000x1000xf32>) -> tensor<1x1x43x25xf32> {
  %0 = graph.pool "max" %x kernel [60, 80] strides [10, 10] pads [10, 20, 10, 20] dilations [10, 10] : (tensor<1x1x1000x1000xf32>) -> tensor<1x1x43x25xf32>
  func.return %0 : tensor<1x1x43x25xf32>
}

// -----

// Without a shape there are no tiles.
// CHECK: npu_task.kernel @exp_0 on vector {
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = graph.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}

// -----

// A tile that does not fit is made smaller until it does.
// CHECK:      npu_task.kernel @large on vector tiling <[7776] blocks 24 buffers 2>
// CHECK-SAME:   core <ub [in0 31104 at [0, 31104], in1 31104 at [62208, 93312], op0 31104 at [124416, 155520]]> {
npu_task.kernel @large on vector tiling <[24576] blocks 24 buffers 2> {
^bb0(%0: tensor<1024x1024xf32>, %1: tensor<1024x1024xf32>):
  %2 = graph.add %0, %1 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  npu_task.return %2 : tensor<1024x1024xf32>
}
func.func @main() {
  func.return
}

// -----

// Rows stay whole: seven of them do not fit, three do.
// CHECK:      npu_task.kernel @rows on vector
// CHECK-SAME:   core <ub [in0
npu_task.kernel @rows on vector tiling <[28000] blocks 24 buffers 2> {
^bb0(%0: tensor<512x4000xf32>):
  %1 = graph.softmax %0 {axis = 1 : i64} : (tensor<512x4000xf32>) -> tensor<512x4000xf32>
  npu_task.return %1 : tensor<512x4000xf32>
}
func.func @main() {
  func.return
}

// -----

// A tile program says itself what lies where: the kernel keeps its tiling, and has no plan.
// CHECK:      npu_task.kernel @rows on vector tiling <[28000] blocks 24 buffers 2> tiles @rows_tiles {
npu_task.kernel @rows on vector tiling <[28000] blocks 24 buffers 2> tiles @rows_tiles {
^bb0(%0: tensor<512x4000xf32>):
  %1 = graph.softmax %0 {axis = 1 : i64} : (tensor<512x4000xf32>) -> tensor<512x4000xf32>
  npu_task.return %1 : tensor<512x4000xf32>
}
func.func @main() {
  func.return
}
