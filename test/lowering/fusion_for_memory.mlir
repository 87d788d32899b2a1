// The modes of fusion: aggressive computes a sum twice, so that it takes no memory; default, which
// looks at the time alone, keeps it (in a buffer of its own, if results are not put over operands).
// RUN: ge-compile %s --target 910_merged --fusion aggressive --fusion-disable overwrite-operands -o - | filecheck %s --check-prefix=AGGRESSIVE
// RUN: ge-compile %s --target 910_merged --fusion default --fusion-disable overwrite-operands -o - | filecheck %s --check-prefix=DEFAULT
// AGGRESSIVE: npu_task.arena_bytes = 0 : i64,
// DEFAULT:    npu_task.arena_bytes = 1048576 : i64,
func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
