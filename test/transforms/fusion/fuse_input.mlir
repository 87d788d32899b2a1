// RUN: ge-opt %s -p 'fuse-linear{target=910_merged}' | filecheck %s
// RUN: ge-opt %s -p 'fuse-linear{target=910_merged disable=fuse-input}' | filecheck %s --check-prefix=OFF
// RUN: ge-opt %s -p 'fuse-linear{target=910b2}' | filecheck %s --check-prefix=SPLIT

// An input is rounded in the launch of each product that it goes into, the epilogue included.
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf16>) -> (tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>) {
  %0 = graph.cast %x to f16 : (tensor<64x64xf32>) -> tensor<64x64xf16>
  %1 = graph.matmul %0, %w : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  %2 = graph.matmul %w, %0 : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  // What an op that does not multiply uses is rounded in a launch of its own.
  %3 = graph.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.cast %3 to f16 : (tensor<64x64xf32>) -> tensor<64x64xf16>
  %5 = graph.matmul %4, %w : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  %6 = graph.add %5, %1 : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %6, %2, %3 : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
}
// CHECK:      func.func @main(
// CHECK-NEXT: fused_op.linear(%x, %w)
// CHECK:      graph.cast
// CHECK-NEXT: graph.matmul
// CHECK:      graph.neg %x :
// CHECK-NEXT: %[[OWN:[0-9]+]] = graph.cast
// CHECK-NEXT: %[[PRODUCT:[0-9]+]] = graph.matmul %[[OWN]], %w :
// CHECK-NEXT: fused_op.linear(%x, %w, %[[PRODUCT]])
// CHECK:      graph.cast
// CHECK-NEXT: graph.matmul
// OFF:        func.func @main(
// OFF-NEXT:   graph.cast %x to
// Either side of a product would start vector cores, which takes longer: both stay apart.
// SPLIT:      func.func @main(
// SPLIT-NOT:  fused_op
// SPLIT:      func.return
