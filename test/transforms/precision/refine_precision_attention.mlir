// RUN: ge-opt %s -p 'refine-precision{mode=fp16}' | filecheck %s

// f16 has no -3.4e38: a row that is masked as a whole would have no key left. Numbers that it has
// stay, and so does -inf, which leaves a key out.
func.func @main(%x: tensor<1x2x4x8xf32>, %m: tensor<4x4xi1>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) {
  %w = graph.constant dense<0.5> : tensor<8x8xf32>
  %q = graph.matmul %x, %w : (tensor<1x2x4x8xf32>, tensor<8x8xf32>) -> tensor<1x2x4x8xf32>
  %0 = graph.attention %q, %q, %q mask %m fill -3.4028234663852886e+38 undefined nan : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<4x4xi1>) -> tensor<1x2x4x8xf32>
  %1 = graph.attention %q, %q, %q mask %m fill -1.000000e+04 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<4x4xi1>) -> tensor<1x2x4x8xf32>
  %2 = graph.attention %q, %q, %q mask %m : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<4x4xi1>) -> tensor<1x2x4x8xf32>
  func.return %0, %1, %2 : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>
}
// CHECK:      graph.attention {{.*}} fill -6.550400e+04 undefined nan : {{.*}} -> tensor<1x2x4x8xf16>
// CHECK:      graph.attention {{.*}} fill -1.000000e+04 : {{.*}} -> tensor<1x2x4x8xf16>
// CHECK:      graph.attention {{.*}} mask %m : {{.*}} -> tensor<1x2x4x8xf16>
