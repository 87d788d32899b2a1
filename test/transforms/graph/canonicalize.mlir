// Generic tools have the rules of simplify-algebra and simplify-movement that keep every bit.
// RUN: ge-opt %s -canonicalize | filecheck %s
// RUN: xdsl-opt %s -p canonicalize | filecheck %s
// RUN: ge-opt %s -canonicalize --mlir-print-debuginfo | filecheck %s --check-prefix=WHERE

func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) {
  %0 = graph.transpose %x permutation [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = graph.reshape %x shape [8, 4] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %3 = graph.reshape %2 shape [32] : (tensor<8x4xf32>) -> tensor<32xf32>
  %4 = graph.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.neg %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = graph.constant dense<2.0> : tensor<f32>
  %6 = graph.add %c, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = graph.mul %c, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %1, %3, %5, %6, %7 : tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>
}
// CHECK:      func.func @main(
// CHECK-NEXT:   [[FLAT:%.*]] = graph.reshape %x shape [32]
// CHECK-NEXT:   %c = graph.constant dense<2.000000e+00>
// CHECK-NEXT:   [[SUM:%.*]] = graph.add %x, %c :
// CHECK-NEXT:   [[FOUR:%.*]] = graph.constant dense<4.000000e+00>
// CHECK-NEXT:   func.return %x, [[FLAT]], %x, [[SUM]], [[FOUR]] :
// WHERE: graph.reshape %x shape [32] {{.*}} loc(fused["{{.*}}canonicalize.mlir":10:8, "{{.*}}canonicalize.mlir":9:8])

// What rounds in another place stays, and so do bodies of what is one launch.
func.func @stays(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = graph.div %0, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = fused_op.region(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %3 = graph.transpose %a permutation [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %4 = graph.transpose %3 permutation [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    fused_op.yield %4 : tensor<4x8xf32>
  }
  func.return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
// CHECK:      func.func @stays(
// CHECK-COUNT-2: graph.div
// CHECK-COUNT-2: graph.transpose
