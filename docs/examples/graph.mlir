// An example of each op of the dialect `graph`: the function of its name. The reference shows what it
// returns; tests run it, and print and read it again.

func.func @relu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @sigmoid() -> tensor<3xf32> {
  %x = graph.constant dense<[-2.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.sigmoid %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @silu() -> tensor<3xf32> {
  %x = graph.constant dense<[-2.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.silu %x alpha 2.0 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @gelu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.gelu %x approximate tanh : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @softplus() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.softplus %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @softsign() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 3.0]> : tensor<3xf32>
  %y = graph.softsign %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @mish() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.mish %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @elu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.elu %x alpha 0.5 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @selu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.selu %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @celu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.celu %x alpha 2.0 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @leaky_relu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.leaky_relu %x alpha 0.1 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @thresholded_relu() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.5, 2.0]> : tensor<3xf32>
  %y = graph.thresholded_relu %x alpha 1.0 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @hard_sigmoid() -> tensor<3xf32> {
  %x = graph.constant dense<[-9.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.hard_sigmoid %x alpha 0.25 beta 0.5 : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @hard_swish() -> tensor<3xf32> {
  %x = graph.constant dense<[-9.0, 1.0, 9.0]> : tensor<3xf32>
  %y = graph.hard_swish %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @shrink() -> tensor<4xf32> {
  %x = graph.constant dense<[-3.0, -0.5, 0.5, 3.0]> : tensor<4xf32>
  %y = graph.shrink %x bias 1.0 lambd 2.0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

func.func @prelu() -> tensor<2x2xf32> {
  %x = graph.constant dense<[[-1.0, 2.0], [-3.0, 4.0]]> : tensor<2x2xf32>
  %s = graph.constant dense<[[0.5], [0.1]]> : tensor<2x1xf32>
  %y = graph.prelu %x, %s : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

func.func @attention() -> tensor<1x1x2x1xf32> {
  %q = graph.constant dense<[[[[1.0, 0.0], [0.0, 1.0]]]]> : tensor<1x1x2x2xf32>
  %k = graph.constant dense<[[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]]> : tensor<1x1x3x2xf32>
  %v = graph.constant dense<[[[[10.0], [20.0], [30.0]]]]> : tensor<1x1x3x1xf32>
  %y = graph.attention %q, %k, %v causal true : (tensor<1x1x2x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x2x1xf32>
  func.return %y : tensor<1x1x2x1xf32>
}

func.func @attention_scores() -> tensor<1x1x1x3xf32> {
  %q = graph.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>
  %k = graph.constant dense<[[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]]> : tensor<1x1x3x2xf32>
  %y = graph.attention_scores raw %q, %k scale 1.0 : (tensor<1x1x1x2xf32>, tensor<1x1x3x2xf32>) -> tensor<1x1x1x3xf32>
  func.return %y : tensor<1x1x1x3xf32>
}

func.func @rotary_embedding() -> tensor<1x1x4xf32> {
  %x = graph.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
  %c = graph.constant dense<[[0.0, 1.0]]> : tensor<1x2xf32>
  %s = graph.constant dense<[[1.0, 0.0]]> : tensor<1x2xf32>
  %y = graph.rotary_embedding %x, %c, %s : (tensor<1x1x4xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1x4xf32>
  func.return %y : tensor<1x1x4xf32>
}

func.func @append() -> tensor<4x2xf32> {
  %cache = graph.constant dense<0.0> : tensor<4x2xf32>
  %rows = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %n = graph.constant dense<4> : tensor<i64>
  %y = graph.append %cache, %rows at %n axis 0 : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i64>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

func.func @constant() -> tensor<2xf32> {
  %y = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @range() -> tensor<4xi64> {
  %a = graph.constant dense<0> : tensor<i64>
  %b = graph.constant dense<10> : tensor<i64>
  %d = graph.constant dense<3> : tensor<i64>
  %y = graph.range %a, %b, %d : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

func.func @fill() -> tensor<2x2xf16> {
  %y = graph.fill 1.5 : f16 shape [2, 2] : () -> tensor<2x2xf16>
  func.return %y : tensor<2x2xf16>
}

func.func @eye() -> tensor<2x3xf32> {
  %y = graph.eye f32 shape [2, 3] diagonal 1 : () -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

func.func @tri() -> tensor<2x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.tri %x upper true : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

func.func @non_max_suppression() -> tensor<?x3xi64> {
  %b = graph.constant dense<[[[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 5.0, 1.0, 6.0]]]> : tensor<1x3x4xf32>
  %s = graph.constant dense<[[[0.9, 0.8, 0.7]]]> : tensor<1x1x3xf32>
  %n = graph.constant dense<3> : tensor<i64>
  %t = graph.constant dense<0.5> : tensor<f32>
  %y = graph.non_max_suppression %b, %s max_output %n iou_threshold %t : (tensor<1x3x4xf32>, tensor<1x1x3xf32>, tensor<i64>, tensor<f32>) -> tensor<?x3xi64>
  func.return %y : tensor<?x3xi64>
}

func.func @abs() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.abs %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @neg() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.neg %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @sign() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.0, 2.0]> : tensor<3xf32>
  %y = graph.sign %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @floor() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.5, 2.0]> : tensor<3xf32>
  %y = graph.floor %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @ceil() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.5, 0.5, 2.0]> : tensor<3xf32>
  %y = graph.ceil %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @round() -> tensor<4xf32> {
  %x = graph.constant dense<[-1.5, 0.5, 1.5, 2.6]> : tensor<4xf32>
  %y = graph.round %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

func.func @not() -> tensor<2xi1> {
  %x = graph.constant dense<[true, false]> : tensor<2xi1>
  %y = graph.not %x : (tensor<2xi1>) -> tensor<2xi1>
  func.return %y : tensor<2xi1>
}

func.func @reciprocal() -> tensor<2xf32> {
  %x = graph.constant dense<[0.5, 4.0]> : tensor<2xf32>
  %y = graph.reciprocal %x : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @sqrt() -> tensor<3xf32> {
  %x = graph.constant dense<[0.25, 4.0, -1.0]> : tensor<3xf32>
  %y = graph.sqrt %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @exp() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @log() -> tensor<3xf32> {
  %x = graph.constant dense<[1.0, 2.0, 0.0]> : tensor<3xf32>
  %y = graph.log %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @tanh() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.tanh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @erf() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.erf %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @add() -> tensor<2x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %z = graph.add %x, %y : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return %z : tensor<2x2xf32>
}

func.func @sub() -> tensor<3xf32> {
  %x = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<1.0> : tensor<f32>
  %z = graph.sub %x, %y : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

func.func @mul() -> tensor<2x3xi32> {
  %x = graph.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %y = graph.constant dense<[10, 20, 30]> : tensor<3xi32>
  %z = graph.mul %x, %y : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  func.return %z : tensor<2x3xi32>
}

func.func @div() -> tensor<3xi32> {
  %x = graph.constant dense<[7, -7, 9]> : tensor<3xi32>
  %y = graph.constant dense<2> : tensor<i32>
  %z = graph.div %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  func.return %z : tensor<3xi32>
}

func.func @mod() -> tensor<3xi32> {
  %x = graph.constant dense<[7, -7, 9]> : tensor<3xi32>
  %y = graph.constant dense<4> : tensor<i32>
  %z = graph.mod %x, %y : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  func.return %z : tensor<3xi32>
}

func.func @pow() -> tensor<3xf32> {
  %x = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<2> : tensor<i64>
  %z = graph.pow %x, %y : (tensor<3xf32>, tensor<i64>) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

func.func @maximum() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<0.0> : tensor<f32>
  %z = graph.maximum %x, %y : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

func.func @minimum() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<0.0> : tensor<f32>
  %z = graph.minimum %x, %y : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

func.func @and() -> tensor<3xui8> {
  %x = graph.constant dense<[12, 10, 1]> : tensor<3xui8>
  %y = graph.constant dense<6> : tensor<ui8>
  %z = graph.and %x, %y : (tensor<3xui8>, tensor<ui8>) -> tensor<3xui8>
  func.return %z : tensor<3xui8>
}

func.func @or() -> tensor<3xui8> {
  %x = graph.constant dense<[12, 10, 1]> : tensor<3xui8>
  %y = graph.constant dense<6> : tensor<ui8>
  %z = graph.or %x, %y : (tensor<3xui8>, tensor<ui8>) -> tensor<3xui8>
  func.return %z : tensor<3xui8>
}

func.func @xor() -> tensor<3xui8> {
  %x = graph.constant dense<[12, 10, 1]> : tensor<3xui8>
  %y = graph.constant dense<6> : tensor<ui8>
  %z = graph.xor %x, %y : (tensor<3xui8>, tensor<ui8>) -> tensor<3xui8>
  func.return %z : tensor<3xui8>
}

func.func @shift() -> tensor<3xui8> {
  %x = graph.constant dense<[1, 2, 255]> : tensor<3xui8>
  %y = graph.constant dense<1> : tensor<ui8>
  %z = graph.shift left %x, %y : (tensor<3xui8>, tensor<ui8>) -> tensor<3xui8>
  func.return %z : tensor<3xui8>
}

func.func @compare() -> tensor<3xi1> {
  %x = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<2.0> : tensor<f32>
  %z = graph.compare lt %x, %y : (tensor<3xf32>, tensor<f32>) -> tensor<3xi1>
  func.return %z : tensor<3xi1>
}

func.func @is_nan() -> tensor<3xi1> {
  %x = graph.constant dense<[1.0, 0x7FC00000, 0x7F800000]> : tensor<3xf32>
  %y = graph.is_nan %x : (tensor<3xf32>) -> tensor<3xi1>
  func.return %y : tensor<3xi1>
}

func.func @is_inf() -> tensor<3xi1> {
  %x = graph.constant dense<[1.0, 0x7FC00000, 0x7F800000]> : tensor<3xf32>
  %y = graph.is_inf %x : (tensor<3xf32>) -> tensor<3xi1>
  func.return %y : tensor<3xi1>
}

func.func @select() -> tensor<3xf32> {
  %c = graph.constant dense<[true, false, true]> : tensor<3xi1>
  %x = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = graph.constant dense<0.0> : tensor<f32>
  %z = graph.select %c, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

func.func @clamp() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.5, 7.0]> : tensor<3xf32>
  %low = graph.constant dense<0.0> : tensor<f32>
  %high = graph.constant dense<6.0> : tensor<f32>
  %y = graph.clamp %x low %low high %high : (tensor<3xf32>, tensor<f32>, tensor<f32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @cast() -> tensor<3xi32> {
  %x = graph.constant dense<[-1.7, 0.5, 2.9]> : tensor<3xf32>
  %y = graph.cast %x to i32 : (tensor<3xf32>) -> tensor<3xi32>
  func.return %y : tensor<3xi32>
}

func.func @bitcast() -> tensor<2xui32> {
  %x = graph.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %y = graph.bitcast %x to ui32 : (tensor<2xf32>) -> tensor<2xui32>
  func.return %y : tensor<2xui32>
}

func.func @map_index() -> tensor<i64> {
  %x = graph.constant dense<0.0> : tensor<3x2xf32>
  %y = graph.map_index %x axes [0] table [array<i64: 1>, array<i64: 3>, array<i64: 8>] : (tensor<3x2xf32>) -> tensor<i64>
  func.return %y : tensor<i64>
}

func.func @assume_shape() -> tensor<3x2xf32> {
  %x = graph.constant dense<1.0> : tensor<3x2xf32>
  %y = graph.assume_shape %x shape [3, 2] : (tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

func.func @resize() -> tensor<1x1x3x3xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %y = graph.resize %x sizes [3, 3] axes [2, 3] mode linear coordinates align_corners : (tensor<1x1x2x2xf32>) -> tensor<1x1x3x3xf32>
  func.return %y : tensor<1x1x3x3xf32>
}

func.func @grid_sample() -> tensor<1x1x1x2xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %g = graph.constant dense<[[[[-1.0, -1.0], [0.0, 0.0]]]]> : tensor<1x1x2x2xf32>
  %y = graph.grid_sample %x, %g align_corners true : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x1x2xf32>
  func.return %y : tensor<1x1x1x2xf32>
}

func.func @affine_grid() -> tensor<1x2x2x2xf32> {
  %t = graph.constant dense<[[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]]> : tensor<1x2x3xf32>
  %y = graph.affine_grid %t size [1, 1, 2, 2] align_corners true : (tensor<1x2x3xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

func.func @gather() -> tensor<2x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %i = graph.constant dense<[2, 0]> : tensor<2xi64>
  %y = graph.gather %x, %i : (tensor<3x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

func.func @gather_elements() -> tensor<2x1xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %i = graph.constant dense<[[1], [0]]> : tensor<2x1xi64>
  %y = graph.gather_elements %x, %i axis 1 : (tensor<2x2xf32>, tensor<2x1xi64>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

func.func @gather_nd() -> tensor<2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %i = graph.constant dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>
  %y = graph.gather_nd %x, %i : (tensor<2x2xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @scatter_elements() -> tensor<3xf32> {
  %x = graph.constant dense<0.0> : tensor<3xf32>
  %i = graph.constant dense<[2, 0]> : tensor<2xi64>
  %u = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.scatter_elements %x, %i, %u axis 0 : (tensor<3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @scatter_nd() -> tensor<3x2xf32> {
  %x = graph.constant dense<0.0> : tensor<3x2xf32>
  %i = graph.constant dense<[[2], [2]]> : tensor<2x1xi64>
  %u = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.scatter_nd %x, %i, %u reduction add : (tensor<3x2xf32>, tensor<2x1xi64>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

func.func @tensor_scatter() -> tensor<1x4x2xf32> {
  %x = graph.constant dense<0.0> : tensor<1x4x2xf32>
  %u = graph.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>
  %i = graph.constant dense<[3]> : tensor<1xi64>
  %y = graph.tensor_scatter %x, %u at %i axis 1 : (tensor<1x4x2xf32>, tensor<1x1x2xf32>, tensor<1xi64>) -> tensor<1x4x2xf32>
  func.return %y : tensor<1x4x2xf32>
}

func.func @nonzero() -> tensor<2x?xi64> {
  %x = graph.constant dense<[[1.0, 0.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.nonzero %x : (tensor<2x2xf32>) -> tensor<2x?xi64>
  func.return %y : tensor<2x?xi64>
}

func.func @compress() -> tensor<?x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %c = graph.constant dense<[true, false, true]> : tensor<3xi1>
  %y = graph.compress %x, %c axis 0 : (tensor<3x2xf32>, tensor<3xi1>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

func.func @unique() -> (tensor<?xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>) {
  %x = graph.constant dense<[3.0, 1.0, 3.0, 2.0]> : tensor<4xf32>
  %y, %z, %u, %v = graph.unique %x : (tensor<4xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>)
  func.return %y, %z, %u, %v : tensor<?xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>
}

func.func @one_hot() -> tensor<2x3xf32> {
  %i = graph.constant dense<[0, 2]> : tensor<2xi64>
  %v = graph.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %y = graph.one_hot %i, %v depth 3 : (tensor<2xi64>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

func.func @top_k() -> (tensor<2xf32>, tensor<2xi64>) {
  %x = graph.constant dense<[3.0, 1.0, 4.0, 2.0]> : tensor<4xf32>
  %y, %z = graph.top_k %x k 2 : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  func.return %y, %z : tensor<2xf32>, tensor<2xi64>
}

func.func @matmul() -> tensor<2x1xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %w = graph.constant dense<[[10.0], [1.0]]> : tensor<2x1xf32>
  %y = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

func.func @grouped_matmul() -> tensor<2x1x1xf32> {
  %x = graph.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %w = graph.constant dense<[[[1.0], [0.0]], [[0.0], [1.0]]]> : tensor<2x2x1xf32>
  %g = graph.constant dense<[1, 0]> : tensor<2xi64>
  %y = graph.grouped_matmul %x, %w groups %g : (tensor<2x1x2xf32>, tensor<2x2x1xf32>, tensor<2xi64>) -> tensor<2x1x1xf32>
  func.return %y : tensor<2x1x1xf32>
}

func.func @einsum() -> tensor<2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.constant dense<[10.0, 1.0]> : tensor<2xf32>
  %z = graph.einsum "ij,j->i" %x, %y : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}

func.func @det() -> tensor<f32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.det %x : (tensor<2x2xf32>) -> tensor<f32>
  func.return %y : tensor<f32>
}

func.func @softmax() -> tensor<1x3xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %y = graph.softmax %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

func.func @log_softmax() -> tensor<1x3xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %y = graph.log_softmax %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

func.func @hardmax() -> tensor<1x3xf32> {
  %x = graph.constant dense<[[1.0, 3.0, 3.0]]> : tensor<1x3xf32>
  %y = graph.hardmax %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

func.func @layer_norm() -> tensor<1x4xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %s = graph.constant dense<1.0> : tensor<4xf32>
  %b = graph.constant dense<0.5> : tensor<4xf32>
  %y = graph.layer_norm %x, %s, %b : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}

func.func @rms_norm() -> tensor<1x2xf32> {
  %x = graph.constant dense<[[3.0, 4.0]]> : tensor<1x2xf32>
  %s = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.rms_norm %x, %s : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

func.func @group_norm() -> tensor<1x4x1xf32> {
  %x = graph.constant dense<[[[1.0], [3.0], [10.0], [30.0]]]> : tensor<1x4x1xf32>
  %s = graph.constant dense<1.0> : tensor<4xf32>
  %b = graph.constant dense<0.0> : tensor<4xf32>
  %y = graph.group_norm %x, %s, %b groups 2 : (tensor<1x4x1xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x1xf32>
  func.return %y : tensor<1x4x1xf32>
}

func.func @batch_norm() -> tensor<1x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %s = graph.constant dense<1.0> : tensor<2xf32>
  %b = graph.constant dense<0.0> : tensor<2xf32>
  %m = graph.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %v = graph.constant dense<4.0> : tensor<2xf32>
  %y = graph.batch_norm %x, %s, %b, %m, %v : (tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

func.func @pool() -> tensor<1x1x2xf32> {
  %x = graph.constant dense<[[[1.0, 3.0, 2.0, 4.0]]]> : tensor<1x1x4xf32>
  %y = graph.pool max %x kernel [2] strides [2] : (tensor<1x1x4xf32>) -> tensor<1x1x2xf32>
  func.return %y : tensor<1x1x2xf32>
}

func.func @max_pool_indices() -> (tensor<1x1x2xf32>, tensor<1x1x2xi64>) {
  %x = graph.constant dense<[[[1.0, 3.0, 2.0, 4.0]]]> : tensor<1x1x4xf32>
  %y, %z = graph.max_pool_indices %x kernel [2] strides [2] : (tensor<1x1x4xf32>) -> (tensor<1x1x2xf32>, tensor<1x1x2xi64>)
  func.return %y, %z : tensor<1x1x2xf32>, tensor<1x1x2xi64>
}

func.func @max_unpool() -> tensor<1x1x4xf32> {
  %x = graph.constant dense<[[[3.0, 4.0]]]> : tensor<1x1x2xf32>
  %i = graph.constant dense<[[[1, 3]]]> : tensor<1x1x2xi64>
  %y = graph.max_unpool %x, %i kernel [2] strides [2] : (tensor<1x1x2xf32>, tensor<1x1x2xi64>) -> tensor<1x1x4xf32>
  func.return %y : tensor<1x1x4xf32>
}

func.func @lrn() -> tensor<1x2x1xf32> {
  %x = graph.constant dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>
  %y = graph.lrn %x size 3 alpha 1.0 : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  func.return %y : tensor<1x2x1xf32>
}

func.func @roi_align() -> tensor<1x1x1x1xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %r = graph.constant dense<[[0.0, 0.0, 2.0, 2.0]]> : tensor<1x4xf32>
  %b = graph.constant dense<[0]> : tensor<1xi64>
  %y = graph.roi_align %x, %r, %b output_size [1, 1] sampling_ratio 1 : (tensor<1x1x2x2xf32>, tensor<1x4xf32>, tensor<1xi64>) -> tensor<1x1x1x1xf32>
  func.return %y : tensor<1x1x1x1xf32>
}

func.func @max_roi_pool() -> tensor<1x1x1x2xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %r = graph.constant dense<[[0.0, 0.0, 0.0, 1.0, 1.0]]> : tensor<1x5xf32>
  %y = graph.max_roi_pool %x, %r output_size [1, 2] : (tensor<1x1x2x2xf32>, tensor<1x5xf32>) -> tensor<1x1x1x2xf32>
  func.return %y : tensor<1x1x1x2xf32>
}

func.func @quantize() -> tensor<3xi8> {
  %x = graph.constant dense<[-1.0, 0.26, 9.0]> : tensor<3xf32>
  %s = graph.constant dense<0.05> : tensor<f32>
  %z = graph.constant dense<10> : tensor<i8>
  %y = graph.quantize %x, %s, %z to i8 : (tensor<3xf32>, tensor<f32>, tensor<i8>) -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}

func.func @dequantize() -> tensor<3xf32> {
  %x = graph.constant dense<[-10, 15, 127]> : tensor<3xi8>
  %s = graph.constant dense<0.05> : tensor<f32>
  %z = graph.constant dense<10> : tensor<i8>
  %y = graph.dequantize %x, %s, %z : (tensor<3xi8>, tensor<f32>, tensor<i8>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @requantize() -> tensor<3xi8> {
  %x = graph.constant dense<[-1000, 500, 99999]> : tensor<3xi32>
  %s = graph.constant dense<0.05> : tensor<f32>
  %y = graph.requantize %x, %s to i8 : (tensor<3xi32>, tensor<f32>) -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}

func.func @lookup() -> tensor<2xf16> {
  %x = graph.constant dense<[0, 255]> : tensor<2xui8>
  %t = graph.constant dense<0.5> : tensor<256xf16>
  %y = graph.lookup %x, %t : (tensor<2xui8>, tensor<256xf16>) -> tensor<2xf16>
  func.return %y : tensor<2xf16>
}

func.func @dynamic_quantize() -> (tensor<3xui8>, tensor<f32>, tensor<ui8>) {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y, %z, %u = graph.dynamic_quantize %x : (tensor<3xf32>) -> (tensor<3xui8>, tensor<f32>, tensor<ui8>)
  func.return %y, %z, %u : tensor<3xui8>, tensor<f32>, tensor<ui8>
}

func.func @rnn() -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>) {
  %x = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %w = graph.constant dense<0.5> : tensor<1x1x1xf32>
  %r = graph.constant dense<0.1> : tensor<1x1x1xf32>
  %y, %z = graph.rnn %x, %w, %r : (tensor<2x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %z : tensor<2x1x1x1xf32>, tensor<1x1x1xf32>
}

func.func @gru() -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>) {
  %x = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %w = graph.constant dense<0.5> : tensor<1x3x1xf32>
  %r = graph.constant dense<0.1> : tensor<1x3x1xf32>
  %y, %z = graph.gru %x, %w, %r : (tensor<2x1x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %z : tensor<2x1x1x1xf32>, tensor<1x1x1xf32>
}

func.func @lstm() -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) {
  %x = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %w = graph.constant dense<0.5> : tensor<1x4x1xf32>
  %r = graph.constant dense<0.1> : tensor<1x4x1xf32>
  %y, %z, %u = graph.lstm %x, %w, %r : (tensor<2x1x1xf32>, tensor<1x4x1xf32>, tensor<1x4x1xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %z, %u : tensor<2x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
}

func.func @reduce() -> tensor<2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.reduce sum %x axes [1] keep_dims false : (tensor<2x2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @arg_reduce() -> tensor<2xi64> {
  %x = graph.constant dense<[[1.0, 2.0], [4.0, 3.0]]> : tensor<2x2xf32>
  %y = graph.arg_reduce max %x axis 1 keep_dims false : (tensor<2x2xf32>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

func.func @cumulative() -> tensor<4xf32> {
  %x = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = graph.cumulative sum %x axis 0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

func.func @reshape() -> tensor<3x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %y = graph.reshape %x shape [3, -1] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

func.func @squeeze() -> tensor<1x3xf32> {
  %x = graph.constant dense<1.0> : tensor<1x3x1xf32>
  %y = graph.squeeze %x axes [-1] : (tensor<1x3x1xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

func.func @unsqueeze() -> tensor<1x3xf32> {
  %x = graph.constant dense<1.0> : tensor<3xf32>
  %y = graph.unsqueeze %x axes [0] : (tensor<3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

func.func @transpose() -> tensor<3x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %y = graph.transpose %x permutation [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

func.func @depth_to_space() -> tensor<1x1x2x2xf32> {
  %x = graph.constant dense<[[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]> : tensor<1x4x1x1xf32>
  %y = graph.depth_to_space %x block 2 : (tensor<1x4x1x1xf32>) -> tensor<1x1x2x2xf32>
  func.return %y : tensor<1x1x2x2xf32>
}

func.func @space_to_depth() -> tensor<1x4x1x1xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %y = graph.space_to_depth %x block 2 : (tensor<1x1x2x2xf32>) -> tensor<1x4x1x1xf32>
  func.return %y : tensor<1x4x1x1xf32>
}

func.func @reverse_sequence() -> tensor<2x3xf32> {
  %x = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %n = graph.constant dense<[2, 3]> : tensor<2xi64>
  %y = graph.reverse_sequence %x, %n batch_axis 0 time_axis 1 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

func.func @broadcast_to() -> tensor<2x3xf32> {
  %x = graph.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %y = graph.broadcast_to %x shape [2, 3] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

func.func @tile() -> tensor<2x4xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %y = graph.tile %x repeats [2, 2] : (tensor<1x2xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

func.func @shape_of() -> tensor<1xi64> {
  %x = graph.constant dense<0.0> : tensor<2x3xf32>
  %y = graph.shape_of %x start 1 : (tensor<2x3xf32>) -> tensor<1xi64>
  func.return %y : tensor<1xi64>
}

func.func @dft() -> tensor<1x3x2xf32> {
  %x = graph.constant dense<[[[1.0], [0.0], [0.0], [0.0]]]> : tensor<1x4x1xf32>
  %y = graph.dft %x axis 1 onesided true : (tensor<1x4x1xf32>) -> tensor<1x3x2xf32>
  func.return %y : tensor<1x3x2xf32>
}

func.func @stft() -> tensor<1x2x2x2xf32> {
  %x = graph.constant dense<[[[1.0], [2.0], [3.0], [4.0]]]> : tensor<1x4x1xf32>
  %y = graph.stft %x frame_step 2 frame_length 2 : (tensor<1x4x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

func.func @mel_weight_matrix() -> tensor<5x2xf32> {
  %bins = graph.constant dense<2> : tensor<i64>
  %length = graph.constant dense<8> : tensor<i64>
  %rate = graph.constant dense<8000> : tensor<i64>
  %low = graph.constant dense<0.0> : tensor<f32>
  %high = graph.constant dense<4000.0> : tensor<f32>
  %y = graph.mel_weight_matrix %bins, %length, %rate, %low, %high : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<5x2xf32>
  func.return %y : tensor<5x2xf32>
}

func.func @concat() -> tensor<1x3xf32> {
  %x = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %y = graph.constant dense<[[3.0]]> : tensor<1x1xf32>
  %z = graph.concat %x, %y axis 1 : (tensor<1x2xf32>, tensor<1x1xf32>) -> tensor<1x3xf32>
  func.return %z : tensor<1x3xf32>
}

func.func @split() -> (tensor<1x1xf32>, tensor<1x2xf32>) {
  %x = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %y, %z = graph.split %x sizes [1, 2] axis 1 : (tensor<1x3xf32>) -> (tensor<1x1xf32>, tensor<1x2xf32>)
  func.return %y, %z : tensor<1x1xf32>, tensor<1x2xf32>
}

func.func @slice() -> tensor<2xf32> {
  %x = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %y = graph.slice %x starts [1] ends [5] steps [2] : (tensor<5xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @pad() -> tensor<5xf32> {
  %x = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.pad %x pads [1, 2] mode edge : (tensor<2xf32>) -> tensor<5xf32>
  func.return %y : tensor<5xf32>
}

func.func @conv() -> tensor<1x1x3xf32> {
  %x = graph.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
  %w = graph.constant dense<[[[1.0, 10.0]]]> : tensor<1x1x2xf32>
  %b = graph.constant dense<[0.5]> : tensor<1xf32>
  %y = graph.conv %x, %w bias %b : (tensor<1x1x4xf32>, tensor<1x1x2xf32>, tensor<1xf32>) -> tensor<1x1x3xf32>
  func.return %y : tensor<1x1x3xf32>
}

func.func @conv_transpose() -> tensor<1x1x4xf32> {
  %x = graph.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>
  %w = graph.constant dense<[[[1.0, 10.0]]]> : tensor<1x1x2xf32>
  %y = graph.conv_transpose %x, %w strides [2] : (tensor<1x1x2xf32>, tensor<1x1x2xf32>) -> tensor<1x1x4xf32>
  func.return %y : tensor<1x1x4xf32>
}

func.func @deform_conv() -> tensor<1x1x2x2xf32> {
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %w = graph.constant dense<10.0> : tensor<1x1x1x1xf32>
  %o = graph.constant dense<0.5> : tensor<1x2x2x2xf32>
  %y = graph.deform_conv %x, %w, %o : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>, tensor<1x2x2x2xf32>) -> tensor<1x1x2x2xf32>
  func.return %y : tensor<1x1x2x2xf32>
}

func.func @col2im() -> tensor<1x1x1x3xf32> {
  %x = graph.constant dense<[[[1.0, 2.0], [3.0, 4.0]]]> : tensor<1x2x2xf32>
  %y = graph.col2im %x image_shape [1, 3] block_shape [1, 2] : (tensor<1x2x2xf32>) -> tensor<1x1x1x3xf32>
  func.return %y : tensor<1x1x1x3xf32>
}

func.func @sin() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @cos() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.cos %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @tan() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.tan %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @asin() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 0.5]> : tensor<3xf32>
  %y = graph.asin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @acos() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 0.5]> : tensor<3xf32>
  %y = graph.acos %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @atan() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.atan %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @sinh() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.sinh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @cosh() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.cosh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @asinh() -> tensor<3xf32> {
  %x = graph.constant dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>
  %y = graph.asinh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @acosh() -> tensor<3xf32> {
  %x = graph.constant dense<[1.0, 2.0, 0.0]> : tensor<3xf32>
  %y = graph.acosh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @atanh() -> tensor<3xf32> {
  %x = graph.constant dense<[-0.5, 0.0, 0.5]> : tensor<3xf32>
  %y = graph.atanh %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @if() -> tensor<2xf32> {
  %c = graph.constant dense<true> : tensor<i1>
  %x = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.if %c : (tensor<i1>) -> tensor<2xf32> {
    %0 = graph.neg %x : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %0 : tensor<2xf32>
  } else {
    graph.yield %x : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}

func.func @assert() -> tensor<2xf32> {
  %c = graph.constant dense<true> : tensor<i1>
  %x = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.assert %x, %c, "the branch that is left out is taken" : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

func.func @case() -> tensor<f32> {
  %i = graph.constant dense<1> : tensor<i64>
  %a = graph.constant dense<10.0> : tensor<f32>
  %b = graph.constant dense<20.0> : tensor<f32>
  %y = graph.case %i : (tensor<i64>) -> tensor<f32> {
    graph.yield %a : tensor<f32>
  } {
    graph.yield %b : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// The sum of 1.0 and 1.0 again and again, and what it was after each of three rounds.
func.func @loop() -> (tensor<f32>, tensor<3xf32>) {
  %n = graph.constant dense<3> : tensor<i64>
  %x = graph.constant dense<1.0> : tensor<f32>
  %y, %ys = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s = %x : tensor<f32>) -> (tensor<f32>, tensor<3xf32>) {
    %t = graph.add %s, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.yield %go, %t, %t : tensor<i1>, tensor<f32>, tensor<f32>
  }
  func.return %y, %ys : tensor<f32>, tensor<3xf32>
}

func.func @yield() -> tensor<f32> {
  %c = graph.constant dense<false> : tensor<i1>
  %x = graph.constant dense<1.0> : tensor<f32>
  %z = graph.constant dense<0.0> : tensor<f32>
  %y = graph.if %c : (tensor<i1>) -> tensor<f32> {
    graph.yield %x : tensor<f32>
  } else {
    graph.yield %z : tensor<f32>
  }
  func.return %y : tensor<f32>
}

// The seed is given by the session; each op has a stream of its own.
func.func @random_uniform() -> tensor<3xf32> {
  %seed = graph.constant dense<[7, 0]> : tensor<2xi64>
  %y = graph.random_uniform f32, %seed shape [3] low -1.0 high 1.0 stream 3 : (tensor<2xi64>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @random_normal() -> tensor<3xf32> {
  %seed = graph.constant dense<[7, 0]> : tensor<2xi64>
  %y = graph.random_normal f32, %seed shape [3] mean 10.0 scale 0.5 stream 4 : (tensor<2xi64>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

func.func @derive_seed() -> tensor<2xi64> {
  %seed = graph.constant dense<[7, 0]> : tensor<2xi64>
  %i = graph.constant dense<1> : tensor<i64>
  %y = graph.derive_seed %seed, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

// On two devices: what is returned is put together of both parts.
graph.mesh @mesh ["tp"=2]
func.func @axis_index()
    -> (tensor<1xi64> {graph.sharding = #graph.sharding<@mesh, [{"tp"}]>, graph.whole = array<i64: 2>}) {
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %y = graph.reshape %i shape [1] : (tensor<i64>) -> tensor<1xi64>
  func.return %y : tensor<1xi64>
}

// A mesh of six devices, of which the program is that of each.
graph.mesh @mesh ["dp"=2, "tp"=3]
func.func @mesh_()
    -> (tensor<1xi64> {graph.sharding = #graph.sharding<@mesh, [{"dp", "tp"}]>, graph.whole = array<i64: 6>}) {
  %i = graph.axis_index over <"dp"=2, "tp"=3> : () -> tensor<i64>
  %y = graph.reshape %i shape [1] : (tensor<i64>) -> tensor<1xi64>
  func.return %y : tensor<1xi64>
}

// Before `partition-spmd`: the values are whole.
graph.mesh @mesh ["dp"=2, "tp"=2]
func.func @shard() -> tensor<2x2xf32> {
  %x = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = graph.shard %x sharding <@mesh, [{"dp"}, {"tp", ?}]> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// Before a program is cut into stages: what uses %y is in the second one.
func.func @stage() -> tensor<2xf32> {
  %x = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = graph.stage %x from 1 : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// Of 1 and 2 on one device, and of 2 and 3 on the other.
graph.mesh @mesh ["tp"=2]
func.func @all_reduce() -> tensor<2xi64> {
  %c = graph.constant dense<[1, 2]> : tensor<2xi64>
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %x = graph.add %c, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %y = graph.all_reduce sum %x over <"tp"=2> : (tensor<2xi64>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

graph.mesh @mesh ["tp"=2]
func.func @all_gather() -> tensor<4xi64> {
  %c = graph.constant dense<[1, 2]> : tensor<2xi64>
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %x = graph.add %c, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %y = graph.all_gather %x dim 0 over <"tp"=2> : (tensor<2xi64>) -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

// Each device gets one of the two sums.
graph.mesh @mesh ["tp"=2]
func.func @reduce_scatter()
    -> (tensor<1xi64> {graph.sharding = #graph.sharding<@mesh, [{"tp"}]>, graph.whole = array<i64: 2>}) {
  %c = graph.constant dense<[1, 2]> : tensor<2xi64>
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %x = graph.add %c, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %y = graph.reduce_scatter sum %x dim 0 over <"tp"=2> : (tensor<2xi64>) -> tensor<1xi64>
  func.return %y : tensor<1xi64>
}

// From rows to columns: each device keeps one number, and sends the other one.
graph.mesh @mesh ["tp"=2]
func.func @all_to_all()
    -> (tensor<2x1xi64> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp":(1)2}]>, graph.whole = array<i64: 2, 2>}) {
  %c = graph.constant dense<[[1, 2]]> : tensor<1x2xi64>
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %x = graph.add %c, %i : (tensor<1x2xi64>, tensor<i64>) -> tensor<1x2xi64>
  %y = graph.all_to_all %x shape [2, 2] has <@mesh, [{"tp":(1)2}, {}]> to <@mesh, [{}, {"tp":(1)2}]> : (tensor<1x2xi64>) -> tensor<2x1xi64>
  func.return %y : tensor<2x1xi64>
}

// Of 1, 2, 2, 3 each device has two, and needs one more before and one after.
graph.mesh @mesh ["tp"=2]
func.func @exchange()
    -> (tensor<4xi64> {graph.sharding = #graph.sharding<@mesh, [{"tp"}]>, graph.whole = array<i64: 8>}) {
  %c = graph.constant dense<[1, 2]> : tensor<2xi64>
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %x = graph.add %c, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %y = graph.exchange %x shape [4] has <@mesh, [{"tp":(1)2}]> needs <["tp"=2 * 2 + -1 : 4]> fill 0 : i64 : (tensor<2xi64>) -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

// The memory of both values may be given to others behind it.
graph.mesh @mesh ["tp"=2]
func.func @acknowledge() -> tensor<i64> {
  %i = graph.axis_index over <"tp"=2> : () -> tensor<i64>
  %y = graph.all_reduce max %i over <"tp"=2> : (tensor<i64>) -> tensor<i64>
  graph.acknowledge %i, %y : tensor<i64>, tensor<i64>
  func.return %y : tensor<i64>
}
