// RUN: %roundtrip | filecheck %s

// Ops that give a tensor another shape or order; parameters as constants and as operands.

// CHECK-LABEL: func.func @reshape(
func.func @reshape(%x: tensor<2x3x4xf32>, %d: tensor<?x3x4xf32>, %s: tensor<2xi64>, %u: tensor<?xi64>) {
  // CHECK-NEXT: %flat = graph.reshape %x shape [24] : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %flat = graph.reshape %x shape [24] : (tensor<2x3x4xf32>) -> tensor<24xf32>
  // CHECK-NEXT: %inferred = graph.reshape %x shape [0, -1] : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  %inferred = graph.reshape %x shape [0, -1] : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  // CHECK-NEXT: %copied = graph.reshape %d shape [0, -1] : (tensor<?x3x4xf32>) -> tensor<?x12xf32>
  %copied = graph.reshape %d shape [0, -1] : (tensor<?x3x4xf32>) -> tensor<?x12xf32>
  // CHECK-NEXT: %unknown = graph.reshape %d shape [-1, 4] : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
  %unknown = graph.reshape %d shape [-1, 4] : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
  // CHECK-NEXT: %given = graph.reshape %x shape %s : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %given = graph.reshape %x shape %s : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  // CHECK-NEXT: %rank = graph.reshape %x shape %u : (tensor<2x3x4xf32>, tensor<?xi64>) -> tensor<*xf32>
  %rank = graph.reshape %x shape %u : (tensor<2x3x4xf32>, tensor<?xi64>) -> tensor<*xf32>
  // CHECK-NEXT: %empty = graph.constant dense<> : tensor<0x3xi8>
  %empty = graph.constant dense<> : tensor<0x3xi8>
  // CHECK-NEXT: %zero = graph.reshape %empty shape [3, 0] allow_zero true : (tensor<0x3xi8>) -> tensor<3x0xi8>
  %zero = graph.reshape %empty shape [3, 0] allow_zero true : (tensor<0x3xi8>) -> tensor<3x0xi8>
  // CHECK-NEXT: %one = graph.constant dense<7> : tensor<1x1xi8>
  %one = graph.constant dense<7> : tensor<1x1xi8>
  // CHECK-NEXT: %scalar = graph.reshape %one shape [] : (tensor<1x1xi8>) -> tensor<i8>
  %scalar = graph.reshape %one shape [] : (tensor<1x1xi8>) -> tensor<i8>
  func.return
}

// CHECK-LABEL: func.func @squeeze(
func.func @squeeze(%x: tensor<1x3x1xf16>, %d: tensor<?x3x1xf16>, %a: tensor<2xi64>) {
  // CHECK-NEXT: %all = graph.squeeze %x : (tensor<1x3x1xf16>) -> tensor<3xf16>
  %all = graph.squeeze %x : (tensor<1x3x1xf16>) -> tensor<3xf16>
  // CHECK-NEXT: %last = graph.squeeze %x axes [2] : (tensor<1x3x1xf16>) -> tensor<1x3xf16>
  %last = graph.squeeze %x axes [-1] : (tensor<1x3x1xf16>) -> tensor<1x3xf16>
  // CHECK-NEXT: %dynamic = graph.squeeze %d axes [0, 2] : (tensor<?x3x1xf16>) -> tensor<3xf16>
  %dynamic = graph.squeeze %d axes [0, 2] : (tensor<?x3x1xf16>) -> tensor<3xf16>
  // CHECK-NEXT: %given = graph.squeeze %x axes %a : (tensor<1x3x1xf16>, tensor<2xi64>) -> tensor<?xf16>
  %given = graph.squeeze %x axes %a : (tensor<1x3x1xf16>, tensor<2xi64>) -> tensor<?xf16>
  // CHECK-NEXT: %unknown = graph.squeeze %d : (tensor<?x3x1xf16>) -> tensor<*xf16>
  %unknown = graph.squeeze %d : (tensor<?x3x1xf16>) -> tensor<*xf16>
  func.return
}

// CHECK-LABEL: func.func @unsqueeze(
func.func @unsqueeze(%x: tensor<3x?xi1>, %a: tensor<1xi64>) {
  // CHECK-NEXT: %two = graph.unsqueeze %x axes [0, 3] : (tensor<3x?xi1>) -> tensor<1x3x?x1xi1>
  %two = graph.unsqueeze %x axes [0, 3] : (tensor<3x?xi1>) -> tensor<1x3x?x1xi1>
  // CHECK-NEXT: %unsorted = graph.unsqueeze %x axes [2, 0] : (tensor<3x?xi1>) -> tensor<1x3x1x?xi1>
  %unsorted = graph.unsqueeze %x axes [2, 0] : (tensor<3x?xi1>) -> tensor<1x3x1x?xi1>
  // CHECK-NEXT: %last = graph.unsqueeze %x axes [-1] : (tensor<3x?xi1>) -> tensor<3x?x1xi1>
  %last = graph.unsqueeze %x axes [-1] : (tensor<3x?xi1>) -> tensor<3x?x1xi1>
  // CHECK-NEXT: %given = graph.unsqueeze %x axes %a : (tensor<3x?xi1>, tensor<1xi64>) -> tensor<?x?x?xi1>
  %given = graph.unsqueeze %x axes %a : (tensor<3x?xi1>, tensor<1xi64>) -> tensor<?x?x?xi1>
  func.return
}

