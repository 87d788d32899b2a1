// RUN: %roundtrip | filecheck %s

// Resampling of images: sizes and scales, given and at run time, axes, policies.

// CHECK-LABEL: func.func @resize(
func.func @resize(%x: tensor<1x3x8x8xf32>, %r: tensor<8xf32>, %s: tensor<4xf32>, %n: tensor<2xi64>, %d: tensor<?x3x?x?xui8>) {
  // CHECK-NEXT: %0 = graph.resize %x scales [1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  %0 = graph.resize %x scales [1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  // CHECK-NEXT: %1 = graph.resize %x sizes [16, 5] axes [2, 3] mode linear coordinates align_corners : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x5xf32>
  %1 = graph.resize %x sizes [16, 5] axes [2, 3] mode linear coordinates align_corners : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x5xf32>
  // CHECK-NEXT: %2 = graph.resize %x sizes [16, 12] axes [2, 3] mode cubic keep_aspect_ratio_policy not_larger : (tensor<1x3x8x8xf32>) -> tensor<1x3x12x12xf32>
  %2 = graph.resize %x sizes [16, 12] axes [-2, -1] mode cubic keep_aspect_ratio_policy not_larger : (tensor<1x3x8x8xf32>) -> tensor<1x3x12x12xf32>
  // CHECK-NEXT: %3 = graph.resize %x scales %s mode linear antialias true : (tensor<1x3x8x8xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
  %3 = graph.resize %x scales %s mode linear antialias true : (tensor<1x3x8x8xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
  // CHECK-NEXT: %4 = graph.resize %x sizes %n axes [2, 3] mode linear : (tensor<1x3x8x8xf32>, tensor<2xi64>) -> tensor<1x3x?x?xf32>
  %4 = graph.resize %x sizes %n axes [2, 3] mode linear : (tensor<1x3x8x8xf32>, tensor<2xi64>) -> tensor<1x3x?x?xf32>
  // CHECK-NEXT: %5 = graph.resize %x roi %r sizes [1, 3, 4, 4] coordinates tf_crop_and_resize extrapolation_value 1.000000e+01 : (tensor<1x3x8x8xf32>, tensor<8xf32>) -> tensor<1x3x4x4xf32>
  %5 = graph.resize %x roi %r sizes [1, 3, 4, 4] coordinates tf_crop_and_resize extrapolation_value 1.000000e+01 : (tensor<1x3x8x8xf32>, tensor<8xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %6 = graph.resize %d scales [2.000000e+00, 5.000000e-01] axes [2, 3] coordinates asymmetric nearest_mode floor : (tensor<?x3x?x?xui8>) -> tensor<?x3x?x?xui8>
  %6 = graph.resize %d scales [2.000000e+00, 5.000000e-01] axes [2, 3] coordinates asymmetric nearest_mode floor : (tensor<?x3x?x?xui8>) -> tensor<?x3x?x?xui8>
  func.return
}

// CHECK-LABEL: func.func @grid_sample(
func.func @grid_sample(%x: tensor<1x3x8x8xf32>, %g: tensor<1x4x5x2xf32>, %v: tensor<2x3x4x4x4xf32>, %h: tensor<2x?x5x6x3xf32>) {
  // CHECK-NEXT: %0 = graph.grid_sample %x, %g : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  %0 = graph.grid_sample %x, %g : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  // CHECK-NEXT: %1 = graph.grid_sample %x, %g mode cubic padding_mode reflection align_corners true : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  %1 = graph.grid_sample %x, %g mode cubic padding_mode reflection align_corners true : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  // CHECK-NEXT: %2 = graph.grid_sample %v, %h mode nearest padding_mode border : (tensor<2x3x4x4x4xf32>, tensor<2x?x5x6x3xf32>) -> tensor<2x3x?x5x6xf32>
  %2 = graph.grid_sample %v, %h mode nearest padding_mode border : (tensor<2x3x4x4x4xf32>, tensor<2x?x5x6x3xf32>) -> tensor<2x3x?x5x6xf32>
  func.return
}

// CHECK-LABEL: func.func @affine_grid(
func.func @affine_grid(%t: tensor<2x2x3xf32>, %u: tensor<1x3x4xf32>, %s: tensor<5xi64>) {
  // CHECK-NEXT: %0 = graph.affine_grid %t size [2, 3, 5, 6] : (tensor<2x2x3xf32>) -> tensor<2x5x6x2xf32>
  %0 = graph.affine_grid %t size [2, 3, 5, 6] : (tensor<2x2x3xf32>) -> tensor<2x5x6x2xf32>
  // CHECK-NEXT: %1 = graph.affine_grid %u size %s align_corners true : (tensor<1x3x4xf32>, tensor<5xi64>) -> tensor<1x?x?x?x3xf32>
  %1 = graph.affine_grid %u size %s align_corners true : (tensor<1x3x4xf32>, tensor<5xi64>) -> tensor<1x?x?x?x3xf32>
  func.return
}
