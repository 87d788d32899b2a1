// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,write-parts,verify-level{level=buffers}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,write-parts,overwrite-operands,assign-streams,plan-memory,verify-level{level=program},verify-plan'

// Two launches write into their parts, whose rows lie apart; another one reads such a part. The
// kernel of the concatenation is gone.
func.func @main(%a: tensor<2x3x16xf32>, %b: tensor<2x5x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x3x16xf32>) {
  %0 = graph.exp %a : (tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
  %1 = graph.tanh %b : (tensor<2x5x16xf32>) -> tensor<2x5x16xf32>
  %2 = graph.concat %0, %1 axis 1 : (tensor<2x3x16xf32>, tensor<2x5x16xf32>) -> tensor<2x8x16xf32>
  %3 = graph.neg %0 : (tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
  func.return %2, %3 : tensor<2x8x16xf32>, tensor<2x3x16xf32>
}
// CHECK-NOT:   @concat_0
// CHECK:       [[J:%.*]] = memref.alloc() {npu_task.io} : memref<2x8x16xf32,
// CHECK-DAG:   [[A:%.*]] = memref.reinterpret_cast [[J]] to offset: [0], sizes: [2, 3, 16], strides: [128, 16, 1]
// CHECK-DAG:   [[B:%.*]] = memref.reinterpret_cast [[J]] to offset: [48], sizes: [2, 5, 16], strides: [128, 16, 1]
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[A]] :
// CHECK-NEXT:  npu_task.launch @tanh_0 ins({{.*}}) outs([[B]] :
// CHECK:       npu_task.launch @neg_0 ins([[A]] :

// -----

// A cache: the past goes from the host right into the output; what is appended too, through a view.
func.func @main(%past: tensor<1x4x7x16xf32>, %x: tensor<1x4x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = graph.exp %x : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %1 = graph.reshape %0 shape [1, 4, 1, 16] : (tensor<1x4x16xf32>) -> tensor<1x4x1x16xf32>
  %2 = graph.concat %past, %1 axis 2 : (tensor<1x4x7x16xf32>, tensor<1x4x1x16xf32>) -> tensor<1x4x8x16xf32>
  func.return %2 : tensor<1x4x8x16xf32>
}
// CHECK:       [[J:%.*]] = memref.alloc() {npu_task.io} : memref<1x4x8x16xf32,
// CHECK:       [[P:%.*]] = memref.reinterpret_cast [[J]] to offset: [0], sizes: [1, 4, 7, 16], strides: [512, 128, 16, 1]
// CHECK:       npu_task.copy %past to [[P]] :
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs({{%.*}} : memref<1x4x16xf32, strided<[512, 128, 1], offset: 112>
// CHECK-NOT:   npu_task.launch
// CHECK:       func.return

// -----

// The launch stays where more would be copied (the input of the model, the second use of an operand)
// than written in place.
func.func @main(%a: tensor<2x4x16xf32>, %b: tensor<2x8x16xf32>) -> tensor<2x20x16xf32> {
  %0 = graph.exp %b : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %1 = graph.concat %a, %0, %0 axis 1 : (tensor<2x4x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x20x16xf32>
  %2 = graph.transpose %1 permutation [0, 1, 2] : (tensor<2x20x16xf32>) -> tensor<2x20x16xf32>
  func.return %2 : tensor<2x20x16xf32>
}
// CHECK:       npu_task.launch @concat_0 ins

// -----

// An input of the model is copied into its part of a buffer of the arena.
func.func @main(%a: tensor<2x4x16xf32>, %b: tensor<2x8x16xf32>) -> tensor<2x12x16xf32> {
  %0 = graph.exp %b : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %1 = graph.concat %a, %0 axis 1 : (tensor<2x4x16xf32>, tensor<2x8x16xf32>) -> tensor<2x12x16xf32>
  %2 = graph.softmax %1 : (tensor<2x12x16xf32>) -> tensor<2x12x16xf32>
  func.return %2 : tensor<2x12x16xf32>
}
// CHECK:       npu_task.copy %a to [[X:%[0-9]*]]
// CHECK:       [[J:%.*]] = memref.alloc() : memref<2x12x16xf32,
// CHECK:       [[B:%.*]] = memref.reinterpret_cast [[J]] to offset: [64], sizes: [2, 8, 16]
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[B]] :
// CHECK:       [[A:%.*]] = memref.reinterpret_cast [[J]] to offset: [0], sizes: [2, 4, 16]
// CHECK-NEXT:  npu_task.copy [[X]] to [[A]] :
// CHECK:       npu_task.launch @softmax_0 ins([[J]] :

// -----

// A concatenation of concatenations: parts of parts.
func.func @main(%a: tensor<2x8xf32>, %b: tensor<2x8xf32>, %c: tensor<2x16xf32>) -> tensor<2x32xf32> {
  %0 = graph.exp %a : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.tanh %b : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = graph.concat %0, %1 axis 1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
  %3 = graph.neg %c : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %4 = graph.concat %3, %2 axis 1 : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x32xf32>
  func.return %4 : tensor<2x32xf32>
}
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs({{%.*}} : memref<2x8xf32, strided<[32, 1], offset: 16>
// CHECK:       npu_task.launch @tanh_0 ins({{.*}}) outs({{%.*}} : memref<2x8xf32, strided<[32, 1], offset: 24>
// CHECK:       npu_task.launch @neg_0 ins({{.*}}) outs({{%.*}} : memref<2x16xf32, strided<[32, 1]>
// CHECK-NOT:   npu_task.launch
// CHECK:       func.return

// -----

// The launch stays where parts are of 8 bytes. An operand that is read under a shape whose rows
// would cross from stretch to stretch is copied.
func.func @main(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %d: tensor<2x24xf32>) -> (tensor<4x4xf32>, tensor<2x48xf32>, tensor<3x16xf32>) {
  %0 = graph.exp %a : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = graph.tanh %b : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = graph.concat %0, %1 axis 1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %3 = graph.exp %d : (tensor<2x24xf32>) -> tensor<2x24xf32>
  %4 = graph.reshape %3 shape [3, 16] : (tensor<2x24xf32>) -> tensor<3x16xf32>
  %5 = graph.neg %4 : (tensor<3x16xf32>) -> tensor<3x16xf32>
  %6 = graph.concat %3, %d axis 1 : (tensor<2x24xf32>, tensor<2x24xf32>) -> tensor<2x48xf32>
  func.return %2, %6, %5 : tensor<4x4xf32>, tensor<2x48xf32>, tensor<3x16xf32>
}
// CHECK:       npu_task.copy %d to {{%.*}} : {{.*}} to memref<2x24xf32, strided<[48, 1], offset: 24>
// CHECK:       npu_task.launch @concat_0 ins
// CHECK:       npu_task.launch @neg_0 ins
// CHECK-NEXT:  memref.reinterpret_cast
// CHECK-NEXT:  npu_task.copy {{%.*}} to {{%.*}} : {{.*}} to memref<2x24xf32, strided<[48, 1]>
// CHECK-NOT:   npu_task.launch
// CHECK:       func.return

// -----

// A cache of 4 bits: rows of 64 elements are 32 bytes, which the device writes where they belong.
func.func @main(%past: tensor<1x4x7x64xi4>, %x: tensor<1x4x1x64xf32>) -> tensor<1x4x8x64xi4> {
  %0 = graph.cast %x to i4 : (tensor<1x4x1x64xf32>) -> tensor<1x4x1x64xi4>
  %1 = graph.concat %past, %0 axis 2 : (tensor<1x4x7x64xi4>, tensor<1x4x1x64xi4>) -> tensor<1x4x8x64xi4>
  func.return %1 : tensor<1x4x8x64xi4>
}
// CHECK:       [[J:%.*]] = memref.alloc() {npu_task.io} : memref<1x4x8x64xi4,
// CHECK-DAG:   [[P:%.*]] = memref.reinterpret_cast [[J]] to offset: [0], sizes: [1, 4, 7, 64], strides: [2048, 512, 64, 1]
// CHECK-DAG:   [[B:%.*]] = memref.reinterpret_cast [[J]] to offset: [448], sizes: [1, 4, 1, 64], strides: [2048, 512, 512, 1]
// CHECK:       npu_task.copy %past to [[P]] :
// CHECK:       npu_task.launch @cast_0 ins({{.*}}) outs([[B]] :
// CHECK-NOT:   npu_task.launch
// CHECK:       func.return

// -----

// Runs of 3 x 65 packed elements end inside of a byte.
func.func @main(%a: tensor<2x3x65xf32>, %b: tensor<2x5x65xf32>) -> tensor<2x8x65xi4> {
  %0 = graph.cast %a to i4 : (tensor<2x3x65xf32>) -> tensor<2x3x65xi4>
  %1 = graph.cast %b to i4 : (tensor<2x5x65xf32>) -> tensor<2x5x65xi4>
  %2 = graph.concat %0, %1 axis 1 : (tensor<2x3x65xi4>, tensor<2x5x65xi4>) -> tensor<2x8x65xi4>
  func.return %2 : tensor<2x8x65xi4>
}
// CHECK:       npu_task.launch @concat_0 ins

// -----

// All four are live before the concatenation, and with it as parts of it: the peak stays.
func.func @main(%x: tensor<2x16xf32>) -> tensor<2x64xf32> {
  %a = graph.exp %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %b = graph.tanh %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = graph.neg %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %d = graph.sin %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %e = graph.concat %a, %b, %c, %d axis 1 : (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x64xf32>
  %f = graph.softmax %e : (tensor<2x64xf32>) -> tensor<2x64xf32>
  func.return %f : tensor<2x64xf32>
}
// CHECK:         [[E:%.*]] = memref.alloc() : memref<2x64xf32,
// CHECK-COUNT-4: memref.reinterpret_cast [[E]] to
// CHECK-NOT:     @concat_0
// CHECK:         npu_task.launch @softmax_0 ins
