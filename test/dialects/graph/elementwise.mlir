// RUN: %roundtrip | filecheck %s

// Each elementwise op, with dynamic dimensions and broadcasting.

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<4x?xf32>) {
  // CHECK-NEXT: %abs = graph.abs %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %abs = graph.abs %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %neg = graph.neg %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %neg = graph.neg %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %sign = graph.sign %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %sign = graph.sign %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %floor = graph.floor %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %floor = graph.floor %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %ceil = graph.ceil %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %ceil = graph.ceil %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %round = graph.round %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %round = graph.round %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %reciprocal = graph.reciprocal %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %reciprocal = graph.reciprocal %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %sqrt = graph.sqrt %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %sqrt = graph.sqrt %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %exp = graph.exp %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %exp = graph.exp %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %log = graph.log %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %log = graph.log %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %sin = graph.sin %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %sin = graph.sin %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %cos = graph.cos %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %cos = graph.cos %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %tan = graph.tan %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %tan = graph.tan %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %asin = graph.asin %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %asin = graph.asin %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %acos = graph.acos %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %acos = graph.acos %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %atan = graph.atan %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %atan = graph.atan %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %sinh = graph.sinh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %sinh = graph.sinh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %cosh = graph.cosh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %cosh = graph.cosh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %tanh = graph.tanh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %tanh = graph.tanh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %asinh = graph.asinh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %asinh = graph.asinh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %acosh = graph.acosh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %acosh = graph.acosh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %atanh = graph.atanh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %atanh = graph.atanh %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %erf = graph.erf %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %erf = graph.erf %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  func.return
}

// CHECK-LABEL: func.func @binary_broadcasts(
func.func @binary_broadcasts(%x: tensor<4x?xf32>, %y: tensor<?x1x7xf32>) {
  // CHECK-NEXT: %add = graph.add %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %add = graph.add %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %sub = graph.sub %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %sub = graph.sub %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %mul = graph.mul %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %mul = graph.mul %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %div = graph.div %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %div = graph.div %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %mod = graph.mod %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %mod = graph.mod %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %pow = graph.pow %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %pow = graph.pow %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %maximum = graph.maximum %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %maximum = graph.maximum %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %minimum = graph.minimum %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %minimum = graph.minimum %x, %y : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  // CHECK-NEXT: %fmod = graph.mod %x, %y fmod true : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  %fmod = graph.mod %x, %y fmod true : (tensor<4x?xf32>, tensor<?x1x7xf32>) -> tensor<?x4x7xf32>
  func.return
}

// CHECK-LABEL: func.func @exponent_of_another_type(
func.func @exponent_of_another_type(%x: tensor<3xf16>, %y: tensor<i64>) {
  // CHECK-NEXT: %0 = graph.pow %x, %y : (tensor<3xf16>, tensor<i64>) -> tensor<3xf16>
  %0 = graph.pow %x, %y : (tensor<3xf16>, tensor<i64>) -> tensor<3xf16>
  func.return
}

// CHECK-LABEL: func.func @bits(
func.func @bits(%x: tensor<3xui8>, %y: tensor<3xui8>, %p: tensor<2xi1>) {
  // CHECK-NEXT: %and = graph.and %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %and = graph.and %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %or = graph.or %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %or = graph.or %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %xor = graph.xor %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %xor = graph.xor %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %not = graph.not %x : (tensor<3xui8>) -> tensor<3xui8>
  %not = graph.not %x : (tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %left = graph.shift left %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %left = graph.shift left %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %right = graph.shift right %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  %right = graph.shift right %x, %y : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
  // CHECK-NEXT: %l_and = graph.and %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %l_and = graph.and %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK-NEXT: %l_or = graph.or %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %l_or = graph.or %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK-NEXT: %l_xor = graph.xor %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %l_xor = graph.xor %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK-NEXT: %l_not = graph.not %p : (tensor<2xi1>) -> tensor<2xi1>
  %l_not = graph.not %p : (tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// CHECK-LABEL: func.func @compare(
func.func @compare(%x: tensor<3xi32>, %y: tensor<i32>, %p: tensor<2xi1>) {
  // CHECK-NEXT: %eq = graph.compare eq %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %eq = graph.compare eq %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %ne = graph.compare ne %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %ne = graph.compare ne %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %lt = graph.compare lt %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %lt = graph.compare lt %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %le = graph.compare le %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %le = graph.compare le %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %gt = graph.compare gt %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %gt = graph.compare gt %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %ge = graph.compare ge %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  %ge = graph.compare ge %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi1>
  // CHECK-NEXT: %same = graph.compare eq %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %same = graph.compare eq %p, %p : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// CHECK-LABEL: func.func @tests(
func.func @tests(%x: tensor<3xbf16>) {
  // CHECK-NEXT: %nan = graph.is_nan %x : (tensor<3xbf16>) -> tensor<3xi1>
  %nan = graph.is_nan %x : (tensor<3xbf16>) -> tensor<3xi1>
  // CHECK-NEXT: %inf = graph.is_inf %x : (tensor<3xbf16>) -> tensor<3xi1>
  %inf = graph.is_inf %x : (tensor<3xbf16>) -> tensor<3xi1>
  // CHECK-NEXT: %negative = graph.is_inf %x positive false : (tensor<3xbf16>) -> tensor<3xi1>
  %negative = graph.is_inf %x positive false : (tensor<3xbf16>) -> tensor<3xi1>
  func.return
}

// CHECK-LABEL: func.func @select(
func.func @select(%c: tensor<2x1xi1>, %x: tensor<3xi64>, %y: tensor<i64>) {
  // CHECK-NEXT: %0 = graph.select %c, %x, %y : (tensor<2x1xi1>, tensor<3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %0 = graph.select %c, %x, %y : (tensor<2x1xi1>, tensor<3xi64>, tensor<i64>) -> tensor<2x3xi64>
  func.return
}

// CHECK-LABEL: func.func @clamp(
func.func @clamp(%x: tensor<3xf32>, %low: tensor<f32>, %high: tensor<1xf32>) {
  // CHECK-NEXT: %both = graph.clamp %x low %low high %high : (tensor<3xf32>, tensor<f32>, tensor<1xf32>) -> tensor<3xf32>
  %both = graph.clamp %x low %low high %high : (tensor<3xf32>, tensor<f32>, tensor<1xf32>) -> tensor<3xf32>
  // CHECK-NEXT: %from = graph.clamp %x low %low : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %from = graph.clamp %x low %low : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK-NEXT: %to = graph.clamp %x high %low : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %to = graph.clamp %x high %low : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// CHECK-LABEL: func.func @conversions(
func.func @conversions(%x: tensor<3xf32>) {
  // CHECK-NEXT: %cast = graph.cast %x to i8 : (tensor<3xf32>) -> tensor<3xi8>
  %cast = graph.cast %x to i8 : (tensor<3xf32>) -> tensor<3xi8>
  // CHECK-NEXT: %bool = graph.cast %x to i1 : (tensor<3xf32>) -> tensor<3xi1>
  %bool = graph.cast %x to i1 : (tensor<3xf32>) -> tensor<3xi1>
  // CHECK-NEXT: %bits = graph.bitcast %x to ui32 : (tensor<3xf32>) -> tensor<3xui32>
  %bits = graph.bitcast %x to ui32 : (tensor<3xf32>) -> tensor<3xui32>
  func.return
}
