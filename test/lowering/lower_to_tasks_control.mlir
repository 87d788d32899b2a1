// RUN: ge-opt %s --split-input-file -p lower-to-tasks | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,verify-level{level=tasks}' | filecheck %s

// Branches and loops stay; the ops in them are launches of the same kernels; constants stand before.
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %n = graph.constant dense<3> : tensor<i64>
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %v = graph.constant #graph.weight<"v"> : tensor<4xf32>
    %1 = graph.add %x, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
    %1 = graph.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  }
  %r, %s = graph.loop (%i, %go) trip %n : tensor<i64> carry (%y = %0 : tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
    %1 = graph.add %y, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %1, %1 : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %r, %s : tensor<4xf32>, tensor<3x4xf32>
}
// CHECK:       npu_task.kernel @add_0 on
// CHECK-NOT:   npu_task.kernel
// CHECK:       func.func @main(
// CHECK-NEXT:    %w = npu_task.constant #graph.weight<"w"> as tensor<4xf32>
// CHECK-NEXT:    %n = npu_task.constant dense<3> : tensor<i64> as tensor<i64>
// CHECK-NEXT:    %v = npu_task.constant #graph.weight<"v"> as tensor<4xf32>
// CHECK-NEXT:    %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %2 = npu_task.launch @add_0 ins(%x, %v :
// CHECK-NEXT:      graph.yield %2 : tensor<4xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %3 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %4 = npu_task.launch @add_0 ins(%x, %w :
// CHECK-NEXT:      graph.yield %4 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %r, %s = graph.loop (%i, %go) trip %n : tensor<i64> carry (%y = %0 : tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
// CHECK-NEXT:      %5 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %6 = npu_task.launch @add_0 ins(%y, %w :
// CHECK-NEXT:      graph.yield %go, %6, %6 :
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %r, %s :
