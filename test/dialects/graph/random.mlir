// RUN: %roundtrip | filecheck %s

// Random numbers, drawn from a stream of a seed or from a seed of the op's own.

// CHECK-LABEL: func.func @uniform(
func.func @uniform(%seed: tensor<2xi64>, %s: tensor<2xi64>, %u: tensor<?xi64>) {
  // CHECK-NEXT: %plain = graph.random_uniform f32, %seed shape [2, 3] : (tensor<2xi64>) -> tensor<2x3xf32>
  %plain = graph.random_uniform f32, %seed shape [2, 3] : (tensor<2xi64>) -> tensor<2x3xf32>
  // CHECK-NEXT: %limits = graph.random_uniform f16, %seed shape [] low -1.000000e+00 high 3.000000e+00 stream 4 : (tensor<2xi64>) -> tensor<f16>
  %limits = graph.random_uniform f16, %seed shape [] low -1.0 high 3.0 stream 4 : (tensor<2xi64>) -> tensor<f16>
  // CHECK-NEXT: %own = graph.random_uniform f64, %seed shape [0] own -7 : (tensor<2xi64>) -> tensor<0xf64>
  %own = graph.random_uniform f64, %seed shape [0] own -7 : (tensor<2xi64>) -> tensor<0xf64>
  // CHECK-NEXT: %given = graph.random_uniform f32, %seed shape %s stream 4294967295 : (tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  %given = graph.random_uniform f32, %seed shape %s stream 4294967295 : (tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  // CHECK-NEXT: %rank = graph.random_uniform f32, %seed shape %u : (tensor<2xi64>, tensor<?xi64>) -> tensor<*xf32>
  %rank = graph.random_uniform f32, %seed shape %u : (tensor<2xi64>, tensor<?xi64>) -> tensor<*xf32>
  func.return
}

// CHECK-LABEL: func.func @normal(
func.func @normal(%seed: tensor<2xi64>) {
  // CHECK-NEXT: %0 = graph.random_normal bf16, %seed shape [5] mean 1.000000e+00 scale 2.000000e+00 stream 1 : (tensor<2xi64>) -> tensor<5xbf16>
  %0 = graph.random_normal bf16, %seed shape [5] mean 1.0 scale 2.0 stream 1 : (tensor<2xi64>) -> tensor<5xbf16>
  func.return
}

// CHECK-LABEL: func.func @derive_seed(
func.func @derive_seed(%seed: tensor<2xi64>, %i: tensor<i64>, %j: tensor<1xi32>) {
  // CHECK-NEXT: %0 = graph.derive_seed %seed, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %0 = graph.derive_seed %seed, %i : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  // CHECK-NEXT: %1 = graph.derive_seed %0, %j : (tensor<2xi64>, tensor<1xi32>) -> tensor<2xi64>
  %1 = graph.derive_seed %0, %j : (tensor<2xi64>, tensor<1xi32>) -> tensor<2xi64>
  func.return
}
