// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.attention' op operand 'query': expected a tensor of rank 4 of floats or i8, not tensor<2x4x5x8xi32>
func.func @f(%q: tensor<2x4x5x8xi32>, %k: tensor<2x2x6x8xi32>, %v: tensor<2x2x6x8xi32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xi32>, tensor<2x2x6x8xi32>, tensor<2x2x6x8xi32>) -> tensor<2x4x5x8xi32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op element types differ: f32 and f16{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf16>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf16>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'query': expected a tensor of rank 4 of floats or i8, not tensor<4x5x8xf32>
func.func @f(%q: tensor<4x5x8xf32>, %k: tensor<4x6x8xf32>, %v: tensor<4x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<4x5x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'value': expected a tensor of rank 4 of floats or i8, not tensor<2x6x8xf32>
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op sizes of query and key differ: 8 and 9{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x9xf32>, %v: tensor<2x2x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x9xf32>, tensor<2x2x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op 4 heads do not divide among 3 key heads
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op batches of query and key differ: 2 and 3{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<3x2x6x8xf32>, %v: tensor<3x2x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<3x2x6x8xf32>, tensor<3x2x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op batches of query and value differ: 2 and 3{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<3x2x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<3x2x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op heads of key and value differ: 2 and 4{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x4x6x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op numbers of keys and values differ: 6 and 7{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x7x8xf32>) {
  %0 = graph.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x7x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'masks': expected a ranked tensor of floats or truth values (i1), not tensor<5x6xi8>{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<5x6xi8>) {
  %0 = graph.attention %q, %k, %v mask %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<5x6xi8>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op mask of shape [5, 7] does not broadcast to [2, 4, 5, 6]
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<5x7xi1>) {
  %0 = graph.attention %q, %k, %v mask %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<5x7xi1>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op mask of shape [3, 2, 4, 5, 6] does not broadcast to [2, 4, 5, 6]
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<3x2x4x5x6xi1>) {
  %0 = graph.attention %q, %k, %v mask %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<3x2x4x5x6xi1>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'key_lengths': expected a vector of integers, not tensor<2xf32>{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<2xf32>) {
  %0 = graph.attention %q, %k, %v key_lengths %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'key_lengths': expected a vector of integers, not tensor<2x1xi64>
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<2x1xi64>) {
  %0 = graph.attention %q, %k, %v key_lengths %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2x1xi64>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op batches of query and key_lengths differ: 2 and 3{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<3xi64>) {
  %0 = graph.attention %q, %k, %v key_lengths %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<3xi64>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op offset has one element, not shape [2]
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<2xi64>) {
  %0 = graph.attention %q, %k, %v offset %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<2xi64>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op operand 'offset_value': expected a ranked tensor of integers, not tensor<1xf32>{{$}}
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>, %m: tensor<1xf32>) {
  %0 = graph.attention %q, %k, %v offset %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, tensor<1xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: stage is one of raw, capped, biased, weights, not 'soft'
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>) {
  %0 = graph.attention_scores soft %q, %k : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x4x5x6xf32>
  func.return
}

// -----

// CHECK: error: 'graph.rotary_embedding' op operand 'cos': expected a ranked tensor of floats, not tensor<2x4xi8>
func.func @f(%x: tensor<2x8xf32>, %c: tensor<2x4xi8>) {
  %0 = graph.rotary_embedding %x, %c, %c : (tensor<2x8xf32>, tensor<2x4xi8>, tensor<2x4xi8>) -> tensor<2x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.rotary_embedding' op a tensor of rank 0 has nothing to rotate
func.func @f(%x: tensor<f32>, %c: tensor<4xf32>) {
  %0 = graph.rotary_embedding %x, %c, %c : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'graph.rotary_embedding' op cos and sin rotate 10 elements, but there are 8{{$}}
func.func @f(%x: tensor<2x8xf32>, %c: tensor<2x5xf32>) {
  %0 = graph.rotary_embedding %x, %c, %c : (tensor<2x8xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.rotary_embedding' op table of cos and sin of shape [3, 4] does not broadcast to [2, 4]
func.func @f(%x: tensor<2x8xf32>, %c: tensor<3x4xf32>) {
  %0 = graph.rotary_embedding %x, %c, %c : (tensor<2x8xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.rotary_embedding' op full tables of 5 elements do not make pairs
func.func @f(%x: tensor<2x8xf32>, %c: tensor<2x5xf32>) {
  %0 = graph.rotary_embedding %x, %c, %c full_tables true : (tensor<2x8xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

// CHECK: error: undefined is one of zero, nan, guard, not 'one'
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x6x8xf32>) {
  %0 = graph.attention %q, %k, %k undefined one : (tensor<2x4x5x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// With tokens first the second dimension of the key is the number of keys.
// CHECK: error: 'graph.attention' op 4 heads do not divide among 3 key heads
func.func @f(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x3x8xf32>) {
  %0 = graph.attention %q, %k, %k key_tokens_first true : (tensor<2x4x5x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x5x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op key and value are i8 like the query, not i8, f32{{$}}
func.func @f(%q: tensor<1x2x4x8xi8>, %f: tensor<1x2x4x8xf32>) {
  %0 = graph.attention %q, %q, %f rounded_weights true value_scale 1.0 scale 1.0 : (tensor<1x2x4x8xi8>, tensor<1x2x4x8xi8>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op integers need rounded_weights, scale and value_scale
func.func @f(%q: tensor<1x2x4x8xi8>) {
  %0 = graph.attention %q, %q, %q value_scale 1.0 scale 1.0 : (tensor<1x2x4x8xi8>, tensor<1x2x4x8xi8>, tensor<1x2x4x8xi8>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op value_scale is for values of i8{{$}}
func.func @f(%q: tensor<1x2x4x8xf32>) {
  %0 = graph.attention %q, %q, %q value_scale 1.0 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op score_scale and score_zero_point come together
func.func @f(%q: tensor<1x2x4x8xf32>) {
  %0 = graph.attention %q, %q, %q score_scale 1.0 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op property 'weight_scale': expected a finite f64 above 0, not 0.000000e+00 : f64{{$}}
func.func @f(%q: tensor<1x2x4x8xf32>) {
  %0 = graph.attention %q, %q, %q weight_scale 0.0 weight_zero_point 0 : i8 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op scores and weights that are rounded anyway have no other grids
func.func @f(%q: tensor<1x2x4x8xf32>) {
  %0 = graph.attention %q, %q, %q rounded_weights true score_scale 1.0 score_zero_point 0 : i8 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op weights of up to 512 keys have a grid, not of 600{{$}}
func.func @f(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x600x8xf32>) {
  %0 = graph.attention %q, %k, %k weight_scale 1.0 weight_zero_point 0 : i8 : (tensor<1x2x4x8xf32>, tensor<1x2x600x8xf32>, tensor<1x2x600x8xf32>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op a table of blocks comes with a length
func.func @f(%q: tensor<1x2x4x8xf32>, %t: tensor<2xi64>) {
  %0 = graph.attention %q, %q, %q table %t : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<2xi64>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.attention' op 4 rows do not divide into the blocks of tensor<3xi64>
func.func @f(%q: tensor<1x2x4x8xf32>, %n: tensor<i64>, %t: tensor<3xi64>) {
  %0 = graph.attention %q, %q, %q length %n table %t : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<i64>, tensor<3xi64>) -> tensor<1x2x4x8xf32>
  func.return
}

// -----

// CHECK: error: 'graph.append' op 4 rows do not divide into the blocks of tensor<3xi64>
func.func @f(%c: tensor<4x8xf32>, %r: tensor<1x8xf32>, %n: tensor<i64>, %t: tensor<3xi64>) {
  %0 = graph.append %c, %r at %n table %t axis 0 : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i64>, tensor<3xi64>) -> tensor<4x8xf32>
  func.return
}
