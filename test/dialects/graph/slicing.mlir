// RUN: %roundtrip | filecheck %s

// Tensors taken apart and put together along axes.

// CHECK-LABEL: func.func @concat(
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %d: tensor<?x4xf32>) {
  // CHECK-NEXT: %two = graph.concat %x, %y axis 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %two = graph.concat %x, %y axis 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %one = graph.concat %x axis 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %one = graph.concat %x axis 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %known = graph.concat %x, %d axis 1 : (tensor<2x3xf32>, tensor<?x4xf32>) -> tensor<2x7xf32>
  %known = graph.concat %x, %d axis -1 : (tensor<2x3xf32>, tensor<?x4xf32>) -> tensor<2x7xf32>
  // CHECK-NEXT: %unknown = graph.concat %d, %d axis 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %unknown = graph.concat %d, %d axis 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return
}

// CHECK-LABEL: func.func @split(
func.func @split(%x: tensor<2x7xf32>, %d: tensor<?x7xf32>, %s: tensor<2xi64>) {
  // CHECK-NEXT: %a, %b = graph.split %x sizes [2, 5] axis 1 : (tensor<2x7xf32>) -> (tensor<2x2xf32>, tensor<2x5xf32>)
  %a, %b = graph.split %x sizes [2, 5] axis 1 : (tensor<2x7xf32>) -> (tensor<2x2xf32>, tensor<2x5xf32>)
  // CHECK-NEXT: %c, %e, %f = graph.split %x axis 1 : (tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>)
  %c, %e, %f = graph.split %x axis -1 : (tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>)
  // CHECK-NEXT: %g, %h = graph.split %d axis 0 : (tensor<?x7xf32>) -> (tensor<?x7xf32>, tensor<?x7xf32>)
  %g, %h = graph.split %d axis 0 : (tensor<?x7xf32>) -> (tensor<?x7xf32>, tensor<?x7xf32>)
  // CHECK-NEXT: %i, %j = graph.split %x sizes %s axis 1 : (tensor<2x7xf32>, tensor<2xi64>) -> (tensor<2x?xf32>, tensor<2x?xf32>)
  %i, %j = graph.split %x sizes %s axis 1 : (tensor<2x7xf32>, tensor<2xi64>) -> (tensor<2x?xf32>, tensor<2x?xf32>)
  func.return
}

