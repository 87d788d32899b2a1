// The line that ge-compile prints; that it does the same is seen in test_ge_compile.py.
// RUN: ge-compile --print-pipeline | filecheck %s
// CHECK: infer-shapes,{{.*}}verify-level{level=graph},{{.*}},lower-to-tasks{target="910b2"},{{.*}}verify-level{level=program}

func.func @main(%x: tensor<2x3xf32> {graph.name = "x"}) -> (tensor<2x4xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<3x4xf32>
  %b = graph.constant dense<1.0> : tensor<4xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = graph.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = graph.relu %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %2 : tensor<2x4xf32>
}
