// RUN: ge-opt %s -p refine-precision | filecheck %s
// RUN: ge-opt %s -p 'refine-precision{mode=bf16}' | filecheck %s --check-prefix=BF16
// RUN: ge-opt %s -p 'refine-precision{mode=mixed}' | filecheck %s --check-prefix=MIXED

// Casts of inputs, constants and outputs, each once; numbers become narrow ones, the weight is cast.
func.func @main(%x: tensor<8x4xf32>, %r: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %g = graph.constant dense<1.5> : tensor<4xf32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = graph.mul %0, %half : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %2 = graph.add %1, %r : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = graph.rms_norm %2, %g : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %4 = graph.matmul %3, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %5 = graph.transpose %4 permutation [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %6 = graph.transpose %5 permutation [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return %6, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}
// CHECK:      func.func @main(%x: tensor<8x4xf32>, %r: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK-DAG:  %[[R:[0-9]+]] = graph.cast %r to f16 :
// CHECK-DAG:  %[[X:[0-9]+]] = graph.cast %x to f16 :
// CHECK-DAG:  %[[W:[0-9]+]] = graph.cast %w to f16 :
// CHECK-DAG:  %[[HALF:[0-9]+]] = graph.constant dense<5.000000e-01> : tensor<f16>
// CHECK:      graph.matmul %[[X]], %[[W]] : (tensor<8x4xf16>, tensor<4x4xf16>) -> tensor<8x4xf16>
// CHECK-NEXT: graph.mul %{{[0-9]+}}, %[[HALF]] : (tensor<8x4xf16>, tensor<f16>) -> tensor<8x4xf16>
// CHECK-NEXT: %[[SUM:[0-9]+]] = graph.add %{{[0-9]+}}, %[[R]] : (tensor<8x4xf16>, tensor<8x4xf16>) -> tensor<8x4xf16>
// CHECK-NEXT: %[[OUT:[0-9]+]] = graph.cast %[[SUM]] to f32 :
// CHECK-NEXT: graph.rms_norm %[[SUM]], %g axis 1 : (tensor<8x4xf16>, tensor<4xf32>) -> tensor<8x4xf16>
// CHECK-NEXT: graph.matmul %{{[0-9]+}}, %[[W]] : (tensor<8x4xf16>
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: %[[LAST:[0-9]+]] = graph.transpose {{.*}} -> tensor<8x4xf16>
// CHECK-NEXT: %[[CAST:[0-9]+]] = graph.cast %[[LAST]] to f32 :
// CHECK-NEXT: func.return %[[CAST]], %[[OUT]] :

// BF16: graph.rms_norm %{{[0-9]+}}, %g axis 1 : (tensor<8x4xbf16>, tensor<4xf32>) -> tensor<8x4xbf16>

// Sums and norms stay f32; what only passes a product on does not.
// MIXED:      graph.matmul %{{[0-9]+}}, %{{[0-9]+}} : (tensor<8x4xf16>
// MIXED-NEXT: graph.mul %{{[0-9]+}}, %{{[0-9]+}} : (tensor<8x4xf16>, tensor<f16>) -> tensor<8x4xf16>
// MIXED-NEXT: %[[WIDE:[0-9]+]] = graph.cast %{{[0-9]+}} to f32 :
// MIXED-NEXT: graph.add %[[WIDE]], %r : (tensor<8x4xf32>
// MIXED-NEXT: %[[NORM:[0-9]+]] = graph.rms_norm %{{[0-9]+}}, %g axis 1 : (tensor<8x4xf32>
// MIXED-NEXT: graph.cast %[[NORM]] to f16 :
// MIXED-NEXT: graph.matmul
