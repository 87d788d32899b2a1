// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{kind is one of max, average, lp, not 'min'}}
  %0 = graph.pool min %x kernel [3, 3] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xi32>) {
  // expected-error@+1 {{element type i32 is not supported by kind "average"}}
  %0 = graph.pool average %x kernel [3, 3] : (tensor<1x4x9x9xi32>) -> tensor<1x4x7x7xi32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xi1>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of numbers, not tensor<1x4x9x9xi1>}}
  %0 = graph.pool max %x kernel [3, 3] : (tensor<1x4x9x9xi1>) -> tensor<1x4x7x7xi1>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{property 'p': expected integer >= 1, got 0}}
  %0 = graph.pool lp %x kernel [3, 3] p 0 : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{a kernel of shape [3] does not fit an input of shape [1, 4, 9, 9]}}
  %0 = graph.pool max %x kernel [3] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{kernel dimensions are positive, got [3, 0]}}
  %0 = graph.pool max %x kernel [3, 0] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{a window over 10 elements does not fit into spatial dimension 1: 9 elements, pads 0 and 0}}
  %0 = graph.pool max %x kernel [3, 10] : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x9xf32>) {
  // expected-error@+1 {{input has batch, channel and spatial dimensions, not shape [4, 9]}}
  %0 = graph.pool max %x kernel [3] : (tensor<4x9xf32>) -> tensor<1x4x7x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{result 0 has type tensor<1x4x9x9xf32>, but tensor<1x4x7x7xf32> follows from the operands}}
  %0 = graph.pool max %x kernel [3, 3] : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9xi1>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of numbers, not tensor<1x4x9xi1>}}
  %0, %1 = graph.max_pool_indices %x kernel [3] : (tensor<1x4x9xi1>) -> (tensor<1x4x7xi1>, tensor<1x4x7xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9xf32>) {
  // expected-error@+1 {{result 'indices': expected a ranked tensor of i64, not tensor<1x4x7xi32>}}
  %0, %1 = graph.max_pool_indices %x kernel [3] : (tensor<1x4x9xf32>) -> (tensor<1x4x7xf32>, tensor<1x4x7xi32>)
  func.return
}

// -----

func.func @f(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x2xi32>) {
  // expected-error@+1 {{operand 'indices': expected a ranked tensor of i64, not tensor<1x1x2x2xi32>}}
  %0 = graph.max_unpool %x, %i kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi32>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x3xi64>) {
  // expected-error@+1 {{indices have shape [1, 1, 2, 3], input [1, 1, 2, 2]}}
  %0 = graph.max_unpool %x, %i kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x3xi64>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x2xi64>) {
  // expected-error@+1 {{a kernel of shape [2] does not fit an input of shape [1, 1, 2, 2]}}
  %0 = graph.max_unpool %x, %i kernel [2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x2xi64>) {
  // expected-error@+1 {{output_shape [1, 1, 3, 4] is smaller than [1, 1, 4, 4]}}
  %0 = graph.max_unpool %x, %i output_shape [1, 1, 3, 4] kernel [2, 2] strides [2, 2] : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>) -> tensor<1x1x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>) {
  // expected-error@+1 {{property 'size': expected integer >= 1, got 0}}
  %0 = graph.lrn %x size 0 : (tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9xi32>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of floats, not tensor<1x4x9xi32>}}
  %0 = graph.lrn %x size 3 : (tensor<1x4x9xi32>) -> tensor<1x4x9xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4x9xf32>) {
  // expected-error@+1 {{input has batch, channel and spatial dimensions, not shape [4, 9]}}
  %0 = graph.lrn %x size 3 : (tensor<4x9xf32>) -> tensor<4x9xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{mode is one of average, max, not 'avg'}}
  %0 = graph.roi_align %x, %r, %b output_size [2, 2] mode avg : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{'sampling_ratio' is not negative, got -1}}
  %0 = graph.roi_align %x, %r, %b output_size [2, 2] sampling_ratio -1 : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3x1xi64>) {
  // expected-error@+1 {{operand 'batch_indices': expected a vector of integers, not tensor<3x1xi64>}}
  %0 = graph.roi_align %x, %r, %b output_size [2, 2] : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3x1xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{operand 'input': expected a tensor of rank 4 of floats, not tensor<4x9x9xf32>}}
  %0 = graph.roi_align %x, %r, %b output_size [2, 2] : (tensor<4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x5xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{rois are [regions, 4] of f32, not tensor<3x5xf32>}}
  %0 = graph.roi_align %x, %r, %b output_size [2, 2] : (tensor<1x4x9x9xf32>, tensor<3x5xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>, %b: tensor<3xi64>) {
  // expected-error@+1 {{'output_size' is a positive height and width, got [2]}}
  %0 = graph.roi_align %x, %r, %b output_size [2] : (tensor<1x4x9x9xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4x2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4x9x9xf32>, %r: tensor<3x4xf32>) {
  // expected-error@+1 {{rois are [regions, 5] of f32, not tensor<3x4xf32>}}
  %0 = graph.max_roi_pool %x, %r output_size [2, 3] : (tensor<1x4x9x9xf32>, tensor<3x4xf32>) -> tensor<3x4x2x3xf32>
  func.return
}
