// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,read-parts,verify-level{level=buffers}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,read-parts,overwrite-operands,assign-streams,plan-memory,verify-level{level=program},verify-plan'

// The first token of each row, read where it lies, through a view. The kernel of the slice is gone.
func.func @main(%a: tensor<4x8x16xf32>, %w: tensor<16x16xf32>) -> (tensor<4x8x16xf32>, tensor<4x16xf32>) {
  %0 = graph.exp %a : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %1 = graph.slice %0 starts [2] ends [3] axes [1] : (tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
  %2 = graph.reshape %1 shape [4, 16] : (tensor<4x1x16xf32>) -> tensor<4x16xf32>
  %3 = graph.matmul %2, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  func.return %0, %3 : tensor<4x8x16xf32>, tensor<4x16xf32>
}
// CHECK-NOT:   @slice_0
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[X:%[0-9]*]] :
// CHECK:       [[P:%.*]] = memref.reinterpret_cast [[X]] to offset: [32], sizes: [4, 16], strides: [128, 1]
// CHECK:       npu_task.launch @matmul_0 ins([[P]], {{.*}} : memref<4x16xf32, strided<[128, 1], offset: 32>

// -----

// A slice of an input of the model, and of that one of columns of 32 bytes, which is launched: it is
// no whole buffer that it would be a part of. Rows side by side are a view anyway.
func.func @main(%a: tensor<4x8x16xf32>) -> tensor<2x4x8xf32> {
  %0 = graph.slice %a starts [2] ends [6] axes [1] : (tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
  %1 = graph.slice %0 starts [8] ends [16] axes [2] : (tensor<4x4x16xf32>) -> tensor<4x4x8xf32>
  %2 = graph.neg %1 : (tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %3 = graph.slice %2 starts [0] ends [2] axes [0] : (tensor<4x4x8xf32>) -> tensor<2x4x8xf32>
  %4 = graph.exp %3 : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %4 : tensor<2x4x8xf32>
}
// CHECK:       npu_task.launch @slice_1 ins({{.*}}memref<4x4x16xf32, strided<[128, 16, 1], offset: 32>
// CHECK:       npu_task.launch @neg_0 ins

// -----

// Not where rows would be of 16 bytes, in steps, along two dimensions, or of an output of the model.
func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8x16xf32>) -> (tensor<4x4xf32>, tensor<4x2x16xf32>, tensor<2x4x16xf32>, tensor<4x1x16xf32>) {
  %0 = graph.slice %a starts [0] ends [4] axes [1] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %1 = graph.exp %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.slice %b starts [0] ends [4] axes [1] steps [2] : (tensor<4x8x16xf32>) -> tensor<4x2x16xf32>
  %3 = graph.exp %2 : (tensor<4x2x16xf32>) -> tensor<4x2x16xf32>
  %4 = graph.slice %b starts [0, 1] ends [2, 5] axes [0, 1] : (tensor<4x8x16xf32>) -> tensor<2x4x16xf32>
  %5 = graph.exp %4 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %6 = graph.slice %b starts [7] ends [8] axes [1] : (tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
  func.return %1, %3, %5, %6 : tensor<4x4xf32>, tensor<4x2x16xf32>, tensor<2x4x16xf32>, tensor<4x1x16xf32>
}
// CHECK:       npu_task.launch @slice_0 ins
// CHECK:       npu_task.launch @slice_1 ins
// CHECK:       npu_task.launch @slice_2 ins
// CHECK:       npu_task.launch @slice_3 ins

// -----

// Not where the whole would live longer than there is room for.
func.func @main(%a: tensor<8x8x64xf32>, %b: tensor<8x8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x8x64xf32>, tensor<8x1x64xf32>) {
  %0 = graph.exp %a : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %1 = graph.slice %0 starts [0] ends [1] axes [1] : (tensor<8x8x64xf32>) -> tensor<8x1x64xf32>
  %2 = graph.neg %b : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %3 = graph.tanh %2 : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %4 = graph.add %2, %3 : (tensor<8x8x64xf32>, tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %5 = graph.matmul %1, %w : (tensor<8x1x64xf32>, tensor<64x64xf32>) -> tensor<8x1x64xf32>
  func.return %4, %5 : tensor<8x8x64xf32>, tensor<8x1x64xf32>
}
// CHECK:       npu_task.launch @slice_0 ins

// -----

// There is room where it is read before the others are there.
func.func @main(%a: tensor<8x8x64xf32>, %b: tensor<8x8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x8x64xf32>, tensor<8x1x64xf32>) {
  %0 = graph.exp %a : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %1 = graph.slice %0 starts [0] ends [1] axes [1] : (tensor<8x8x64xf32>) -> tensor<8x1x64xf32>
  %5 = graph.matmul %1, %w : (tensor<8x1x64xf32>, tensor<64x64xf32>) -> tensor<8x1x64xf32>
  %2 = graph.neg %b : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %3 = graph.tanh %2 : (tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  %4 = graph.add %2, %3 : (tensor<8x8x64xf32>, tensor<8x8x64xf32>) -> tensor<8x8x64xf32>
  func.return %4, %5 : tensor<8x8x64xf32>, tensor<8x1x64xf32>
}
// CHECK-NOT:   @slice_0
// CHECK:       npu_task.launch @matmul_0 ins({{%[0-9]*}}, {{.*}} : memref<8x1x64xf32, strided<[512, 512, 1]>