// CHECK-LABEL: func.func @slice(
func.func @slice(%x: tensor<5x?x7xf32>, %s: tensor<1xi64>, %a: tensor<2xi64>) {
  // CHECK-NEXT: %front = graph.slice %x starts [1, 0] ends [3, 9223372036854775807] : (tensor<5x?x7xf32>) -> tensor<2x?x7xf32>
  %front = graph.slice %x starts [1, 0] ends [3, 9223372036854775807] : (tensor<5x?x7xf32>) -> tensor<2x?x7xf32>
  // CHECK-NEXT: %from_end = graph.slice %x starts [-3] ends [-1] axes [2] : (tensor<5x?x7xf32>) -> tensor<5x?x2xf32>
  %from_end = graph.slice %x starts [-3] ends [-1] axes [-1] : (tensor<5x?x7xf32>) -> tensor<5x?x2xf32>
  // CHECK-NEXT: %clamped = graph.slice %x starts [-9] ends [99] axes [0] : (tensor<5x?x7xf32>) -> tensor<5x?x7xf32>
  %clamped = graph.slice %x starts [-9] ends [99] axes [0] : (tensor<5x?x7xf32>) -> tensor<5x?x7xf32>
  // CHECK-NEXT: %stepped = graph.slice %x starts [0] ends [7] axes [2] steps [3] : (tensor<5x?x7xf32>) -> tensor<5x?x3xf32>
  %stepped = graph.slice %x starts [0] ends [7] axes [2] steps [3] : (tensor<5x?x7xf32>) -> tensor<5x?x3xf32>
  // CHECK-NEXT: %backward = graph.slice %x starts [-1] ends [-9223372036854775808] axes [0] steps [-2] : (tensor<5x?x7xf32>) -> tensor<3x?x7xf32>
  %backward = graph.slice %x starts [-1] ends [-9223372036854775808] axes [0] steps [-2] : (tensor<5x?x7xf32>) -> tensor<3x?x7xf32>
  // CHECK-NEXT: %empty = graph.slice %x starts [3] ends [3] axes [1] : (tensor<5x?x7xf32>) -> tensor<5x0x7xf32>
  %empty = graph.slice %x starts [3] ends [3] axes [1] : (tensor<5x?x7xf32>) -> tensor<5x0x7xf32>
  // CHECK-NEXT: %bounds = graph.slice %x starts %s ends [5] axes [0] : (tensor<5x?x7xf32>, tensor<1xi64>) -> tensor<?x?x7xf32>
  %bounds = graph.slice %x starts %s ends [5] axes [0] : (tensor<5x?x7xf32>, tensor<1xi64>) -> tensor<?x?x7xf32>
  // CHECK-NEXT: %steps = graph.slice %x starts [0] ends %s axes [2] steps %s : (tensor<5x?x7xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<5x?x?xf32>
  %steps = graph.slice %x starts [0] ends %s axes [2] steps %s : (tensor<5x?x7xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<5x?x?xf32>
  // CHECK-NEXT: %axes = graph.slice %x starts [0, 0] ends [1, 1] axes %a : (tensor<5x?x7xf32>, tensor<2xi64>) -> tensor<?x?x?xf32>
  %axes = graph.slice %x starts [0, 0] ends [1, 1] axes %a : (tensor<5x?x7xf32>, tensor<2xi64>) -> tensor<?x?x?xf32>
  func.return
}

// CHECK-LABEL: func.func @pad(
func.func @pad(%x: tensor<2x?xf32>, %v: tensor<f32>, %p: tensor<4xi64>, %a: tensor<1xi64>) {
  // CHECK-NEXT: %zeros = graph.pad %x pads [0, 1, 3, 0] : (tensor<2x?xf32>) -> tensor<5x?xf32>
  %zeros = graph.pad %x pads [0, 1, 3, 0] : (tensor<2x?xf32>) -> tensor<5x?xf32>
  // CHECK-NEXT: %value = graph.pad %x pads [1, 1] axes [0] value %v : (tensor<2x?xf32>, tensor<f32>) -> tensor<4x?xf32>
  %value = graph.pad %x pads [1, 1] axes [0] value %v : (tensor<2x?xf32>, tensor<f32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %crop = graph.pad %x pads [-1, 0] axes [0] : (tensor<2x?xf32>) -> tensor<1x?xf32>
  %crop = graph.pad %x pads [-1, 0] axes [-2] : (tensor<2x?xf32>) -> tensor<1x?xf32>
  // CHECK-NEXT: %edge = graph.pad %x pads [0, 2] axes [0] mode edge : (tensor<2x?xf32>) -> tensor<4x?xf32>
  %edge = graph.pad %x pads [0, 2] axes [0] mode edge : (tensor<2x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %reflect = graph.pad %x pads [1, 1] axes [1] mode reflect : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %reflect = graph.pad %x pads [1, 1] axes [1] mode reflect : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK-NEXT: %wrap = graph.pad %x pads [1, 1] axes [0] mode wrap : (tensor<2x?xf32>) -> tensor<4x?xf32>
  %wrap = graph.pad %x pads [1, 1] axes [0] mode wrap : (tensor<2x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %given = graph.pad %x pads %p value %v : (tensor<2x?xf32>, tensor<4xi64>, tensor<f32>) -> tensor<?x?xf32>
  %given = graph.pad %x pads %p value %v : (tensor<2x?xf32>, tensor<4xi64>, tensor<f32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %axes = graph.pad %x pads [1, 1] axes %a : (tensor<2x?xf32>, tensor<1xi64>) -> tensor<?x?xf32>
  %axes = graph.pad %x pads [1, 1] axes %a : (tensor<2x?xf32>, tensor<1xi64>) -> tensor<?x?xf32>
  func.return
}
