// RUN: ge-opt %s --split-input-file -p split-oversized | filecheck %s

// A row of 65,536 scores does not fit on a core, of which softmax needs all.
func.func @oversized(%q: tensor<64x32xf32>, %k: tensor<32x65536xf32>, %m: tensor<64x65536xf32>) -> tensor<64x65536xf32> {
  %y = fused_op.linear(%q, %k, %m) : (tensor<64x32xf32>, tensor<32x65536xf32>, tensor<64x65536xf32>) -> tensor<64x65536xf32> {
  ^bb0(%0: tensor<64x32xf32>, %1: tensor<32x65536xf32>, %2: tensor<64x65536xf32>):
    %p = graph.matmul %0, %1 : (tensor<64x32xf32>, tensor<32x65536xf32>) -> tensor<64x65536xf32>
    %s = graph.add %p, %2 : (tensor<64x65536xf32>, tensor<64x65536xf32>) -> tensor<64x65536xf32>
    %w = graph.softmax %s : (tensor<64x65536xf32>) -> tensor<64x65536xf32>
    fused_op.yield %w : tensor<64x65536xf32>
  }
  func.return %y : tensor<64x65536xf32>
}
// CHECK-LABEL: func.func @oversized(
// CHECK-NEXT:    %[[S:.*]] = fused_op.linear(%q, %k, %m) {{.*}} -> tensor<64x65536xf32> {
// CHECK:           graph.matmul
// CHECK-NEXT:      %[[T:.*]] = graph.add
// CHECK-NEXT:      fused_op.yield %[[T]] :
// CHECK:         %[[Y:.*]] = graph.softmax %[[S]] axis 1 :
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// What fits stays.
func.func @fits(%q: tensor<64x32xf32>, %k: tensor<32x512xf32>, %m: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %y = fused_op.linear(%q, %k, %m) : (tensor<64x32xf32>, tensor<32x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32> {
  ^bb0(%0: tensor<64x32xf32>, %1: tensor<32x512xf32>, %2: tensor<64x512xf32>):
    %p = graph.matmul %0, %1 : (tensor<64x32xf32>, tensor<32x512xf32>) -> tensor<64x512xf32>
    %s = graph.add %p, %2 : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<64x512xf32>
    %w = graph.softmax %s : (tensor<64x512xf32>) -> tensor<64x512xf32>
    fused_op.yield %w : tensor<64x512xf32>
  }
  func.return %y : tensor<64x512xf32>
}
// CHECK-LABEL: func.func @fits(
// CHECK-NEXT:    %[[Y:.*]] = fused_op.linear(%q, %k, %m)
// CHECK:           graph.softmax
// CHECK:         func.return %[[Y]] :

// -----

// Of unknown sizes nothing is known.
func.func @unknown(%q: tensor<64x32xf32>, %k: tensor<32x?xf32>) -> tensor<64x?xf32> {
  %y = fused_op.linear(%q, %k) : (tensor<64x32xf32>, tensor<32x?xf32>) -> tensor<64x?xf32> {
  ^bb0(%0: tensor<64x32xf32>, %1: tensor<32x?xf32>):
    %p = graph.matmul %0, %1 : (tensor<64x32xf32>, tensor<32x?xf32>) -> tensor<64x?xf32>
    %w = graph.softmax %p : (tensor<64x?xf32>) -> tensor<64x?xf32>
    fused_op.yield %w : tensor<64x?xf32>
  }
  func.return %y : tensor<64x?xf32>
}
// CHECK-LABEL: func.func @unknown(
// CHECK-NEXT:    %[[Y:.*]] = fused_op.linear(%q, %k)
// CHECK:         func.return %[[Y]] :

// -----

// Indices that a launch computes lie in no memory that it could read them from. A value that another
// part, and the function, use is a result of its part.
func.func @used(%x: tensor<128x256xf32>, %p: tensor<128xi64>, %q: tensor<128xi64>, %t: tensor<512x256xf32>) -> (tensor<128x256xf32>, tensor<128xi64>) {
  %y, %j = fused_op.region(%x, %p, %q, %t) : (tensor<128x256xf32>, tensor<128xi64>, tensor<128xi64>, tensor<512x256xf32>) -> (tensor<128x256xf32>, tensor<128xi64>) {
  ^bb0(%0: tensor<128x256xf32>, %1: tensor<128xi64>, %2: tensor<128xi64>, %3: tensor<512x256xf32>):
    %h = graph.add %1, %2 : (tensor<128xi64>, tensor<128xi64>) -> tensor<128xi64>
    %i = graph.minimum %h, %2 : (tensor<128xi64>, tensor<128xi64>) -> tensor<128xi64>
    %g = graph.gather %3, %i : (tensor<512x256xf32>, tensor<128xi64>) -> tensor<128x256xf32>
    %s = graph.add %0, %g : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
    fused_op.yield %s, %i : tensor<128x256xf32>, tensor<128xi64>
  }
  func.return %y, %j : tensor<128x256xf32>, tensor<128xi64>
}
// CHECK-LABEL: func.func @used(
// CHECK-NEXT:    %[[I:.*]] = fused_op.region(%p, %q) {{.*}} -> tensor<128xi64> {
// CHECK:         %[[Y:.*]] = fused_op.region(%t, %[[I]], %x)
// CHECK:           graph.gather
// CHECK-NEXT:      graph.add
// CHECK:         func.return %[[Y]], %[[I]] :
