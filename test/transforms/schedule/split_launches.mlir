// RUN: ge-opt %s --split-input-file -p 'split-launches{pieces=2}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'split-launches{pieces=2},assign-streams,plan-memory,verify-schedule,verify-plan' | filecheck %s --check-prefix=PROGRAM
// RUN: ge-opt %s --split-input-file -p split-launches | filecheck %s --check-prefix=SMALL

// Rows of the product and of the softmax are independent: both come apart. The product's buffer is
// only between them, so each piece has its own; the weight is read whole. (By the clock such small
// launches stay as they are.)
npu_task.kernel @matmul_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
^bb0(%0: tensor<1x8x16xf32>, %1: tensor<16x4xf32>):
  %2 = graph.matmul %0, %1 : (tensor<1x8x16xf32>, tensor<16x4xf32>) -> tensor<1x8x4xf32>
  npu_task.return %2 : tensor<1x8x4xf32>
}
npu_task.kernel @softmax_0 on vector tiling <[32] blocks 1 buffers 1> {
^bb0(%0: tensor<8x4xf32>):
  %1 = graph.softmax %0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  npu_task.return %1 : tensor<8x4xf32>
}
func.func @main(%x: memref<1x8x16xf32, "hbm">) {
  %w = npu_task.constant #graph.weight<"w"> as memref<16x4xf32, "hbm">
  %a = memref.alloc() : memref<1x8x4xf32, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<8x4xf32, "hbm">
  npu_task.launch @matmul_0 ins(%x, %w : memref<1x8x16xf32, "hbm">, memref<16x4xf32, "hbm">) outs(%a : memref<1x8x4xf32, "hbm">)
  %v = memref.reinterpret_cast %a to offset: [0], sizes: [8, 4], strides: [4, 1] : memref<1x8x4xf32, "hbm"> to memref<8x4xf32, "hbm">
  npu_task.launch @softmax_0 ins(%v : memref<8x4xf32, "hbm">) outs(%b : memref<8x4xf32, "hbm">)
  func.return
}
// CHECK:       npu_task.kernel @matmul_0_of_2 on cube
// CHECK-NEXT:  ^bb0(%{{.*}}: tensor<1x4x16xf32>, %{{.*}}: tensor<16x4xf32>):
// CHECK:       npu_task.kernel @softmax_0_of_2 on vector
// CHECK-NEXT:  ^bb0(%{{.*}}: tensor<4x4xf32>):
// CHECK:       func.func @main(
// CHECK-NOT:     memref.alloc() : memref<1x8x4xf32
// CHECK:         %[[A0:.*]] = memref.alloc() : memref<1x4x4xf32,
// CHECK-NEXT:    %[[X0:.*]] = memref.reinterpret_cast %x to offset: [0], sizes: [1, 4, 16], strides: [64, 16, 1]
// CHECK-NEXT:    npu_task.launch @matmul_0_of_2 ins(%[[X0]], %w {{.*}} outs(%[[A0]] :
// CHECK-NEXT:    %[[A1:.*]] = memref.alloc() : memref<1x4x4xf32,
// CHECK-NEXT:    %[[X1:.*]] = memref.reinterpret_cast %x to offset: [64], sizes: [1, 4, 16], strides: [64, 16, 1]
// CHECK-NEXT:    npu_task.launch @matmul_0_of_2 ins(%[[X1]], %w {{.*}} outs(%[[A1]] :
// CHECK-NEXT:    %[[V0:.*]] = memref.reinterpret_cast %[[A0]] to offset: [0], sizes: [4, 4], strides: [4, 1]
// CHECK-NEXT:    %[[B0:.*]] = memref.reinterpret_cast %b to offset: [0], sizes: [4, 4], strides: [4, 1]
// CHECK-NEXT:    npu_task.launch @softmax_0_of_2 ins(%[[V0]] {{.*}} outs(%[[B0]] :
// CHECK-NEXT:    %[[V1:.*]] = memref.reinterpret_cast %[[A1]] to
// CHECK-NEXT:    %[[B1:.*]] = memref.reinterpret_cast %b to offset: [16], sizes: [4, 4], strides: [4, 1]
// CHECK-NEXT:    npu_task.launch @softmax_0_of_2 ins(%[[V1]] {{.*}} outs(%[[B1]] :
// CHECK-NEXT:    func.return
// PROGRAM-COUNT-2: npu_task.launch @softmax_0_of_2 on
// SMALL:       npu_task.launch @matmul_0 ins
// SMALL-NEXT:  memref.reinterpret_cast
// SMALL:       npu_task.launch @softmax_0 ins

// -----

// Columns of the softmax depend on all rows: it stays, and so does the product alone.
npu_task.kernel @matmul_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
^bb0(%0: tensor<8x16xf32>, %1: tensor<16x4xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  npu_task.return %2 : tensor<8x4xf32>
}
npu_task.kernel @softmax_0 on vector tiling <[32] blocks 1 buffers 1> {
^bb0(%0: tensor<8x4xf32>):
  %1 = graph.softmax %0 axis 0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  npu_task.return %1 : tensor<8x4xf32>
}
func.func @main(%x: memref<8x16xf32, "hbm">) {
  %w = npu_task.constant #graph.weight<"w"> as memref<16x4xf32, "hbm">
  %a = memref.alloc() : memref<8x4xf32, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<8x4xf32, "hbm">
  npu_task.launch @matmul_0 ins(%x, %w : memref<8x16xf32, "hbm">, memref<16x4xf32, "hbm">) outs(%a : memref<8x4xf32, "hbm">)
  npu_task.launch @softmax_0 ins(%a : memref<8x4xf32, "hbm">) outs(%b : memref<8x4xf32, "hbm">)
  func.return
}
// CHECK:       func.func @main(
// CHECK:         npu_task.launch @matmul_0 ins
// CHECK-NEXT:    npu_task.launch @softmax_0 ins

