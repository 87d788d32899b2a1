// RUN: ge-opt %s --split-input-file -p 'fuse-vector-ops{target=910_merged},recompute-in-users{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged recompute=true}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'fuse-region{target=910_merged}' | filecheck %s --check-prefix=ONCE

// Rows and columns cannot be one launch. Each of them computes the sum for itself.
func.func @case1(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>, %z: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.add %x, %y : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %s = graph.add %0, %z : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.softmax %s : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %s axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
// Three inputs instead of one to read: more traffic than the sum saves.
// CHECK-LABEL: func.func @case1(
// CHECK:         fused_op.region(%x, %y, %z)
// CHECK:         graph.softmax
// CHECK-NOT:     fused_op.region
// ONCE-LABEL:  func.func @case1(
// ONCE:          fused_op.region(%x, %y, %z)

// -----

// Of a smaller input the sum is cheaper computed twice than written and read.
func.func @case2(%x: tensor<512x512xf16>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.cast %x to f32 : (tensor<512x512xf16>) -> tensor<512x512xf32>
  %1 = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.softmax %0 axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
// CHECK-LABEL: func.func @case2(
// CHECK:         %[[A:.*]] = fused_op.region(%x)
// CHECK:           graph.cast
// CHECK-NEXT:      graph.softmax
// CHECK:         %[[B:.*]] = fused_op.region(%x)
// CHECK:           graph.cast
// CHECK-NEXT:      graph.softmax
// CHECK:         func.return %[[A]], %[[B]] :
// ONCE-LABEL:  func.func @case2(
// ONCE:          %{{.*}}, %{{.*}} = fused_op.region(%x)
