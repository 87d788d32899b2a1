// RUN: ge-opt %s --split-input-file -p deduplicate-constants | filecheck %s

// By value and type, splats in any form; weights by key; from branches to before them.
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.constant dense<[2.0, 2.0, 2.0, 2.0]> : tensor<4xf32>
  %1 = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %2 = graph.constant dense<2.0> : tensor<4xf32>
  %3 = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %4 = graph.add %0, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.add %1, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %7 = graph.constant dense<3.0> : tensor<4xf32>
    graph.yield %7 : tensor<4xf32>
  } else {
    %8 = graph.constant dense<3.0> : tensor<4xf32>
    %9 = graph.constant dense<2.0> : tensor<4xf32>
    %10 = graph.mul %8, %9 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %10 : tensor<4xf32>
  }
  func.return %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[A:.*]] = graph.constant dense<2.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[W:.*]] = graph.constant #graph.weight<"w">
// CHECK-NEXT:    graph.add %[[A]], %[[A]] :
// CHECK-NEXT:    graph.add %[[W]], %[[W]] :
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<3.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    graph.if
// CHECK-NEXT:      graph.yield %[[B]] :
// CHECK:           graph.mul %[[B]], %[[A]] :

// -----

// 0 and -0 are two numbers, and one number of two types two constants.
func.func @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<1x2xi32>) {
  %0 = graph.constant dense<0.0> : tensor<2xf32>
  %1 = graph.constant dense<-0.0> : tensor<2xf32>
  %2 = graph.constant dense<0> : tensor<2xi32>
  %3 = graph.constant dense<0> : tensor<1x2xi32>
  func.return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<1x2xi32>
}
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-4: graph.constant
