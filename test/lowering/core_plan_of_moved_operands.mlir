// Operands of attention that are parts of a computed value: they are moved to the cube from where
// that value is, and have no buffer of their own in UB.
// RUN: ge-compile %s --fusion default -o %t.mlir
// RUN: ge-check %t.mlir | filecheck %s
// CHECK: proved{{.*}}on-core plans of 1 kernels
// RUN: ge-compile %s --fusion default -o - | filecheck %s --check-prefix=PLAN
// PLAN: npu_task.kernel @flash_attention_0 {{.*}}ub [{{.*}}op0 {{[0-9]+}} at
// PLAN-NOT: op3 {{[0-9]+}} at
// PLAN: fused_op.flash_attention
func.func @main(%bias: tensor<24xf32>, %x: tensor<2x8x24xf32>) -> tensor<2x8x2x4xf32> {
  %y = fused_op.flash_attention(%bias, %x) : (tensor<24xf32>, tensor<2x8x24xf32>) -> tensor<2x8x2x4xf32> {
  ^bb0(%0: tensor<24xf32>, %1: tensor<2x8x24xf32>):
    %2 = graph.add %0, %1 : (tensor<24xf32>, tensor<2x8x24xf32>) -> tensor<2x8x24xf32>
    %3 = graph.reshape %2 shape [2, 8, 2, 12] : tensor<2x8x24xf32> -> tensor<2x8x2x12xf32>
    %4 = graph.transpose %3 permutation [0, 2, 1, 3] : tensor<2x8x2x12xf32> -> tensor<2x2x8x12xf32>
    %5 = graph.slice %4 starts [0] ends [4] axes [-1] : tensor<2x2x8x12xf32> -> tensor<2x2x8x4xf32>
    %6 = graph.slice %4 starts [4] ends [8] axes [-1] : tensor<2x2x8x12xf32> -> tensor<2x2x8x4xf32>
    %7 = graph.slice %4 starts [8] ends [12] axes [-1] : tensor<2x2x8x12xf32> -> tensor<2x2x8x4xf32>
    %8 = graph.attention %5, %6, %7 {scale = 5.0e-01 : f64, result_tokens_first = true} : tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32> -> tensor<2x8x2x4xf32>
    fused_op.yield %8 : tensor<2x8x2x4xf32>
  }
  return %y : tensor<2x8x2x4xf32>
}