// -----

// The second product needs all rows of what the first one makes: no group; the first product's
// result, which the third launch reads row by row, is used elsewhere too: it keeps its buffer.
npu_task.kernel @matmul_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
^bb0(%0: tensor<8x8xf32>, %1: tensor<8x8xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  npu_task.return %2 : tensor<8x8xf32>
}
npu_task.kernel @neg_0 on vector tiling <[32] blocks 1 buffers 1> {
^bb0(%0: tensor<8x8xf32>):
  %1 = graph.neg %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  npu_task.return %1 : tensor<8x8xf32>
}
func.func @main(%x: memref<8x8xf32, "hbm">) {
  %a = memref.alloc() : memref<8x8xf32, "hbm">
  %b = memref.alloc() : memref<8x8xf32, "hbm">
  %c = memref.alloc() : memref<8x8xf32, "hbm">
  npu_task.launch @neg_0 ins(%x : memref<8x8xf32, "hbm">) outs(%a : memref<8x8xf32, "hbm">)
  npu_task.launch @neg_0 ins(%a : memref<8x8xf32, "hbm">) outs(%b : memref<8x8xf32, "hbm">)
  npu_task.launch @matmul_0 ins(%x, %a : memref<8x8xf32, "hbm">, memref<8x8xf32, "hbm">) outs(%c : memref<8x8xf32, "hbm">)
  func.return
}
// CHECK:       func.func @main(
// CHECK:         %a = memref.alloc() : memref<8x8xf32,
// CHECK:         npu_task.launch @neg_0_of_2 ins
// CHECK:         npu_task.launch @neg_0_of_2 ins
// CHECK:         npu_task.launch @neg_0_of_2 ins
// CHECK:         npu_task.launch @neg_0_of_2 ins
// CHECK-NEXT:    npu_task.launch @matmul_0 ins(%x, %a :

// -----

// Pieces of packed elements are whole bytes: halves of 8 x 5 elements are, ...
npu_task.kernel @matmul_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
^bb0(%0: tensor<8x16xf32>, %1: tensor<16x5xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x16xf32>, tensor<16x5xf32>) -> tensor<8x5xf32>
  npu_task.return %2 : tensor<8x5xf32>
}
npu_task.kernel @cast_0 on vector tiling <[32] blocks 1 buffers 1> {
^bb0(%0: tensor<8x5xf32>):
  %1 = graph.cast %0 to i4 : (tensor<8x5xf32>) -> tensor<8x5xi4>
  npu_task.return %1 : tensor<8x5xi4>
}
func.func @main(%x: memref<8x16xf32, "hbm">) {
  %w = npu_task.constant #graph.weight<"w"> as memref<16x5xf32, "hbm">
  %a = memref.alloc() : memref<8x5xf32, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<8x5xi4, "hbm">
  npu_task.launch @matmul_0 ins(%x, %w : memref<8x16xf32, "hbm">, memref<16x5xf32, "hbm">) outs(%a : memref<8x5xf32, "hbm">)
  npu_task.launch @cast_0 ins(%a : memref<8x5xf32, "hbm">) outs(%b : memref<8x5xi4, "hbm">)
  func.return
}
// CHECK:       npu_task.launch @cast_0_of_2 {{.*}} outs(%{{.*}} : memref<4x5xi4,
// CHECK:       memref.reinterpret_cast %b to offset: [20], sizes: [4, 5], strides: [5, 1] : memref<8x5xi4,

// -----

// ... and those of 6 x 5 are not.
npu_task.kernel @matmul_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
^bb0(%0: tensor<6x16xf32>, %1: tensor<16x5xf32>):
  %2 = graph.matmul %0, %1 : (tensor<6x16xf32>, tensor<16x5xf32>) -> tensor<6x5xf32>
  npu_task.return %2 : tensor<6x5xf32>
}
npu_task.kernel @cast_0 on vector tiling <[32] blocks 1 buffers 1> {
^bb0(%0: tensor<6x5xf32>):
  %1 = graph.cast %0 to i4 : (tensor<6x5xf32>) -> tensor<6x5xi4>
  npu_task.return %1 : tensor<6x5xi4>
}
func.func @main(%x: memref<6x16xf32, "hbm">) {
  %w = npu_task.constant #graph.weight<"w"> as memref<16x5xf32, "hbm">
  %a = memref.alloc() : memref<6x5xf32, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<6x5xi4, "hbm">
  npu_task.launch @matmul_0 ins(%x, %w : memref<6x16xf32, "hbm">, memref<16x5xf32, "hbm">) outs(%a : memref<6x5xf32, "hbm">)
  npu_task.launch @cast_0 ins(%a : memref<6x5xf32, "hbm">) outs(%b : memref<6x5xi4, "hbm">)
  func.return
}
// CHECK:       func.func @main(
// CHECK-NOT:   _of_2
// CHECK:       func.return
