// RUN: %roundtrip | filecheck %s
// RUN: ge-opt %s -p fold-constants,eliminate-dead-code | filecheck %s --check-prefix FOLD

func.func @main(%x: tensor<?x4xf16>, %c: tensor<1xi1>) -> (tensor<?x4xf16>, tensor<?x4xf16>, tensor<2xf32>) {
  %true = graph.constant dense<true> : tensor<i1>
  %false = graph.constant dense<false> : tensor<i1>
  %two = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: %0 = graph.assert %x, %c, "rows are missing" : (tensor<?x4xf16>, tensor<1xi1>) -> tensor<?x4xf16>
  %0 = graph.assert %x, %c, "rows are missing" : (tensor<?x4xf16>, tensor<1xi1>) -> tensor<?x4xf16>
  %1 = graph.assert %x, %true, "never told" : (tensor<?x4xf16>, tensor<i1>) -> tensor<?x4xf16>
  // It fails when it runs, not when it is compiled.
  %2 = graph.assert %two, %false, "always told" : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  func.return %0, %1, %2 : tensor<?x4xf16>, tensor<?x4xf16>, tensor<2xf32>
}
// FOLD:     %0 = graph.assert %x, %c, "rows are missing"
// FOLD-NOT: "never told"
// FOLD:     %1 = graph.assert {{.*}} "always told"
// FOLD:     return %0, %x, %1 :
