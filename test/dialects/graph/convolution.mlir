// RUN: %roundtrip | filecheck %s

// Convolutions of one to three dimensions: windows, groups, unknown dimensions, integers.

// CHECK-LABEL: func.func @conv(
func.func @conv(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>, %b: tensor<4xf32>, %d: tensor<8x1x3x3xf32>) {
  // CHECK-NEXT: %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  // CHECK-NEXT: %1 = graph.conv %x, %w bias %b strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  %1 = graph.conv %x, %w bias %b strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  // CHECK-NEXT: %2 = graph.conv %x, %w pads [0, 1, 2, 3] dilations [2, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x14xf32>
  %2 = graph.conv %x, %w pads [0, 1, 2, 3] dilations [2, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x14xf32>
  // CHECK-NEXT: %3 = graph.conv %x, %d group 8 : (tensor<1x8x12x12xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x10x10xf32>
  %3 = graph.conv %x, %d group 8 : (tensor<1x8x12x12xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x10x10xf32>
  func.return
}

// CHECK-LABEL: func.func @unknown(
func.func @unknown(%x: tensor<?x8x?x12xf16>, %w: tensor<4x8x3x3xf16>, %v: tensor<?x?x?x?xf16>) {
  // CHECK-NEXT: %0 = graph.conv %x, %w strides [2, 2] auto_pad same_upper : (tensor<?x8x?x12xf16>, tensor<4x8x3x3xf16>) -> tensor<?x4x?x6xf16>
  %0 = graph.conv %x, %w strides [2, 2] auto_pad same_upper : (tensor<?x8x?x12xf16>, tensor<4x8x3x3xf16>) -> tensor<?x4x?x6xf16>
  // CHECK-NEXT: %1 = graph.conv %x, %w auto_pad same_lower : (tensor<?x8x?x12xf16>, tensor<4x8x3x3xf16>) -> tensor<?x4x?x12xf16>
  %1 = graph.conv %x, %w auto_pad same_lower : (tensor<?x8x?x12xf16>, tensor<4x8x3x3xf16>) -> tensor<?x4x?x12xf16>
  // CHECK-NEXT: %2 = graph.conv %x, %v : (tensor<?x8x?x12xf16>, tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  %2 = graph.conv %x, %v : (tensor<?x8x?x12xf16>, tensor<?x?x?x?xf16>) -> tensor<?x?x?x?xf16>
  func.return
}

// CHECK-LABEL: func.func @ranks(
func.func @ranks(%x: tensor<1x2x9xi8>, %w: tensor<3x2x3xui8>, %y: tensor<1x2x4x4x4xf32>, %v: tensor<3x2x2x2x2xf32>) {
  // CHECK-NEXT: %0 = graph.conv %x, %w : (tensor<1x2x9xi8>, tensor<3x2x3xui8>) -> tensor<1x3x7xi32>
  %0 = graph.conv %x, %w : (tensor<1x2x9xi8>, tensor<3x2x3xui8>) -> tensor<1x3x7xi32>
  // CHECK-NEXT: %1 = graph.conv %y, %v : (tensor<1x2x4x4x4xf32>, tensor<3x2x2x2x2xf32>) -> tensor<1x3x3x3x3xf32>
  %1 = graph.conv %y, %v : (tensor<1x2x4x4x4xf32>, tensor<3x2x2x2x2xf32>) -> tensor<1x3x3x3x3xf32>
  func.return
}

// CHECK-LABEL: func.func @conv_transpose(
func.func @conv_transpose(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<6xf32>, %y: tensor<1x4x?x5xf32>) {
  // CHECK-NEXT: %0 = graph.conv_transpose %x, %w strides [2, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x11x11xf32>
  %0 = graph.conv_transpose %x, %w strides [2, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x11x11xf32>
  // CHECK-NEXT: %1 = graph.conv_transpose %x, %w bias %b output_padding [1, 1] group 2 strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>, tensor<6xf32>) -> tensor<1x6x10x10xf32>
  %1 = graph.conv_transpose %x, %w bias %b output_padding [1, 1] group 2 strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>, tensor<6xf32>) -> tensor<1x6x10x10xf32>
  // CHECK-NEXT: %2 = graph.conv_transpose %y, %w strides [2, 2] auto_pad same_upper : (tensor<1x4x?x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x?x10xf32>
  %2 = graph.conv_transpose %y, %w strides [2, 2] auto_pad same_upper : (tensor<1x4x?x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x?x10xf32>
  func.return
}

// CHECK-LABEL: func.func @deform_conv(
func.func @deform_conv(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x16x4x4xf32>, %b: tensor<2xf32>, %m: tensor<1x8x4x4xf32>) {
  // CHECK-NEXT: %0 = graph.deform_conv %x, %w, %o bias %b mask %m group 2 offset_group 2 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x16x4x4xf32>, tensor<2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  %0 = graph.deform_conv %x, %w, %o bias %b mask %m group 2 offset_group 2 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x16x4x4xf32>, tensor<2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @col2im(
func.func @col2im(%x: tensor<1x5x5xf32>, %i: tensor<2xi64>, %y: tensor<?x10x?xf32>) {
  // CHECK-NEXT: %0 = graph.col2im %x image_shape [5, 5] block_shape [1, 5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  %0 = graph.col2im %x image_shape [5, 5] block_shape [1, 5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  // CHECK-NEXT: %1 = graph.col2im %y image_shape %i block_shape [1, 5] strides [2, 2] : (tensor<?x10x?xf32>, tensor<2xi64>) -> tensor<?x2x?x?xf32>
  %1 = graph.col2im %y image_shape %i block_shape [1, 5] strides [2, 2] : (tensor<?x10x?xf32>, tensor<2xi64>) -> tensor<?x2x?x?xf32>
  // CHECK-NEXT: %2 = graph.col2im %y image_shape [5, 5] block_shape %i : (tensor<?x10x?xf32>, tensor<2xi64>) -> tensor<?x?x5x5xf32>
  %2 = graph.col2im %y image_shape [5, 5] block_shape %i : (tensor<?x10x?xf32>, tensor<2xi64>) -> tensor<?x?x5x5xf32>
  func.return
}

// CHECK-LABEL: func.func @pad_value(
func.func @pad_value(%x: tensor<1x2x5xui8>, %w: tensor<2x2x3xi8>) {
  // CHECK-NEXT: %0 = graph.conv %x, %w pad_value 128 pads [1, 1] : (tensor<1x2x5xui8>, tensor<2x2x3xi8>) -> tensor<1x2x5xi32>
  %0 = graph.conv %x, %w pad_value 128 pads [1, 1] : (tensor<1x2x5xui8>, tensor<2x2x3xi8>) -> tensor<1x2x5xi32>
  func.return
}
