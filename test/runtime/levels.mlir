// A module gives the same numbers at every level.
// RUN: ge-run %s | filecheck %s
// RUN: ge-run %s --level fused | filecheck %s
// RUN: ge-run %s --level tasks | filecheck %s
// RUN: ge-run %s --level buffers | filecheck %s
// RUN: ge-run %s --level program --poison | filecheck %s

// Lowered to text and read again, too.
// RUN: ge-compile %s -o %t.fused.mlir --until fused
// RUN: ge-run %t.fused.mlir | filecheck %s
// RUN: ge-compile %s -o %t.tasks.mlir --until tasks
// RUN: ge-run %t.tasks.mlir | filecheck %s
// RUN: ge-compile %s -o %t.buffers.mlir --until buffers
// RUN: ge-run %t.buffers.mlir | filecheck %s
// RUN: ge-compile %s -o %t.program.mlir
// RUN: ge-run %t.program.mlir --poison | filecheck %s

// RUN: not ge-run %t.program.mlir --level tasks 2>&1 | filecheck %s --check-prefix=BACK
// BACK: error: the module is at the program level, it cannot go back to tasks

// CHECK:      y: float32[2, 2] = 2 7 10 17{{$}}
// CHECK-NEXT: rows: float32[1, 3] = 3 4 5{{$}}
func.func @main(%x: tensor<2x3xf32> {graph.name = "x"}) -> (
    tensor<2x2xf32> {graph.name = "y"},
    tensor<1x3xf32> {graph.name = "rows"}) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %values = graph.constant dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]> : tensor<2x3xf32>
  %nothing = graph.mul %x, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %a = graph.add %nothing, %values : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = graph.constant dense<[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]> : tensor<3x2xf32>
  %bias = graph.constant dense<[-4.0, -1.0]> : tensor<2xf32>
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = graph.add %0, %bias : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %2 = graph.relu %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = graph.transpose %2 permutation [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = graph.add %3, %0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = graph.slice %a starts [1] ends [2] axes [0] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return %4, %5 : tensor<2x2xf32>, tensor<1x3xf32>
}
