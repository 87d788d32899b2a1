// RUN: ge-opt %s --load-plugin %S/Inputs/benefits.py -p benefits --target 910b2 | filecheck %s
// RUN: ge-opt %s --load-plugin %S/Inputs/benefits.py -p wrong-type --verify-diagnostics

// The rule with more benefit is tried first, wherever it stands; rules are on any dialect.
func.func @main(%x: tensor<4x8xf32>, %y: f32) -> (tensor<4x8xf32>, tensor<4x8xf32>, f32) {
  // expected-error@+1 {{rule wrong-type replaces tensor<4x8xf32> by tensor<4x4xf32>}}
  %0 = graph.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.neg %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = arith.addf %y, %y : f32
  func.return %1, %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>, f32
}
// CHECK:      func.func @main(
// CHECK-NEXT:   [[BOTH:%.*]] = graph.mul %x, %x :
// CHECK-NEXT:   [[NEG:%.*]] = graph.exp %x :
// CHECK-NEXT:   [[DOUBLE:%.*]] = arith.mulf %y, %y :
// CHECK-NEXT:   func.return [[BOTH]], [[NEG]], [[DOUBLE]] :

// One product of a sum is faster than two products where there are many rows,
func.func @many(%a: tensor<4096x512xf16>, %b: tensor<512x512xf16>, %d: tensor<512x512xf16>) -> tensor<4096x512xf16> {
  %0 = graph.matmul %a, %b : (tensor<4096x512xf16>, tensor<512x512xf16>) -> tensor<4096x512xf16>
  %1 = graph.matmul %a, %d : (tensor<4096x512xf16>, tensor<512x512xf16>) -> tensor<4096x512xf16>
  %2 = graph.add %0, %1 : (tensor<4096x512xf16>, tensor<4096x512xf16>) -> tensor<4096x512xf16>
  func.return %2 : tensor<4096x512xf16>
}
// CHECK:      func.func @many(
// CHECK-NEXT:   [[SUM:%.*]] = graph.add %b, %d :
// CHECK-NEXT:   [[PRODUCT:%.*]] = graph.matmul %a, [[SUM]] :
// CHECK-NEXT:   func.return [[PRODUCT]] :

// and not where there is one: the sum reads and writes what the products would read once.
func.func @one(%a: tensor<1x8192xf16>, %b: tensor<8192x8192xf16>, %d: tensor<8192x8192xf16>) -> tensor<1x8192xf16> {
  %0 = graph.matmul %a, %b : (tensor<1x8192xf16>, tensor<8192x8192xf16>) -> tensor<1x8192xf16>
  %1 = graph.matmul %a, %d : (tensor<1x8192xf16>, tensor<8192x8192xf16>) -> tensor<1x8192xf16>
  %2 = graph.add %0, %1 : (tensor<1x8192xf16>, tensor<1x8192xf16>) -> tensor<1x8192xf16>
  func.return %2 : tensor<1x8192xf16>
}
// CHECK:      func.func @one(
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.add
// CHECK-NEXT:   func.return
