// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks{target=910_merged},verify-level{level=tasks}' | filecheck %s

// Equal ops share a kernel, the weight is one constant, small constants become immediates, a value
// that is used twice comes in once.
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %v = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %c = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = graph.mul %0, %c : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %2 = graph.matmul %1, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %3 = graph.mul %2, %c : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %4 = graph.add %3, %3 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %4 : tensor<8x64xf32>
}
// CHECK:       npu_task.kernel @matmul_0 on cube {
// CHECK-NEXT:  ^bb0(%0: tensor<8x64xf32>, %1: tensor<64x64xf32>):
// CHECK-NEXT:    %2 = graph.matmul %0, %1 :
// CHECK-NEXT:    npu_task.return %2 : tensor<8x64xf32>
// CHECK:       npu_task.kernel @mul_0 on vector {
// CHECK-NEXT:  ^bb0(%0: tensor<8x64xf32>):
// CHECK-NEXT:    %1 = graph.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:    %2 = graph.mul %0, %1 :
// CHECK-NEXT:    npu_task.return %2 : tensor<8x64xf32>
// CHECK:       npu_task.kernel @add_0 on vector
// CHECK-NEXT:  ^bb0(%0: tensor<8x64xf32>):
// CHECK-NEXT:    graph.add %0, %0 :
// CHECK-NOT:   npu_task.kernel
// CHECK:       func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {npu_task.target = "910_merged"} {
// CHECK-NEXT:    %w = npu_task.constant #graph.weight<"w"> as tensor<64x64xf32>
// CHECK-NEXT:    %0 = tensor.empty() : tensor<8x64xf32>
// CHECK-NEXT:    %1 = npu_task.launch @matmul_0 ins(%x, %w : tensor<8x64xf32>, tensor<64x64xf32>) outs(%0 : tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT:    %2 = tensor.empty() : tensor<8x64xf32>
// CHECK-NEXT:    %3 = npu_task.launch @mul_0 ins(%1 : tensor<8x64xf32>) outs(%2 : tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT:    %4 = tensor.empty() : tensor<8x64xf32>
// CHECK-NEXT:    %5 = npu_task.launch @matmul_0 ins(%3, %w :
// CHECK-NEXT:    %6 = tensor.empty() : tensor<8x64xf32>
// CHECK-NEXT:    %7 = npu_task.launch @mul_0 ins(%5 :
// CHECK-NEXT:    %8 = tensor.empty() : tensor<8x64xf32>
// CHECK-NEXT:    %9 = npu_task.launch @add_0 ins(%7 : tensor<8x64xf32>)
// CHECK-NEXT:    func.return %9 : tensor<8x64xf32>

// -----

// Another constant, property, type or wiring is another kernel.
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xi1>, tensor<4xi1>) {
  %c = graph.constant dense<2.0> : tensor<f32>
  %d = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.sub %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.sub %x, %d : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.sub %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.sub %z, %d : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %5 = graph.compare lt %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %6 = graph.compare le %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xi1>, tensor<4xi1>
}
// CHECK:       func.func @main(
// CHECK:         npu_task.launch @sub_0 ins(%x :
// CHECK:         npu_task.launch @sub_1 ins(%x :
// CHECK:         npu_task.launch @sub_2 ins(%x, %y :
// CHECK:         npu_task.launch @sub_2 ins(%y, %x :
// CHECK:         npu_task.launch @sub_3 ins(%z :
// CHECK:         npu_task.launch @compare_0 ins
// CHECK:         npu_task.launch @compare_1 ins

// -----

