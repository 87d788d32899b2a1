// RUN: ge-opt %s --split-input-file -p simplify-algebra{exact=true} | filecheck %s
// RUN: ge-opt %s --split-input-file -p simplify-algebra | filecheck %s --check-prefixes CHECK,LOOSE

// Signs: x + (-y), x - (-y), (-x) * (-y), -(x * c), |-x|
func.func @signs(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = graph.constant dense<3.0> : tensor<f32>
  %nx = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %ny = graph.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  %0 = graph.add %ny, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sub %x, %ny : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %nx, %ny : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.mul %c, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.neg %3 : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.abs %nx : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @signs(
// CHECK-DAG: graph.sub %x, %y :
// CHECK-DAG: graph.add %x, %y :
// CHECK-DAG: graph.mul %x, %y :
// CHECK-DAG: %[[C:.*]] = graph.constant dense<-3.000000e+00>
// CHECK-DAG: graph.mul %[[C]], %x :
// CHECK-DAG: graph.abs %x :
// CHECK-NOT: graph.neg

// -----

// x / 2^n is a product; x / 3 and x / 0 are not; 1 / x is a reciprocal.
func.func @quotients(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = graph.constant dense<-8.0> : tensor<f32>
  %d = graph.constant dense<3.0> : tensor<f32>
  %e = graph.constant dense<0.0> : tensor<f32>
  %f = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.div %x, %d : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.div %x, %e : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.div %f, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @quotients(
// CHECK-DAG: %[[C:.*]] = graph.constant dense<-1.250000e-01>
// CHECK-DAG: graph.mul %x, %[[C]] :
// CHECK: graph.div %x,
// CHECK: graph.div %x,
// CHECK: graph.reciprocal %x :

// -----

// Powers: 2, 3 as products; others stay. Roots as powers are not the same bit for bit.
func.func @powers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %two = graph.constant dense<2.0> : tensor<f32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.pow %0, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.pow %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @powers(
// CHECK: %[[S:.*]] = graph.mul %x, %x :
// CHECK: %[[T:.*]] = graph.mul %x, %x :
// CHECK: graph.mul %x, %[[T]] :
// LOOSE: graph.sqrt %[[S]] :
// CHECK: graph.pow %x,
// LOOSE-NOT: graph.pow

// -----

// Integers: remainders and quotients by powers of two.
func.func @integers(%x: tensor<4xi32>, %y: tensor<4xui8>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xui8>) {
  %c = graph.constant dense<8> : tensor<i32>
  %d = graph.constant dense<8> : tensor<ui8>
  %0 = graph.mod %x, %c : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %1 = graph.mod %x, %c fmod true : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %2 = graph.div %y, %d : (tensor<4xui8>, tensor<ui8>) -> tensor<4xui8>
  func.return %0, %1, %2 : tensor<4xi32>, tensor<4xi32>, tensor<4xui8>
}
// CHECK-LABEL: func.func @integers(
// CHECK-DAG: graph.and %x,
// CHECK-DAG: graph.mod %x, {{.*}} fmod true
// CHECK-DAG: graph.shift {{left|right}} %y,

// -----

// Limits: max(x, 0) is relu; intervals are joined; with a limit of 0 the sign of zero may change.
func.func @limits(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<f32>
  %0 = graph.maximum %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.maximum %one, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.minimum %1, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.clamp %2 low %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = graph.minimum %0, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @limits(
// CHECK: %[[R:.*]] = graph.relu %x :
// CHECK: graph.clamp %x low {{.*}} high
// CHECK: graph.clamp
// LOOSE-SAME: %x low {{.*}} high
// CHECK-NOT: graph.clamp
// CHECK: func.return

// -----

// Truth values: x != x is nan; comparisons of truth values; choices between true and false.
func.func @logic(%x: tensor<4xf32>, %c: tensor<4xi1>, %d: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>) {
  %true = graph.constant dense<true> : tensor<i1>
  %zero = graph.constant dense<0> : tensor<i64>
  %0 = graph.compare ne %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = graph.cast %c to i64 : (tensor<4xi1>) -> tensor<4xi64>
  %2 = graph.compare gt %1, %zero : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %3 = graph.select %2, %true, %d : (tensor<4xi1>, tensor<i1>, tensor<4xi1>) -> tensor<4xi1>
  %4 = graph.not %2 : (tensor<4xi1>) -> tensor<4xi1>
  %5 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %6 = graph.select %4, %x, %5 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %2, %3, %6 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>
}
// CHECK-LABEL: func.func @logic(
// CHECK: %[[N:.*]] = graph.is_nan %x :
// CHECK: %[[O:.*]] = graph.or %c, %d :
// CHECK: %[[M:.*]] = graph.neg %x :
// CHECK: %[[S:.*]] = graph.select %c, %[[M]], %x :
// CHECK: func.return %[[N]], %c, %[[O]], %[[S]] :

// -----

// not (x < y) is x >= y of integers, but not of floats, of which nan is neither.
func.func @comparisons(%x: tensor<4xf32>, %i: tensor<4xi8>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %0 = graph.compare lt %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %y = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.compare lt %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = graph.not %1 : (tensor<4xi1>) -> tensor<4xi1>
  %j = graph.not %i : (tensor<4xi8>) -> tensor<4xi8>
  %3 = graph.compare lt %i, %j : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi1>
  %4 = graph.not %3 : (tensor<4xi1>) -> tensor<4xi1>
  func.return %0, %2, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}
// CHECK-LABEL: func.func @comparisons(
// CHECK-DAG: graph.constant dense<false>
// CHECK-DAG: %[[L:.*]] = graph.compare lt %x,
// CHECK-DAG: graph.not %[[L]] :
// CHECK-DAG: graph.compare ge %i,

// -----

// Conversions through a wider type, and to narrower and narrower ones.
func.func @conversions(%x: tensor<4xf16>, %i: tensor<4xi64>) -> (tensor<4xi8>, tensor<4xi16>, tensor<4xf16>) {
  %0 = graph.cast %x to f32 : (tensor<4xf16>) -> tensor<4xf32>
  %1 = graph.cast %0 to i8 : (tensor<4xf32>) -> tensor<4xi8>
  %2 = graph.cast %i to i32 : (tensor<4xi64>) -> tensor<4xi32>
  %3 = graph.cast %2 to i16 : (tensor<4xi32>) -> tensor<4xi16>
  %4 = graph.cast %i to f32 : (tensor<4xi64>) -> tensor<4xf32>
  %5 = graph.cast %4 to f16 : (tensor<4xf32>) -> tensor<4xf16>
  func.return %1, %3, %5 : tensor<4xi8>, tensor<4xi16>, tensor<4xf16>
}
// CHECK-LABEL: func.func @conversions(
// CHECK: graph.cast %x to i8 :
// CHECK: graph.cast %i to i16 :
// CHECK: %[[F:.*]] = graph.cast %i to f32 :
// CHECK: graph.cast %[[F]] to f16 :

// -----

// Constants that come together: exact for integers.
func.func @constants(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %a = graph.constant dense<3.0> : tensor<f32>
  %b = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %m = graph.constant dense<5> : tensor<i32>
  %0 = graph.mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.mul %b, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %i, %m : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %3 = graph.add %2, %m : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xi32>
}
// CHECK-LABEL: func.func @constants(
// CHECK-DAG: graph.constant dense<10> : tensor<i32>
// LOOSE-DAG: %[[P:.*]] = graph.constant dense<[3.000000e+00, 6.000000e+00, 9.000000e+00, 1.200000e+01]>
// LOOSE-DAG: graph.mul %x, %[[P]] :
// CHECK-DAG: graph.add %i,

// -----

// A product that is used twice stays; a product of constants that would overflow is not made.
func.func @constants_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = graph.constant dense<3.0e30> : tensor<f32>
  %b = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.mul %0, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.mul %x, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.mul %2, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @constants_apart(
// CHECK-COUNT-4: graph.mul

// -----

// Nor one that would be too small for some element: 6e4 * 1e-4 * 1e-4 is a number of f16, and
// 1e-4 * 1e-4 is none. Weights of f16, which nobody knows yet, stay apart as well.
func.func @small_constants_apart(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xf16>) {
  %a = graph.constant dense<[1.0, 0.5, 0.01, 0.0001]> : tensor<4xf16>
  %w = graph.constant #graph.weight<"w"> : tensor<4xf16>
  %0 = graph.mul %x, %a : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  %1 = graph.mul %0, %a : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  %2 = graph.mul %x, %w : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  %3 = graph.mul %2, %w : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  func.return %1, %3 : tensor<4xf16>, tensor<4xf16>
}
// CHECK-LABEL: func.func @small_constants_apart(
// CHECK-COUNT-4: graph.mul

// -----

// Reductions: of single elements, twice, and a sum over the count.
func.func @reductions(%x: tensor<4x1x8xf32>, %i: tensor<4x8xi32>) -> (tensor<4x8xf32>, tensor<i32>, tensor<4x1x1xf32>) {
  %n = graph.constant dense<8.0> : tensor<f32>
  %0 = graph.reduce max %x axes [1] keep_dims false : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  %1 = graph.reduce sum %i axes [1] keep_dims false : (tensor<4x8xi32>) -> tensor<4xi32>
  %2 = graph.reduce sum %1 axes [0] keep_dims false : (tensor<4xi32>) -> tensor<i32>
  %3 = graph.reduce sum %x axes [2] : (tensor<4x1x8xf32>) -> tensor<4x1x1xf32>
  %4 = graph.div %3, %n : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x1xf32>
  func.return %0, %2, %4 : tensor<4x8xf32>, tensor<i32>, tensor<4x1x1xf32>
}
// CHECK-LABEL: func.func @reductions(
// CHECK: graph.reshape %x shape [4, 8]
// CHECK: graph.reduce sum %i axes [0, 1]
// CHECK: graph.reduce mean %x axes [2]

// -----

// Dynamic shapes: rules that keep the shape apply, others wait.
func.func @dynamic(%x: tensor<?xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi1>) {
  %0 = graph.neg %y : (tensor<?xf32>) -> tensor<?xf32>
  %1 = graph.add %x, %0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %2 = graph.compare lt %x, %x : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xi1>
  func.return %1, %2 : tensor<?xf32>, tensor<?xi1>
}
// CHECK-LABEL: func.func @dynamic(
// CHECK: graph.sub %x, %y :
// CHECK: graph.compare lt

// -----

// A relu of -0.0 is -0.0, the absolute value of it 0.0; an exponential has no sign.
func.func @zeros(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.abs %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.abs %2 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @zeros(
// CHECK-NEXT:  %[[R:.*]] = graph.relu %x :
// CHECK-NEXT:  %[[A:.*]] = graph.abs %[[R]] :
// CHECK-NEXT:  %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:  func.return %[[A]], %[[E]] :

// -----

// What keeps not every bit, or not the value: |-x| of unsigned integers; the sum of -0.0 is 0.0.
func.func @kept_apart(%x: tensor<4xui8>, %y: tensor<4x1xf32>) -> (tensor<4xui8>, tensor<4x1xf32>) {
  %0 = graph.neg %x : (tensor<4xui8>) -> tensor<4xui8>
  %1 = graph.abs %0 : (tensor<4xui8>) -> tensor<4xui8>
  %2 = graph.reduce max %y axes [1] : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = graph.reduce sum %2 axes [1] : (tensor<4x1xf32>) -> tensor<4x1xf32>
  func.return %1, %3 : tensor<4xui8>, tensor<4x1xf32>
}
// CHECK-LABEL: func.func @kept_apart(
// CHECK-NEXT: %[[N:.*]] = graph.neg
// LOOSE-NEXT: func.return %[[N]], %y :

// -----

// A window over the whole image: a reduction, with padding that does not count. One that leaves an
// element out, or has gaps, or counts padding, or has several places, stays.
func.func @whole_image(%x: tensor<1x2x7x7xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x2x1xf32>) {
  %0 = graph.pool average %x kernel [1280, 1280] pads [0, 0, 1273, 1273] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %1 = graph.pool max %x kernel [7, 9] pads [0, 1, 0, 1] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %2 = graph.pool lp %x kernel [7, 7] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %3 = graph.pool average %x kernel [7, 6] strides [1, 2] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %4 = graph.pool average %x kernel [7, 9] count_include_pad true pads [0, 1, 0, 1] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %5 = graph.pool max %x kernel [4, 7] dilations [2, 1] : (tensor<1x2x7x7xf32>) -> tensor<1x2x1x1xf32>
  %6 = graph.pool max %x kernel [8, 7] pads [1, 0, 1, 0] : (tensor<1x2x7x7xf32>) -> tensor<1x2x2x1xf32>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x2x1xf32>
}
// CHECK-LABEL: func.func @whole_image(
// LOOSE-NEXT:    graph.reduce mean %x axes [2, 3]
// LOOSE-NEXT:    graph.reduce max %x axes [2, 3]
// LOOSE-NEXT:    graph.reduce l2 %x axes [2, 3]
// CHECK:         graph.pool average %x kernel [7, 6]
// CHECK-NEXT:    graph.pool average %x kernel [7, 9] count_include_pad true pads
// CHECK-NEXT:    graph.pool max %x kernel [4, 7]
// CHECK-NEXT:    graph.pool max %x kernel [8, 7]

// -----

// One number everywhere is not converted where it is 0 or 1; others may be rounded.
func.func @filled() -> (tensor<8192x8192xi32>, tensor<8192x8192xbf16>) {
  %0 = graph.fill 0.0 : f32 shape [8192, 8192] : () -> tensor<8192x8192xf32>
  %1 = graph.cast %0 to i32 : (tensor<8192x8192xf32>) -> tensor<8192x8192xi32>
  %2 = graph.fill 0.1 : f32 shape [8192, 8192] : () -> tensor<8192x8192xf32>
  %3 = graph.cast %2 to bf16 : (tensor<8192x8192xf32>) -> tensor<8192x8192xbf16>
  func.return %1, %3 : tensor<8192x8192xi32>, tensor<8192x8192xbf16>
}
// CHECK-LABEL: func.func @filled(
// CHECK-DAG: graph.fill 0 : i32 shape
// CHECK-DAG: graph.fill 1.000000e-01 : f32 shape
// CHECK-COUNT-1: graph.cast
