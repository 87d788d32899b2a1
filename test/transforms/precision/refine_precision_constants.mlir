// RUN: ge-opt %s -p 'refine-precision{clip=true}' | filecheck %s

// Constants that are cast or dequantized are clipped before they are narrow.
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %b = graph.constant dense<[1.0e5, 1.0, 1.0, 1.0]> : tensor<4xbf16>
  %c = graph.cast %b to f32 : (tensor<4xbf16>) -> tensor<4xf32>
  %q = graph.constant dense<[100, 1, 1, 1]> : tensor<4xi8>
  %s = graph.constant dense<1000.0> : tensor<f32>
  %d = graph.dequantize %q, %s : (tensor<4xi8>, tensor<f32>) -> tensor<4xf32>
  %w = graph.constant dense<0.5> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.minimum %0, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = graph.minimum %0, %d : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}
// CHECK-DAG: %[[C:[0-9]+]] = graph.clamp %c low
// CHECK-DAG: %[[CAST:[0-9]+]] = graph.cast %[[C]] to f16 :
// CHECK-DAG: %[[D:[0-9]+]] = graph.clamp %d low
// CHECK-DAG: %[[DEQUANTIZED:[0-9]+]] = graph.cast %[[D]] to f16 :
// CHECK-DAG: graph.minimum %{{[0-9]+}}, %[[CAST]] :
// CHECK-DAG: graph.minimum %{{[0-9]+}}, %[[DEQUANTIZED]] :