// Fused ops are one kernel each, equal ones the same; names that are taken are left alone.
func.func private @linear_0()
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %v: tensor<64x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = fused_op.linear(%x, %w) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>):
    %1 = graph.matmul %a, %b : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %2 = graph.relu %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
    fused_op.yield %2 : tensor<8x32xf32>
  }
  %3 = fused_op.linear(%x, %v) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>):
    %4 = graph.matmul %a, %b : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %5 = graph.relu %4 : (tensor<8x32xf32>) -> tensor<8x32xf32>
    fused_op.yield %5 : tensor<8x32xf32>
  }
  func.return %0, %3 : tensor<8x32xf32>, tensor<8x32xf32>
}
// CHECK:       npu_task.kernel @linear_1 on cube {
// CHECK:         fused_op.linear(%0, %1)
// CHECK-NOT:   npu_task.kernel
// CHECK:         npu_task.launch @linear_1 ins(%x, %w :
// CHECK:         npu_task.launch @linear_1 ins(%x, %v :

// -----

// Static reshapes and contiguous slices and splits are views; the others are launches.
func.func @main(%x: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<4x2xf32>, tensor<24xf32>, tensor<2x6xf32>, tensor<4x3xf32>, tensor<2x6xf32>, tensor<1x2xf32>) {
  %0 = graph.slice %x starts [1] ends [3] axes [0] : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %1 = graph.slice %x starts [1] ends [3] axes [1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %2 = graph.reshape %x shape [24] : (tensor<4x6xf32>) -> tensor<24xf32>
  %3, %4 = graph.split %x axis 0 : (tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
  %5, %6 = graph.split %x axis 1 : (tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  %7 = graph.slice %x starts [0] ends [4] axes [0] steps [2] : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %8 = graph.slice %x starts [1, 2] ends [2, 4] axes [0, 1] : (tensor<4x6xf32>) -> tensor<1x2xf32>
  func.return %0, %1, %2, %3, %5, %7, %8 : tensor<2x6xf32>, tensor<4x2xf32>, tensor<24xf32>, tensor<2x6xf32>, tensor<4x3xf32>, tensor<2x6xf32>, tensor<1x2xf32>
}
// CHECK:       func.func @main(
// CHECK-NEXT:    graph.slice %x starts [1] ends [3] axes [0]
// CHECK-NEXT:    tensor.empty() : tensor<4x2xf32>
// CHECK-NEXT:    npu_task.launch @slice_0 ins
// CHECK-NEXT:    graph.reshape %x shape [24]
// CHECK-NEXT:    graph.split %x axis 0 :
// CHECK-NEXT:    tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    npu_task.launch @split_0 ins(%x : tensor<4x6xf32>) outs(%{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>, tensor<4x3xf32>
// CHECK-NEXT:    tensor.empty() : tensor<2x6xf32>
// CHECK-NEXT:    npu_task.launch @slice_1 ins
// CHECK-NEXT:    graph.slice %x starts [1, 2] ends [2, 4] axes [0, 1]
// CHECK-NEXT:    func.return

// -----

// Constants that no launch takes as immediates: large ones, and those of views, control flow, results.
func.func @main(%x: tensor<2x4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<2x4xf32>) {
  %0 = graph.constant dense<1.0> : tensor<f32>
  %1 = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %2 = graph.add %x, %1 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %0, %1, %2 : tensor<f32>, tensor<4xf32>, tensor<2x4xf32>
}
// CHECK:         graph.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// CHECK:       func.func @main(
// CHECK-NEXT:    %0 = npu_task.constant dense<1.000000e+00> : tensor<f32> as tensor<f32>
// CHECK-NEXT:    %1 = npu_task.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32> as tensor<4xf32>
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    npu_task.launch @add_0 ins(%x : tensor<2x4xf32>)
// CHECK-NEXT:    func.return %0, %1,

// -----

// Weights are prepared once, at load: that function stays at the graph level.
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = graph.constant #graph.weight<"prepared.0"> : tensor<4x4xf32>
  %0 = graph.add %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
func.func private @prepare() -> (tensor<4x4xf32> {graph.name = "prepared.0"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %0 = graph.neg %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %0 : tensor<4x4xf32>
}
// CHECK:         npu_task.launch @add_0 ins
// CHECK:       func.func private @prepare(
// CHECK-NEXT:    graph.constant #graph.weight<"w">
// CHECK-NEXT:    graph.neg
// CHECK-NEXT:    func.return
