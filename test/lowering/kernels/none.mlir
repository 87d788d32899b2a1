// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} --remarks --verify-diagnostics | filecheck %s
// What has no tile program keeps its kernel, and says why.

// A triangle is no copy of its operand.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @triangle
// expected-remark@+1 {{@triangle has no tile program: a box of graph.tri is none of its operand}}
npu_task.kernel @triangle on vector {
^bb0(%x: tensor<8x16xf32>):
  %r = graph.tri %x {upper = false} : tensor<8x16xf32> -> tensor<8x16xf32>
  npu_task.return %r : tensor<8x16xf32>
}

// -----

// A constant of one element has no place in device memory that the cube could load it from.
// CHECK-NOT: tile.kernel
// CHECK:     npu_task.kernel @scalar
// expected-remark@+1 {{@scalar has no tile program: an operand is a constant of one element, which is not in memory}}
npu_task.kernel @scalar on cube {
^bb0(%x: tensor<4x4x1xf16>):
  %w = graph.constant dense<-3.200000e-01> : tensor<1x1xf16>
  %r = graph.matmul %x, %w : (tensor<4x4x1xf16>, tensor<1x1xf16>) -> tensor<4x4x1xf16>
  npu_task.return %r : tensor<4x4x1xf16>
}
