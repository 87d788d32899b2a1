// RUN: %roundtrip | filecheck %s

// Pooling over windows and regions, its inverse, and LRN.

// CHECK-LABEL: func.func @pool(
func.func @pool(%x: tensor<1x4x9x9xf32>, %y: tensor<?x4x?x9xui8>, %z: tensor<1x4x9xf16>, %n: tensor<1x4x3x1xf32>) {
  // CHECK-NEXT: %0 = graph.pool max %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  %0 = graph.pool max %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  // CHECK-NEXT: %1 = graph.pool average %x kernel [2, 2] count_include_pad true ceil_mode true strides [2, 2] : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.pool average %x kernel [2, 2] count_include_pad true ceil_mode true strides [2, 2] : (tensor<1x4x9x9xf32>) -> tensor<1x4x5x5xf32>
  // CHECK-NEXT: %2 = graph.pool lp %x kernel [2, 2] p 3 dilations [2, 3] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x6xf32>
  %2 = graph.pool lp %x kernel [2, 2] p 3 dilations [2, 3] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x6xf32>
  // CHECK-NEXT: %3 = graph.pool max %y kernel [3, 3] strides [2, 2] auto_pad same_lower : (tensor<?x4x?x9xui8>) -> tensor<?x4x?x5xui8>
  %3 = graph.pool max %y kernel [3, 3] strides [2, 2] auto_pad same_lower : (tensor<?x4x?x9xui8>) -> tensor<?x4x?x5xui8>
  // CHECK-NEXT: %4 = graph.pool average %z kernel [9] : (tensor<1x4x9xf16>) -> tensor<1x4x1xf16>
  %4 = graph.pool average %z kernel [9] : (tensor<1x4x9xf16>) -> tensor<1x4x1xf16>
  // A window larger than its input, as Hugging Face's EfficientNet pools.
  // CHECK-NEXT: %5 = graph.pool average %n kernel [4, 2] ceil_mode true strides [2, 2] : (tensor<1x4x3x1xf32>) -> tensor<1x4x1x1xf32>
  %5 = graph.pool average %n kernel [4, 2] ceil_mode true strides [2, 2] : (tensor<1x4x3x1xf32>) -> tensor<1x4x1x1xf32>
  func.return
}

// CHECK-LABEL: func.func @indices(
func.func @indices(%x: tensor<1x4x9x9xf32>) {
  // CHECK-NEXT: %0, %1 = graph.max_pool_indices %x kernel [3, 3] strides [3, 3] : (tensor<1x4x9x9xf32>) -> (tensor<1x4x3x3xf32>, tensor<1x4x3x3xi64>)
  %0, %1 = graph.max_pool_indices %x kernel [3, 3] strides [3, 3] : (tensor<1x4x9x9xf32>) -> (tensor<1x4x3x3xf32>, tensor<1x4x3x3xi64>)
  // CHECK-NEXT: %2, %3 = graph.max_pool_indices %x kernel [3, 3] column_major true : (tensor<1x4x9x9xf32>) -> (tensor<1x4x7x7xf32>, tensor<1x4x7x7xi64>)
  %2, %3 = graph.max_pool_indices %x kernel [3, 3] column_major true : (tensor<1x4x9x9xf32>) -> (tensor<1x4x7x7xf32>, tensor<1x4x7x7xi64>)
  func.return
}

// CHECK-LABEL: func.func @unpool(
func.func @unpool(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x2xi64>, %s: tensor<4xi64>) {
  // CHECK-NEXT: %0 = graph.max_unpool %x, %i kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x4x4xf32>
  %0 = graph.max_unpool %x, %i kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x4x4xf32>
  // CHECK-NEXT: %1 = graph.max_unpool %x, %i output_shape [1, 1, 5, 5] kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x5x5xf32>
  %1 = graph.max_unpool %x, %i output_shape [1, 1, 5, 5] kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x5x5xf32>
  // CHECK-NEXT: %2 = graph.max_unpool %x, %i output_shape %s kernel [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  %2 = graph.max_unpool %x, %i output_shape %s kernel [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  func.return
}

// CHECK-LABEL: func.func @lrn(
func.func @lrn(%x: tensor<1x4x9x9xf32>) {
  // CHECK-NEXT: %0 = graph.lrn %x size 3 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  %0 = graph.lrn %x size 3 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  // CHECK-NEXT: %1 = graph.lrn %x size 5 alpha 2.000000e-04 beta 5.000000e-01 bias 2.000000e+00 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.lrn %x size 5 alpha 2.000000e-04 beta 5.000000e-01 bias 2.000000e+00 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  func.return
}

// CHECK-LABEL: func.func @regions(
func.func @regions(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3xi64>, %s: tensor<?x5xf32>) {
  // CHECK-NEXT: %0 = graph.roi_align %x, %r, %b output_size [2, 3] : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x3xf32>
  %0 = graph.roi_align %x, %r, %b output_size [2, 3] : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x3xf32>
  // CHECK-NEXT: %1 = graph.roi_align %x, %r, %b output_size [2, 2] mode max sampling_ratio 2 half_pixel false spatial_scale 5.000000e-01 : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  %1 = graph.roi_align %x, %r, %b output_size [2, 2] mode max sampling_ratio 2 half_pixel false spatial_scale 5.000000e-01 : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  // CHECK-NEXT: %2 = graph.max_roi_pool %x, %s output_size [2, 3] : (tensor<1x4x9x9xf32>, tensor<?x5xf32>) -> tensor<?x4x2x3xf32>
  %2 = graph.max_roi_pool %x, %s output_size [2, 3] : (tensor<1x4x9x9xf32>, tensor<?x5xf32>) -> tensor<?x4x2x3xf32>
  func.return
}
