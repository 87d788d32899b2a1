// RUN: ge-opt %s --split-input-file -p 'keep-channels-last{target=910b2}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'keep-channels-last{target=910b2},fuse-conv{target=910b2}' | filecheck %s --check-prefix=FUSED
// RUN: ge-opt %s --split-input-file -p 'keep-channels-last{target=310p3}' | filecheck %s --check-prefix=MERGED

// From convolution to convolution, and through the sum that joins two of them. What comes from
// others, or goes to others, stays as it is.
func.func @residual(%x: tensor<1x64x28x28xf16>, %w: tensor<128x64x3x3xf16>, %v: tensor<128x128x3x3xf16>) -> tensor<1x128x14x14xf16> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<1x64x28x28xf16>, tensor<128x64x3x3xf16>) -> tensor<1x128x28x28xf16>
  %1 = graph.relu %0 : (tensor<1x128x28x28xf16>) -> tensor<1x128x28x28xf16>
  %2 = graph.conv %1, %v pads [1, 1, 1, 1] : (tensor<1x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x28x28xf16>
  %3 = graph.add %2, %1 : (tensor<1x128x28x28xf16>, tensor<1x128x28x28xf16>) -> tensor<1x128x28x28xf16>
  %4 = graph.conv %3, %v strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x14x14xf16>
  func.return %4 : tensor<1x128x14x14xf16>
}
// CHECK-LABEL: func.func @residual(
// CHECK-NEXT:    graph.conv %x, %w pads [1, 1, 1, 1] :
// CHECK-NEXT:    %[[R:.*]] = graph.relu
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] permutation [0, 2, 3, 1]
// CHECK-NEXT:    %[[C:.*]] = graph.conv %[[T]], %v input_channels_last true pads [1, 1, 1, 1]
// CHECK-NEXT:    %[[U:.*]] = graph.transpose %[[C]] permutation [0, 2, 3, 1]
// CHECK-NEXT:    %[[A:.*]] = graph.add %[[U]], %[[T]] : {{.*}} -> tensor<1x28x28x128xf16>
// CHECK-NEXT:    %[[Y:.*]] = graph.conv %[[A]], %v input_channels_last true strides [2, 2] pads [1, 1, 1, 1]
// CHECK-NEXT:    func.return %[[Y]] : tensor<1x128x14x14xf16>
// MERGED-LABEL: func.func @residual(
// MERGED-NOT:    graph.transpose
// MERGED:        func.return
// FUSED-LABEL: func.func @residual(
// FUSED:         fused_op.conv(%x, %w) : {{.*}} -> tensor<1x28x28x128xf16>
// FUSED:           graph.conv
// FUSED-NEXT:      graph.relu
// FUSED-NEXT:      graph.transpose

// -----

// What is not elementwise takes pixels side by side: where that costs more than it saves, all stays.
func.func @pooled(%x: tensor<1x64x28x28xf16>, %w: tensor<64x64x1x1xf16>) -> tensor<1x64x14x14xf16> {
  %0 = graph.conv %x, %w : (tensor<1x64x28x28xf16>, tensor<64x64x1x1xf16>) -> tensor<1x64x28x28xf16>
  %1 = graph.pool max %0 kernel [2, 2] strides [2, 2] : (tensor<1x64x28x28xf16>) -> tensor<1x64x14x14xf16>
  %2 = graph.conv %1, %w : (tensor<1x64x14x14xf16>, tensor<64x64x1x1xf16>) -> tensor<1x64x14x14xf16>
  func.return %2 : tensor<1x64x14x14xf16>
}
// CHECK-LABEL: func.func @pooled(
// CHECK-NOT:     graph.transpose
// CHECK:         func.return

// -----

// A map that is a result, too, is stored both ways where that pays.
func.func @result(%x: tensor<1x128x28x28xf16>, %v: tensor<128x128x3x3xf16>) -> (tensor<1x128x28x28xf16>, tensor<1x128x14x14xf16>) {
  %0 = graph.conv %x, %v pads [1, 1, 1, 1] : (tensor<1x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x28x28xf16>
  %1 = graph.conv %0, %v strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x14x14xf16>
  func.return %0, %1 : tensor<1x128x28x28xf16>, tensor<1x128x14x14xf16>
}
// CHECK-LABEL: func.func @result(
// CHECK:         %[[C:.*]] = graph.conv
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[C]] permutation
// CHECK-NEXT:    %[[Y:.*]] = graph.conv %[[T]],
// CHECK-NEXT:    func.return %[[C]], %[[Y]] :

// -----

// Sizes that are not known.
func.func @open(%x: tensor<?x64x28x28xf16>, %w: tensor<128x64x3x3xf16>, %v: tensor<128x128x3x3xf16>) -> tensor<?x128x14x14xf16> {
  %0 = graph.conv %x, %w pads [1, 1, 1, 1] : (tensor<?x64x28x28xf16>, tensor<128x64x3x3xf16>) -> tensor<?x128x28x28xf16>
  %1 = graph.conv %0, %v strides [2, 2] pads [1, 1, 1, 1] : (tensor<?x128x28x28xf16>, tensor<128x128x3x3xf16>) -> tensor<?x128x14x14xf16>
  func.return %1 : tensor<?x128x14x14xf16>
}
// CHECK-LABEL: func.func @open(
// CHECK-NOT:     graph.transpose
// CHECK:         func.return

// -----

// A resize copies whole pixels where channels are last, with vector cores apart and without.
func.func @resized(%x: tensor<1x128x32x32xf16>, %v: tensor<128x128x3x3xf16>) -> tensor<1x128x64x64xf16> {
  %0 = graph.conv %x, %v pads [1, 1, 1, 1] : (tensor<1x128x32x32xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x32x32xf16>
  %1 = graph.resize %0 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest_mode floor : (tensor<1x128x32x32xf16>) -> tensor<1x128x64x64xf16>
  %2 = graph.conv %1, %v pads [1, 1, 1, 1] : (tensor<1x128x64x64xf16>, tensor<128x128x3x3xf16>) -> tensor<1x128x64x64xf16>
  func.return %2 : tensor<1x128x64x64xf16>
}
// CHECK-LABEL: func.func @resized(
// CHECK:         %[[T:.*]] = graph.transpose
// CHECK-NEXT:    %[[R:.*]] = graph.resize %[[T]] scales [1.000000e+00, 2.000000e+00, 2.000000e+00, 1.000000e+00] {{.*}}mode
// CHECK-NEXT:    graph.conv %[[R]], %v input_channels_last true pads [1, 1, 1, 1]
// MERGED-LABEL: func.func @resized(
// MERGED:        graph.transpose
// MERGED-NEXT:   graph.resize
