// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'strides' has 1 elements, expected 2}}
  %0 = graph.conv %x, %w strides [2] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'strides' are at least 1, got [1, 0]}}
  %0 = graph.conv %x, %w strides [1, 0] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'dilations' has 3 elements, expected 2}}
  %0 = graph.conv %x, %w dilations [1, 1, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'pads' has 2 elements, expected 4}}
  %0 = graph.conv %x, %w pads [1, 1] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'pads' are at least 0, got [0, 0, -1, 0]}}
  %0 = graph.conv %x, %w pads [0, 0, -1, 0] : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{auto_pad is one of same_upper, same_lower, not 'same'}}
  %0 = graph.conv %x, %w auto_pad same : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{'pads' and 'auto_pad' exclude each other}}
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] auto_pad same_upper : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x0x3xf32>) {
  // expected-error@+1 {{kernel dimensions are positive, got [0, 3]}}
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x0x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x13x3xf32>) {
  // expected-error@+1 {{a window over 13 elements does not fit into spatial dimension 0: 12 elements, pads 0 and 0}}
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x13x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{input has batch, channel and spatial dimensions, not shape [8, 12]}}
  %0 = graph.conv %x, %w : (tensor<8x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3xf32>) {
  // expected-error@+1 {{weight of shape [4, 8, 3] does not fit an input of shape [1, 8, 12, 12]: ranks differ}}
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{property 'group': expected integer >= 1, got 0}}
  %0 = graph.conv %x, %w group 0 : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{input has 8 channels, but a weight of shape [4, 8, 3, 3] with group 2 takes 16}}
  %0 = graph.conv %x, %w group 2 : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error@+1 {{4 output channels do not divide into 8 groups}}
  %0 = graph.conv %x, %w group 8 : (tensor<1x8x12x12xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf16>) {
  // expected-error@+1 {{element types differ: f32 and f16}}
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf16>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{bias has shape [8], expected [4]}}
  %0 = graph.conv %x, %w bias %b : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>, tensor<8xf32>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>, %b: tensor<4xf16>) {
  // expected-error@+1 {{bias has element type f16, expected f32}}
  %0 = graph.conv %x, %w bias %b : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>, tensor<4xf16>) -> tensor<1x4x10x10xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8x12x12xf32>, %w: tensor<4x8x3x3xf32>) {
  // expected-error@+1 {{result 0 has type tensor<1x4x12x12xf32>, but tensor<1x4x10x10xf32> follows from the operands}}
  %0 = graph.conv %x, %w : (tensor<1x8x12x12xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x12x12xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<5x3x3x3xf32>) {
  // expected-error@+1 {{input has 4 channels, but a weight of shape [5, 3, 3, 3] takes 5}}
  %0 = graph.conv_transpose %x, %w : (tensor<1x4x5x5xf32>, tensor<5x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{4 input channels do not divide into 3 groups}}
  %0 = graph.conv_transpose %x, %w group 3 : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{'output_padding' has 1 elements, expected 2}}
  %0 = graph.conv_transpose %x, %w output_padding [1] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x1xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{pads 12 leave nothing of spatial dimension 1}}
  %0 = graph.conv_transpose %x, %w pads [0, 6, 0, 6] : (tensor<1x4x5x1xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{operand 'input': expected a tensor of rank 4 of floats, not tensor<1x4x5xf32>}}
  %0 = graph.deform_conv %x, %w, %o : (tensor<1x4x5xf32>, tensor<2x2x2x2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x?x2x2xf32>, %o: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{the shape of the weight is known, not [2, ?, 2, 2]}}
  %0 = graph.deform_conv %x, %w, %o : (tensor<1x4x5x5xf32>, tensor<2x?x2x2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{input [1, 4, 5, 5] and weight [2, 2, 2, 2] do not fit group 1}}
  %0 = graph.deform_conv %x, %w, %o : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{4 channels do not divide into 3 offset groups}}
  %0 = graph.deform_conv %x, %w, %o group 2 offset_group 3 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xi32>, %w: tensor<2x2x2x2xi32>, %o: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{operand 'input': expected a tensor of rank 4 of floats, not tensor<1x4x5x5xi32>}}
  %0 = graph.deform_conv %x, %w, %o group 2 : (tensor<1x4x5x5xi32>, tensor<2x2x2x2xi32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x4x4x4xf32>) {
  // expected-error@+1 {{offset has shape [1, 4, 4, 4], expected [1, 8, 4, 4]}}
  %0 = graph.deform_conv %x, %w, %o group 2 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x4x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x8x4x4xf32>, %m: tensor<1x8x4x4xf32>) {
  // expected-error@+1 {{mask has shape [1, 8, 4, 4], expected [1, 4, 4, 4]}}
  %0 = graph.deform_conv %x, %w, %o mask %m group 2 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x4x?x5xf32>, %w: tensor<2x4x2x2xf32>, %o: tensor<1x8x4x4xf32>, %m: tensor<1x4x3x4xf32>) {
  // expected-error@+1 {{mask has shape [1, 4, 3, 4], expected [1, 4, 4, 4]}}
  %0 = graph.deform_conv %x, %w, %o mask %m : (tensor<?x4x?x5xf32>, tensor<2x4x2x2xf32>, tensor<1x8x4x4xf32>, tensor<1x4x3x4xf32>) -> tensor<?x2x?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x4x?x5xf32>, %w: tensor<2x4x2x2xf32>, %o: tensor<3x8x4x4xf32>) {
  // expected-error@+1 {{result 0 has type tensor<3x2x5x4xf32>, but tensor<3x2x4x4xf32> follows from the operands}}
  %0 = graph.deform_conv %x, %w, %o : (tensor<?x4x?x5xf32>, tensor<2x4x2x2xf32>, tensor<3x8x4x4xf32>) -> tensor<3x2x5x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x5x5xf32>, %w: tensor<2x2x2x2xf32>, %o: tensor<1x8x4x4xf16>) {
  // expected-error@+1 {{element types differ: f32 and f16}}
  %0 = graph.deform_conv %x, %w, %o group 2 : (tensor<1x4x5x5xf32>, tensor<2x2x2x2xf32>, tensor<1x8x4x4xf16>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<5x5xf32>) {
  // expected-error@+1 {{operand 'input': expected a tensor of rank 3 of numbers or truth values, not tensor<5x5xf32>}}
  %0 = graph.col2im %x image_shape [5, 5] block_shape [1, 5] : (tensor<5x5xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x5x5xf32>) {
  // expected-error@+1 {{'image_shape' is missing}}
  %0 = graph.col2im %x block_shape [1, 5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x5x5xf32>) {
  // expected-error@+1 {{image has 2 dimensions, block 1}}
  %0 = graph.col2im %x image_shape [5, 5] block_shape [5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x5x5xf32>) {
  // expected-error@+1 {{5 rows do not divide into blocks of [2, 2]}}
  %0 = graph.col2im %x image_shape [5, 5] block_shape [2, 2] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x5x5xf32>) {
  // expected-error@+1 {{5 blocks given, but the window has 6 places}}
  %0 = graph.col2im %x image_shape [6, 5] block_shape [1, 5] : (tensor<1x5x5xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x5x5xf32>, %i: tensor<?xi64>) {
  // expected-error@+1 {{image_shape is a vector of known size, not tensor<?xi64>}}
  %0 = graph.col2im %x image_shape %i block_shape [1, 5] : (tensor<1x5x5xf32>, tensor<?xi64>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x2x5xi8>, %w: tensor<2x2x3xi8>) {
  // expected-error@+1 {{'pad_value' 128 is no i8}}
  %0 = graph.conv %x, %w pad_value 128 pads [1, 1] : (tensor<1x2x5xi8>, tensor<2x2x3xi8>) -> tensor<1x2x5xi32>
  func.return
}

// -----

func.func @f(%x: tensor<1x2x5xf32>, %w: tensor<2x2x3xf32>) {
  // expected-error@+1 {{'pad_value' is for integers, not f32}}
  %0 = graph.conv %x, %w pad_value 1 pads [1, 1] : (tensor<1x2x5xf32>, tensor<2x2x3xf32>) -> tensor<1x2x5xf32>
  func.return
}
