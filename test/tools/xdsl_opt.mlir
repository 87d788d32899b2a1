// xDSL's own tool sees ge's dialects and passes.
// RUN: xdsl-opt %s | filecheck %s
// RUN: xdsl-opt %s -p infer-shapes | filecheck %s --check-prefix=INFER
// RUN: %roundtrip | filecheck %s

// CHECK: graph.abs %x : (tensor<2xf32>) -> tensor<?xf32>
// INFER: graph.abs %x : (tensor<2xf32>) -> tensor<2xf32>

func.func @main(%x: tensor<2xf32>) -> tensor<?xf32> {
  %0 = graph.abs %x : (tensor<2xf32>) -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}
