// What is computed before attention is read by it and by something beside it, in one launch.
// RUN: ge-compile %s -o %t.mlir
// RUN: ge-check %t.mlir | filecheck %s --check-prefix=PROOF
// RUN: cat %t.mlir | filecheck %s

// PROOF: proved
// CHECK: npu_task.kernel @flash_attention_0 on
func.func @main(%p: tensor<2x4x11x16xf32>, %k: tensor<2x4x1x16xf16>, %q: tensor<2x4x1x16xf16>, %v: tensor<2x4x12x16xf16>) -> (tensor<2x4x1x16xf16>, tensor<2x4x12x16xf32>) {
  %0 = graph.cast %p to f16 : (tensor<2x4x11x16xf32>) -> tensor<2x4x11x16xf16>
  %1 = graph.concat %0, %k axis 2 : (tensor<2x4x11x16xf16>, tensor<2x4x1x16xf16>) -> tensor<2x4x12x16xf16>
  %2 = graph.cast %1 to f32 : (tensor<2x4x12x16xf16>) -> tensor<2x4x12x16xf32>
  %3 = graph.attention %q, %1, %v : (tensor<2x4x1x16xf16>, tensor<2x4x12x16xf16>, tensor<2x4x12x16xf16>) -> tensor<2x4x1x16xf16>
  func.return %3, %2 : tensor<2x4x1x16xf16>, tensor<2x4x12x16xf32>
}
