// Floats of 8 bits are multiplied where the target has a rate for them.
// RUN: ge-opt %s -p 'lower-quantization{target=950pr}' --validate | filecheck %s
// RUN: ge-opt %s -p 'lower-quantization{target=910_merged}' | filecheck %s --check-prefix WITHOUT

func.func @main(%x: tensor<4x8xf8E4M3FN>, %c: tensor<1x2x4x4xf8E4M3FN>) -> (tensor<4x2xf32>, tensor<2x4xf32>, tensor<1x3x4x4xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %t = graph.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %u = graph.constant dense<[0.25, 0.5, 2.0]> : tensor<3xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %wf = graph.constant dense<1.5> : tensor<8x2xf32>
  %vf = graph.constant dense<1.5> : tensor<3x2x3x3xf32>
  %w = graph.cast %wf to f8E4M3FN : (tensor<8x2xf32>) -> tensor<8x2xf8E4M3FN>
  %v = graph.cast %vf to f8E4M3FN : (tensor<3x2x3x3xf32>) -> tensor<3x2x3x3xf8E4M3FN>
  %0 = graph.dequantize %x, %s : (tensor<4x8xf8E4M3FN>, tensor<f32>) -> tensor<4x8xf32>
  %1 = graph.dequantize %w, %t axis 1 : (tensor<8x2xf8E4M3FN>, tensor<2xf32>) -> tensor<8x2xf32>
  %2 = graph.matmul %0, %1 : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %3 = graph.matmul %1, %0 transpose_lhs true transpose_rhs true : (tensor<8x2xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %4 = graph.dequantize %c, %s : (tensor<1x2x4x4xf8E4M3FN>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %5 = graph.dequantize %v, %u axis 0 : (tensor<3x2x3x3xf8E4M3FN>, tensor<3xf32>) -> tensor<3x2x3x3xf32>
  %6 = graph.conv %4, %5 bias %b pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  func.return %2, %3, %6 : tensor<4x2xf32>, tensor<2x4xf32>, tensor<1x3x4x4xf32>
}
// CHECK:         [[M:%[0-9]+]] = graph.matmul %x, [[W:%[a-zA-Z0-9_]+]] : (tensor<4x8xf8E4M3FN>, tensor<8x2xf8E4M3FN>) -> tensor<4x2xf32>
// CHECK:         graph.mul [[M]], %{{[0-9]+}} : (tensor<4x2xf32>, tensor<2xf32>)
// CHECK:         [[M:%[0-9]+]] = graph.matmul [[W]], %x transpose_lhs true transpose_rhs true : (tensor<8x2xf8E4M3FN>, tensor<4x8xf8E4M3FN>)
// CHECK:         graph.mul [[M]], %{{[0-9]+}} : (tensor<2x4xf32>, tensor<2x1xf32>)
// CHECK:         [[C:%[0-9]+]] = graph.conv %c, %{{[a-zA-Z0-9_]+}} pads [1, 1, 1, 1] : (tensor<1x2x4x4xf8E4M3FN>, tensor<3x2x3x3xf8E4M3FN>) -> tensor<1x3x4x4xf32>
// CHECK:         [[D:%[0-9]+]] = graph.mul [[C]], %{{[0-9]+}} : (tensor<1x3x4x4xf32>, tensor<3x1x1xf32>)
// CHECK:         graph.add [[D]], %{{[0-9]+}} : (tensor<1x3x4x4xf32>, tensor<3x1x1xf32>)

// WITHOUT-NOT:   f8E4M3FN) -> {{.*}}f32
// WITHOUT:       graph.matmul %{{[a-zA-Z0-9_]+}}, %{{[a-zA-Z0-9_]+}} : (tensor<4x8xf32>, tensor<8x2xf32>)
