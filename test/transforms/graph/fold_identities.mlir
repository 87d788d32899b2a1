// RUN: ge-opt %s --split-input-file -p fold-constants,eliminate-dead-code | filecheck %s

// x + (-0.0), x - 0.0, x * 1, x / 1, x ** 1 are x.
func.func @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %nz = graph.constant dense<-0.0> : tensor<f32>
  %z = graph.constant dense<0.0> : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %i = graph.constant dense<1> : tensor<i64>
  %0 = graph.add %nz, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sub %0, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %one, %1 : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.div %2, %one : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %4 = graph.pow %3, %i : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
// CHECK-LABEL: func.func @neutral(
// CHECK-NEXT:    func.return %x :

// -----

// x + 0.0 turns -0.0 into 0.0, x - (-0.0) as well; x * 0 is nan for infinities; 0 - x, 1 / x.
func.func @not_neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %nz = graph.constant dense<-0.0> : tensor<f32>
  %z = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.add %x, %z : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.sub %x, %nz : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.mul %x, %z : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.sub %z, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.div %one, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @not_neutral(
// CHECK: graph.add
// CHECK: graph.sub
// CHECK: graph.mul
// CHECK: graph.sub
// CHECK: graph.div

// -----

// A neutral number that broadcasts x to another shape is needed; with `?` nobody knows.
func.func @shapes(%x: tensor<4xf32>, %y: tensor<?xf32>) -> (tensor<2x4xf32>, tensor<?xf32>, tensor<4xf32>) {
  %one = graph.constant dense<1.0> : tensor<2x1xf32>
  %four = graph.constant dense<1.0> : tensor<4xf32>
  %s = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.mul %x, %one : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %1 = graph.mul %y, %s : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
  %2 = graph.mul %y, %four : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<2x4xf32>, tensor<?xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @shapes(
// CHECK: %[[A:.*]] = graph.mul %x,
// CHECK: %[[B:.*]] = graph.mul %y,
// CHECK: func.return %[[A]], %y, %[[B]] :

// -----

// Integers: x - x, x ^ x are 0, x * 0 is 0, x == x holds; of floats only max(x, x) is x.
func.func @same(%x: tensor<4xi32>, %y: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>) {
  %z = graph.constant dense<0> : tensor<i32>
  %0 = graph.sub %x, %x : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %1 = graph.xor %x, %x : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %2 = graph.mul %z, %x : (tensor<i32>, tensor<4xi32>) -> tensor<4xi32>
  %3 = graph.compare le %x, %x : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %4 = graph.maximum %y, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.sub %y, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = graph.compare eq %y, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>
}
// CHECK-LABEL: func.func @same(
// CHECK-DAG: %[[Z:.*]] = graph.constant dense<0> : tensor<4xi32>
// CHECK-DAG: %[[T:.*]] = graph.constant dense<true> : tensor<4xi1>
// CHECK-DAG: %[[S:.*]] = graph.sub %y, %y :
// CHECK-DAG: %[[C:.*]] = graph.compare eq %y, %y :
// CHECK: func.return {{.*}}, {{.*}}, {{.*}}, {{.*}}, %y, %[[S]], %[[C]] :

// -----

// f(f(x)); limits that limit nothing; a choice that is made; conversions there and back.
func.func @twice(%x: tensor<4xf32>, %b: tensor<4xi1>, %i: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>) {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %true = graph.constant dense<true> : tensor<1xi1>
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.cast %b to i64 : (tensor<4xi1>) -> tensor<4xi64>
  %5 = graph.cast %4 to i1 : (tensor<4xi64>) -> tensor<4xi1>
  %6 = graph.clamp %x low %low : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = graph.select %true, %x, %1 : (tensor<1xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = graph.cast %i to f16 : (tensor<4xi8>) -> tensor<4xf16>
  %9 = graph.cast %8 to i8 : (tensor<4xf16>) -> tensor<4xi8>
  func.return %1, %3, %5, %6, %7, %9 : tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>
}
// CHECK-LABEL: func.func @twice(
// CHECK-NEXT:   %[[R:.*]] = graph.relu %x :
// CHECK-NEXT:   func.return %[[R]], %x, %b, %x, %x, %i :

// -----

// A conversion there and back that rounds has an effect.
func.func @rounds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.cast %x to f16 : (tensor<4xf32>) -> tensor<4xf16>
  %1 = graph.cast %0 to f32 : (tensor<4xf16>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @rounds(
// CHECK: graph.cast
// CHECK: graph.cast
