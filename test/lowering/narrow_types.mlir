// Elements of less than a byte are packed: a slice that begins inside of a byte is copied, others
// are views; buffers have the bytes of packed elements. All levels give the same elements.
// RUN: ge-compile %s -o - --until buffers | filecheck %s --check-prefix=BUFFERS
// RUN: ge-opt %s -p 'lower-to-tasks,bufferize-tasks,assign-streams,plan-memory{alignment=1},verify-plan' | filecheck %s --check-prefix=PROGRAM
// RUN: ge-run %s | filecheck %s
// RUN: ge-run %s --level fused | filecheck %s
// RUN: ge-run %s --level tasks | filecheck %s
// RUN: ge-run %s --level buffers | filecheck %s
// RUN: ge-run %s --sanitize --fuzz-schedule 5 | filecheck %s

// CHECK:      even: int4[2, 6] = 1 1 1 1 1 1 1 -2 7 -8 0 1{{$}}
// CHECK-NEXT: odd: int4[3] = 0 0 1{{$}}
// CHECK-NEXT: z: float8_e4m3fn[5, 3] min -8, max 7,

// BUFFERS:      npu_task.launch @concat_0 {{.*}} outs(%1 : memref<4x6xi4,
// BUFFERS-NEXT: %2 = memref.reinterpret_cast %1 to offset: [12], sizes: [2, 6], strides: [6, 1] : memref<4x6xi4,
// BUFFERS-NEXT: %3 = memref.reinterpret_cast %1 to offset: [0], sizes: [24], strides: [1] :
// BUFFERS:      npu_task.launch @slice_0 ins(%3 : memref<24xi4, {{.*}} outs(%4 : memref<3xi4,
// BUFFERS:      npu_task.launch @slice_1 ins(%3 : memref<24xi4, {{.*}} outs(%5 : memref<15xi4,

// PROGRAM:      npu_task.arena_bytes = 68 : i64, {{.*}} npu_task.io_bytes = 26 : i64,
// PROGRAM:      npu_task.slot io 0 : memref<3x6xi4,
// PROGRAM:      npu_task.slot arena 0 : memref<4x6xi4,
// PROGRAM:      npu_task.slot arena 60 : memref<15xi4,
// PROGRAM:      npu_task.slot io 9 : memref<3xi4,
// PROGRAM:      npu_task.slot arena 0 : memref<15xf32,
// PROGRAM:      npu_task.slot io 11 : memref<15xf8E4M3FN,
func.func @main(%x: tensor<3x6xi4> {graph.name = "x"}) -> (tensor<2x6xi4> {graph.name = "even"}, tensor<3xi4> {graph.name = "odd"}, tensor<5x3xf8E4M3FN> {graph.name = "z"}) {
  %0 = graph.constant dense<[[1, -2, 7, -8, 0, 1]]> : tensor<1x6xi4>
  %1 = graph.concat %x, %0 axis 0 : (tensor<3x6xi4>, tensor<1x6xi4>) -> tensor<4x6xi4>
  %2 = graph.slice %1 starts [2] ends [4] axes [0] : (tensor<4x6xi4>) -> tensor<2x6xi4>
  %3 = graph.reshape %1 shape [24] : (tensor<4x6xi4>) -> tensor<24xi4>
  %4 = graph.slice %3 starts [7] ends [10] axes [0] : (tensor<24xi4>) -> tensor<3xi4>
  %5 = graph.slice %3 starts [9] ends [24] axes [0] : (tensor<24xi4>) -> tensor<15xi4>
  %6 = graph.cast %5 to f32 : (tensor<15xi4>) -> tensor<15xf32>
  %7 = graph.cast %6 to f8E4M3FN saturate true : (tensor<15xf32>) -> tensor<15xf8E4M3FN>
  %8 = graph.reshape %7 shape [5, 3] : (tensor<15xf8E4M3FN>) -> tensor<5x3xf8E4M3FN>
  func.return %2, %4, %8 : tensor<2x6xi4>, tensor<3xi4>, tensor<5x3xf8E4M3FN>
}
