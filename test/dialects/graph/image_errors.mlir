// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{mode is one of nearest, linear, cubic, not 'bilinear'}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] mode bilinear : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{coordinates is one of half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn, tf_crop_and_resize, not 'corner'}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] coordinates corner : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{nearest_mode is one of round_prefer_floor, round_prefer_ceil, floor, ceil, not 'round'}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] nearest_mode round : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{keep_aspect_ratio_policy is one of stretch, not_larger, not_smaller, not 'fit'}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] keep_aspect_ratio_policy fit : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{exactly one of 'scales' and 'sizes' is given}}
  %0 = graph.resize %x  : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{exactly one of 'scales' and 'sizes' is given}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] sizes [1, 3, 16, 16] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{antialias does not go with mode "nearest"}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] antialias true : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{coordinates "tf_crop_and_resize" need a roi}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] coordinates tf_crop_and_resize : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xi1>) {
  // expected-error@+1 {{element type i1 is not supported by mode "linear"}}
  %0 = graph.resize %x scales [1.0, 1.0, 2.0, 2.0] mode linear : (tensor<1x3x8x8xi1>) -> tensor<1x3x16x16xi1>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{roi has shape [4], expected [8]}}
  %0 = graph.resize %x roi %r scales [1.0, 1.0, 2.0, 2.0] : (tensor<1x3x8x8xf32>, tensor<4xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %s: tensor<3xf32>) {
  // expected-error@+1 {{scales has shape [3], expected [4]}}
  %0 = graph.resize %x scales %s : (tensor<1x3x8x8xf32>, tensor<3xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{operand 'sizes_value': expected a vector of integers, not tensor<4xf32>}}
  %0 = graph.resize %x sizes %s : (tensor<1x3x8x8xf32>, tensor<4xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{2 targets are given for 4 axes}}
  %0 = graph.resize %x sizes [16, 16] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{axes [2, 2] name an axis twice}}
  %0 = graph.resize %x sizes [16, 16] axes [2, -2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{axis 4 is out of range for rank 4}}
  %0 = graph.resize %x sizes [16, 16] axes [2, 4] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{cannot resize 8 elements by scale 0.0}}
  %0 = graph.resize %x scales [1.0, 1.0, 0.0, 2.0] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{sizes are not negative, got [1, 3, -16, 16]}}
  %0 = graph.resize %x sizes [1, 3, -16, 16] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x0x8xf32>) {
  // expected-error@+1 {{an empty axis cannot be resized to 4}}
  %0 = graph.resize %x sizes [1, 3, 4, 4] : (tensor<1x3x0x8xf32>) -> tensor<1x3x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{result 0 has type tensor<1x3x16x16xf32>, but tensor<1x3x12x16xf32> follows from the operands}}
  %0 = graph.resize %x scales [1.0, 1.0, 1.5, 2.0] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %g: tensor<1x4x5x2xf32>) {
  // expected-error@+1 {{mode is one of nearest, linear, cubic, not 'bicubic'}}
  %0 = graph.grid_sample %x, %g mode bicubic : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %g: tensor<1x4x5x2xf32>) {
  // expected-error@+1 {{padding_mode is one of zeros, border, reflection, not 'wrap'}}
  %0 = graph.grid_sample %x, %g padding_mode wrap : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %g: tensor<1x4x5x3xf32>) {
  // expected-error@+1 {{a grid for an input of shape [1, 3, 8, 8] has 4 dimensions, the last 2, not shape [1, 4, 5, 3]}}
  %0 = graph.grid_sample %x, %g : (tensor<1x3x8x8xf32>, tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %g: tensor<1x4x5x2xi32>) {
  // expected-error@+1 {{operand 'grid': expected a ranked tensor of floats, not tensor<1x4x5x2xi32>}}
  %0 = graph.grid_sample %x, %g : (tensor<1x3x8x8xf32>, tensor<1x4x5x2xi32>) -> tensor<1x3x4x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %g: tensor<2x4x5x2xf32>) {
  // expected-error@+1 {{input and grid differ in batch size: 1 and 2}}
  %0 = graph.grid_sample %x, %g : (tensor<1x3x8x8xf32>, tensor<2x4x5x2xf32>) -> tensor<1x3x4x5xf32>
  func.return
}

// -----

func.func @f(%t: tensor<2x3x3xf32>) {
  // expected-error@+1 {{theta is [batch, 2, 3] or [batch, 3, 4], not tensor<2x3x3xf32>}}
  %0 = graph.affine_grid %t size [2, 3, 5, 6] : (tensor<2x3x3xf32>) -> tensor<2x5x6x2xf32>
  func.return
}

// -----

func.func @f(%t: tensor<2x2x3xf32>) {
  // expected-error@+1 {{'size' is missing}}
  %0 = graph.affine_grid %t : (tensor<2x2x3xf32>) -> tensor<2x5x6x2xf32>
  func.return
}

// -----

func.func @f(%t: tensor<2x2x3xf32>) {
  // expected-error@+1 {{size has 4 dimensions, got [2, 3, 5]}}
  %0 = graph.affine_grid %t size [2, 3, 5] : (tensor<2x2x3xf32>) -> tensor<2x5x6x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{cannot resize 8 elements by scale 1e+30}}
  %0 = graph.resize %x scales [1.0, 1.0, 1.0e30, 2.0] : (tensor<1x3x8x8xf32>) -> tensor<1x3x16x16xf32>
  func.return
}
