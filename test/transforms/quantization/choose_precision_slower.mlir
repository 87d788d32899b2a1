// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.random.default_rng(0).standard_normal((16, 64, 16, 16), numpy.float32))"
// RUN: ge-opt %s -p 'choose-precision{data="%t.npz" floats="f16"}' --remarks --verify-diagnostics

// Of a depthwise convolution vector cores widen codes, which takes longer than f16: it stays a float.
func.func @main(%x: tensor<16x64x16x16xf32> {graph.name = "x", graph.range = [-4.0 : f64, 4.0 : f64]}) -> tensor<16x64x16x16xf32> {
  %v = graph.constant dense<0.5> : tensor<64x64x1x1xf32>
  %w = graph.constant dense<0.25> : tensor<64x1x3x3xf32>
  %first = graph.conv %x, %v : (tensor<16x64x16x16xf32>, tensor<64x64x1x1xf32>) -> tensor<16x64x16x16xf32>
  %0 = graph.relu %first {graph.range = [0.0 : f64, 60.0 : f64]} : (tensor<16x64x16x16xf32>) -> tensor<16x64x16x16xf32>
  // expected-remark@+1 {{choose-precision applied: 'deep' in float: }}
  %deep = graph.conv %0, %w pads [1, 1, 1, 1] group 64 : (tensor<16x64x16x16xf32>, tensor<64x1x3x3xf32>) -> tensor<16x64x16x16xf32>
  %1 = graph.relu %deep {graph.range = [0.0 : f64, 100.0 : f64]} : (tensor<16x64x16x16xf32>) -> tensor<16x64x16x16xf32>
  %last = graph.conv %1, %v : (tensor<16x64x16x16xf32>, tensor<64x64x1x1xf32>) -> tensor<16x64x16x16xf32>
  func.return %last : tensor<16x64x16x16xf32>
}
