// What may fail stays in a loop that may have no iterations.
// RUN: ge-opt %s -p licm | filecheck %s

func.func @main(%x: tensor<4x8xf32>, %d: tensor<?x8xf32>, %i: tensor<1xi64>, %c: tensor<i1>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = graph.constant dense<2> : tensor<1xi64>
  scf.for %k = %zero to %n step %one {
    %gathered = graph.gather %x, %i axis 0 : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
    %known = graph.gather %x, %two axis 0 : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
    %asserted = graph.assert %x, %c, "no" : (tensor<4x8xf32>, tensor<i1>) -> tensor<4x8xf32>
    %shape = graph.assume_shape %d shape [4, 8] : (tensor<?x8xf32>) -> tensor<4x8xf32>
    %sum = graph.add %d, %x : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %exp = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %fused = fused_op.region(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: tensor<4x8xf32>):
      %1 = graph.neg %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
      fused_op.yield %1 : tensor<4x8xf32>
    }
    %picked = fused_op.region(%x, %i) : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<1x8xf32> {
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<1xi64>):
      %1 = graph.gather %a, %b axis 0 : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
      fused_op.yield %1 : tensor<1x8xf32>
    }
    scf.yield
  }
  func.return
}
// CHECK:      %known = graph.gather
// CHECK-NEXT: %exp = graph.exp
// CHECK-NEXT: %fused = fused_op.region(
// CHECK:      scf.for
// CHECK-NEXT:   %gathered = graph.gather
// CHECK-NEXT:   %asserted = graph.assert
// CHECK-NEXT:   %shape = graph.assume_shape
// CHECK-NEXT:   %sum = graph.add
// CHECK-NEXT:   %picked = fused_op.region(