// CHECK-LABEL: func.func @order(
func.func @order(%x: tensor<2x?x4xf32>, %c: tensor<1x8x2x3xf32>, %n: tensor<2xi64>) {
  // CHECK-NEXT: %transposed = graph.transpose %x permutation [2, 0, 1] : (tensor<2x?x4xf32>) -> tensor<4x2x?xf32>
  %transposed = graph.transpose %x permutation [2, 0, 1] : (tensor<2x?x4xf32>) -> tensor<4x2x?xf32>
  // CHECK-NEXT: %space = graph.depth_to_space %c block 2 : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  %space = graph.depth_to_space %c block 2 : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  // CHECK-NEXT: %crd = graph.depth_to_space %c block 2 mode crd : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  %crd = graph.depth_to_space %c block 2 mode crd : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
  // CHECK-NEXT: %depth = graph.space_to_depth %space block 2 : (tensor<1x2x4x6xf32>) -> tensor<1x8x2x3xf32>
  %depth = graph.space_to_depth %space block 2 : (tensor<1x2x4x6xf32>) -> tensor<1x8x2x3xf32>
  // CHECK-NEXT: %reversed = graph.reverse_sequence %x, %n batch_axis 0 time_axis 1 : (tensor<2x?x4xf32>, tensor<2xi64>) -> tensor<2x?x4xf32>
  %reversed = graph.reverse_sequence %x, %n batch_axis 0 time_axis 1 : (tensor<2x?x4xf32>, tensor<2xi64>) -> tensor<2x?x4xf32>
  func.return
}

// CHECK-LABEL: func.func @repeat(
func.func @repeat(%x: tensor<3x1xf32>, %d: tensor<?x1xf32>, %s: tensor<3xi64>, %r: tensor<2xi64>) {
  // CHECK-NEXT: %wide = graph.broadcast_to %x shape [2, 1, 4] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %wide = graph.broadcast_to %x shape [2, 1, 4] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: %both = graph.broadcast_to %d shape [1, 4] : (tensor<?x1xf32>) -> tensor<?x4xf32>
  %both = graph.broadcast_to %d shape [1, 4] : (tensor<?x1xf32>) -> tensor<?x4xf32>
  // CHECK-NEXT: %given = graph.broadcast_to %x shape %s : (tensor<3x1xf32>, tensor<3xi64>) -> tensor<?x3x?xf32>
  %given = graph.broadcast_to %x shape %s : (tensor<3x1xf32>, tensor<3xi64>) -> tensor<?x3x?xf32>
  // CHECK-NEXT: %tiled = graph.tile %x repeats [2, 3] : (tensor<3x1xf32>) -> tensor<6x3xf32>
  %tiled = graph.tile %x repeats [2, 3] : (tensor<3x1xf32>) -> tensor<6x3xf32>
  // CHECK-NEXT: %dynamic = graph.tile %d repeats [2, 3] : (tensor<?x1xf32>) -> tensor<?x3xf32>
  %dynamic = graph.tile %d repeats [2, 3] : (tensor<?x1xf32>) -> tensor<?x3xf32>
  // CHECK-NEXT: %times = graph.tile %x repeats %r : (tensor<3x1xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %times = graph.tile %x repeats %r : (tensor<3x1xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return
}

// CHECK-LABEL: func.func @shape_of(
func.func @shape_of(%x: tensor<2x?x4xf32>) {
  // CHECK-NEXT: %all = graph.shape_of %x : (tensor<2x?x4xf32>) -> tensor<3xi64>
  %all = graph.shape_of %x : (tensor<2x?x4xf32>) -> tensor<3xi64>
  // CHECK-NEXT: %from = graph.shape_of %x start -2 : (tensor<2x?x4xf32>) -> tensor<2xi64>
  %from = graph.shape_of %x start -2 : (tensor<2x?x4xf32>) -> tensor<2xi64>
  // CHECK-NEXT: %part = graph.shape_of %x start 1 end 2 : (tensor<2x?x4xf32>) -> tensor<1xi64>
  %part = graph.shape_of %x start 1 end 2 : (tensor<2x?x4xf32>) -> tensor<1xi64>
  // CHECK-NEXT: %clamped = graph.shape_of %x start 2 end 9 : (tensor<2x?x4xf32>) -> tensor<1xi64>
  %clamped = graph.shape_of %x start 2 end 9 : (tensor<2x?x4xf32>) -> tensor<1xi64>
  // CHECK-NEXT: %none = graph.shape_of %x start 2 end 1 : (tensor<2x?x4xf32>) -> tensor<0xi64>
  %none = graph.shape_of %x start 2 end 1 : (tensor<2x?x4xf32>) -> tensor<0xi64>
  func.return
}
