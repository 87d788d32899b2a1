// RUN: ge-opt %s --split-input-file -p 'fuse-vector-ops{target=910_merged},relieve-peak{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged peak-memory=true}' | filecheck %s

// Rows and columns cannot be one launch. The sum is computed in both, so that it is nowhere in
// memory.
func.func @case1(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
// CHECK-LABEL: func.func @case1(
// CHECK:         %[[A:.*]] = fused_op.region(%x, %y)
// CHECK:           graph.add
// CHECK-NEXT:      graph.softmax
// CHECK:         %[[B:.*]] = fused_op.region(%x, %y)
// CHECK:           graph.add
// CHECK-NEXT:      graph.softmax
// CHECK:         func.return %[[A]], %[[B]] :

// -----

// What the difference is computed from would stay in its place: no memory is gained.
func.func @case2(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %m = graph.matmul %x, %w : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %0 = graph.sub %m, %x : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         fused_op.region
// CHECK-NOT:     fused_op.region
// CHECK:         func.return

// -----

// More memory is needed elsewhere: the sum is not what makes the peak.
func.func @case3(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>, %w: tensor<512x4096xf32>, %v: tensor<4096x4096xf32>, %u: tensor<4096x8xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x8xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = graph.matmul %x, %w : (tensor<512x512xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
  %4 = graph.matmul %3, %v : (tensor<512x4096xf32>, tensor<4096x4096xf32>) -> tensor<512x4096xf32>
  %5 = graph.matmul %4, %u : (tensor<512x4096xf32>, tensor<4096x8xf32>) -> tensor<512x8xf32>
  func.return %1, %2, %5 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x8xf32>
}
// CHECK-LABEL: func.func @case3(
// CHECK:         fused_op.region
// CHECK-NOT:     fused_op.region
// CHECK:         func.return

// -----

// A costly op is not computed twice.
func.func @case4(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.erf %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
// CHECK-LABEL: func.func @case4(
// CHECK:         fused_op.region
// CHECK-NOT:     fused_op.region
// CHECK:         func.return

// -----

// One after the other: when the first sum has gone, the second makes the peak.
func.func @case5(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>, %z: tensor<256x512xf32>, %w: tensor<256x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<256x512xf32>, tensor<256x512xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = graph.add %z, %w : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xf32>
  %4 = graph.softmax %3 : (tensor<256x512xf32>) -> tensor<256x512xf32>
  %5 = graph.softmax %3 axis 0 : (tensor<256x512xf32>) -> tensor<256x512xf32>
  func.return %1, %2, %4, %5 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<256x512xf32>, tensor<256x512xf32>
}
// CHECK-LABEL:   func.func @case5(
// CHECK-COUNT-4:   fused_op.region
