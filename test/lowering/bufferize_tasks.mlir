// RUN: ge-opt %s --split-input-file -p lower-to-tasks,bufferize-tasks | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,verify-level{level=buffers}' | filecheck %s

// Arguments come to the device, results go to the host; what holds them there is marked.
func.func @main(%x: tensor<8x64xf32> {graph.name = "x"}) -> (tensor<8x64xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %1 : tensor<8x64xf32>
}
// CHECK:       func.func @main(%x: memref<8x64xf32, "host"> {graph.name = "x"}) -> (memref<8x64xf32, "host"> {graph.name = "y"})
// CHECK-NEXT:    %0 = memref.alloc() {npu_task.io} : memref<8x64xf32, "hbm">
// CHECK-NEXT:    npu_task.copy %x to %0 : memref<8x64xf32, "host"> to memref<8x64xf32, "hbm">
// CHECK-NEXT:    %w = npu_task.constant #graph.weight<"w"> as memref<64x64xf32, "hbm">
// CHECK-NEXT:    %1 = memref.alloc() : memref<8x64xf32, "hbm">
// CHECK-NEXT:    npu_task.launch @matmul_0 ins(%0, %w : memref<8x64xf32, "hbm">, memref<64x64xf32, "hbm">) outs(%1 : memref<8x64xf32, "hbm">){{$}}
// CHECK-NEXT:    %2 = memref.alloc() {npu_task.io} : memref<8x64xf32, "hbm">
// CHECK-NEXT:    npu_task.launch @relu_0 ins(%1 : memref<8x64xf32, "hbm">) outs(%2 : memref<8x64xf32, "hbm">){{$}}
// CHECK-NEXT:    %3 = memref.alloc() : memref<8x64xf32, "host">
// CHECK-NEXT:    npu_task.copy %2 to %3 : memref<8x64xf32, "hbm"> to memref<8x64xf32, "host">
// CHECK-NEXT:    func.return %3 : memref<8x64xf32, "host">

// -----

// An argument that is returned, a constant that is returned, a result that is returned twice.
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x, %c, %0, %0 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK:       func.func @main(%x:
// CHECK-NEXT:    %0 = memref.alloc() {npu_task.io}
// CHECK-NEXT:    npu_task.copy %x to %0 :
// CHECK-NEXT:    %c = npu_task.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> as memref<2xf32, "hbm">
// CHECK-NEXT:    %1 = memref.alloc() {npu_task.io}
// CHECK-NEXT:    npu_task.launch @neg_0 ins(%0 : {{.*}}) outs(%1 :
// CHECK-NEXT:    %2 = memref.alloc() :
// CHECK-NEXT:    npu_task.copy %0 to %2 :
// CHECK-NEXT:    %3 = memref.alloc() :
// CHECK-NEXT:    npu_task.copy %c to %3 :
// CHECK-NEXT:    %4 = memref.alloc() :
// CHECK-NEXT:    npu_task.copy %1 to %4 :
// CHECK-NEXT:    %5 = memref.alloc() :
// CHECK-NEXT:    npu_task.copy %1 to %5 :
// CHECK-NEXT:    func.return %2, %3, %4, %5 :

// -----

// A view of a view looks at the buffer itself; one that only views use is gone; the whole of a
// buffer under another shape is an output, a part of it is not.
func.func @main(%x: tensor<4x6xf32>) -> (tensor<24xf32>, tensor<2x3xf32>, tensor<2x6xf32>) {
  %0 = graph.neg %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.reshape %0 shape [24] : (tensor<4x6xf32>) -> tensor<24xf32>
  %2 = graph.slice %1 starts [6] ends [18] axes [0] : (tensor<24xf32>) -> tensor<12xf32>
  %3, %4 = graph.split %2 axis 0 : (tensor<12xf32>) -> (tensor<6xf32>, tensor<6xf32>)
  %5 = graph.reshape %4 shape [2, 3] : (tensor<6xf32>) -> tensor<2x3xf32>
  %6 = graph.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %7 = graph.slice %6 starts [0] ends [2] axes [0] : (tensor<4x6xf32>) -> tensor<2x6xf32>
  func.return %1, %5, %7 : tensor<24xf32>, tensor<2x3xf32>, tensor<2x6xf32>
}
// CHECK:         %1 = memref.alloc() {npu_task.io} : memref<4x6xf32, "hbm">
// CHECK-NEXT:    npu_task.launch @neg_0 ins
// CHECK-NEXT:    %2 = memref.reinterpret_cast %1 to offset: [0], sizes: [24], strides: [1] : memref<4x6xf32, "hbm"> to memref<24xf32, "hbm">
// CHECK-NEXT:    %3 = memref.reinterpret_cast %1 to offset: [12], sizes: [2, 3], strides: [3, 1] : memref<4x6xf32, "hbm"> to memref<2x3xf32, strided<[3, 1], offset: 12>, "hbm">
// CHECK-NEXT:    %4 = memref.alloc() : memref<4x6xf32, "hbm">
// CHECK-NEXT:    npu_task.launch @exp_0 ins
// CHECK-NEXT:    %5 = memref.reinterpret_cast %4 to offset: [0], sizes: [2, 6], strides: [6, 1] : memref<4x6xf32, "hbm"> to memref<2x6xf32, "hbm">

// -----

// A reshape to the same shape is the same buffer; empty buffers have strides of their own.
func.func @main(%x: tensor<2x3xf32>, %e: tensor<0x3xf32>) -> (tensor<2x3xf32>, tensor<3x0xf32>) {
  %0 = graph.reshape %x shape [2, 3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.neg %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.reshape %e shape [3, 0] allow_zero true : (tensor<0x3xf32>) -> tensor<3x0xf32>
  func.return %1, %2 : tensor<2x3xf32>, tensor<3x0xf32>
}
// CHECK:         npu_task.copy %x to %0 :
// CHECK:         npu_task.launch @neg_0 ins(%0 :
// CHECK:         memref.reinterpret_cast %1 to offset: [0], sizes: [3, 0], strides: [1, 1] : memref<0x3xf32, "hbm"> to memref<3x0xf32, strided<[1, 1]>, "hbm">

// -----

// A launch with several results; one of them is never used.
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x2xf32> {
  %0, %1, %2 = graph.split %x axis 1 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
  %3 = graph.add %0, %2 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %3 : tensor<4x2xf32>
}
// CHECK:         npu_task.launch @split_0 ins(%0 : {{.*}}) outs(%1, %2, %3 :
// CHECK:         npu_task.launch @add_0 ins(%1, %3 :
