// RUN: ge-opt %s -p 'insert-quantization{scheme=w4a16}' | filecheck %s
// RUN: ge-opt %s -p 'insert-quantization{scheme=w4a16 asymmetric=true}' | filecheck %s --check-prefix=ASYMMETRIC
// RUN: ge-opt %s -p 'insert-quantization{scheme=w8a16}' | filecheck %s --check-prefix=EIGHT
// RUN: ge-opt %s -p 'insert-quantization{scheme=w8a16g32 asymmetric=true}' | filecheck %s --check-prefix=GROUPS
// RUN: ge-opt %s -p 'insert-quantization{scheme=mxfp4}' | filecheck %s --check-prefix=MXFP4
// RUN: ge-opt %s -p 'insert-quantization{scheme=nvfp4}' | filecheck %s --check-prefix=NVFP4

// Weights alone, in groups of 32 along the axis that is summed over, the last of them cut, with
// scales that f16 holds. Filters of convolutions are small: they have 8 bits.
func.func @main(%x: tensor<2x40xf32>, %i: tensor<1x4x8x8xf32>) -> (tensor<2x6xf32>, tensor<1x8x6x6xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<40x6xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<8x4x3x3xf32>
  %r0 = graph.matmul %x, %w : (tensor<2x40xf32>, tensor<40x6xf32>) -> tensor<2x6xf32>
  %r1 = graph.conv %i, %v : (tensor<1x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x6x6xf32>
  func.return %r0, %r1 : tensor<2x6xf32>, tensor<1x8x6x6xf32>
}
// CHECK:      [[P:%[0-9]+]] = graph.pad %w pads [0, 24] axes [0] : (tensor<40x6xf32>) -> tensor<64x6xf32>
// CHECK-NEXT: [[G:%[0-9]+]] = graph.reshape [[P]] shape [2, 32, 6]
// CHECK:      graph.reduce min [[G]] axes [1]
// CHECK:      graph.reduce max [[G]] axes [1]
// CHECK:      graph.select
// CHECK:      [[E:%[0-9]+]] = graph.select
// CHECK-NEXT: [[H:%[0-9]+]] = graph.cast [[E]] to f16 :
// CHECK-NEXT: [[S:%[0-9]+]] = graph.cast [[H]] to f32 :
// CHECK-NEXT: [[Q:%[0-9]+]] = graph.quantize %w, [[S]] to i4 axis 0 block_size 32 : (tensor<40x6xf32>, tensor<2x6xf32>) -> tensor<40x6xi4>
// CHECK-NEXT: [[D:%[0-9]+]] = graph.dequantize [[Q]], [[S]] axis 0 block_size 32 :
// CHECK-NEXT: %r0 = graph.matmul %x, [[D]] :
// CHECK:      graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 0 : (tensor<8x4x3x3xi8>, tensor<8xf32>)
// CHECK-NEXT: %r1 = graph.conv %i,

// ASYMMETRIC: [[Z:%[0-9]+]] = graph.cast %{{[0-9]+}} to i4 :
// ASYMMETRIC: graph.quantize %w, %{{[0-9]+}}, [[Z]] to i4 axis 0 block_size 32 :

// EIGHT: graph.quantize %w, %{{[0-9]+}} to i8 axis 1

// GROUPS: [[Z:%[0-9]+]] = graph.cast %{{[0-9]+}} to i8 :
// GROUPS: graph.quantize %w, %{{[0-9]+}}, [[Z]] to i8 axis 0 block_size 32 :
// GROUPS: graph.quantize %v, %{{[0-9]+}} to i8 axis 0 :

// Scales of floats of 4 bits are powers of two, or floats of 8 bits times one of the tensor.
// MXFP4:      [[E:%[0-9]+]] = graph.cast %{{[0-9]+}} to f8E8M0FNU rounding up :
// MXFP4-NEXT: [[F:%[0-9]+]] = graph.cast [[E]] to f32 :
// MXFP4-NEXT: [[H:%[0-9]+]] = graph.cast [[F]] to f16 :
// MXFP4-NEXT: [[S:%[0-9]+]] = graph.cast [[H]] to f32 :
// MXFP4-NEXT: [[Q:%[0-9]+]] = graph.quantize %w, [[S]] to f4E2M1FN axis 0 block_size 32 : (tensor<40x6xf32>, tensor<2x6xf32>)
// MXFP4-NEXT: graph.dequantize [[Q]], [[S]] axis 0 block_size 32 :
// MXFP4:      graph.quantize %v, %{{[0-9]+}} to i8 axis 0

// NVFP4:      [[T:%[0-9]+]] = graph.cast %{{[0-9]+}} to f8E8M0FNU rounding up : (tensor<f32>)
// NVFP4-NEXT: [[G:%[0-9]+]] = graph.cast [[T]] to f32 :
// NVFP4:      graph.cast %{{[0-9]+}} to f8E4M3FN : (tensor<3x6xf32>)
// NVFP4:      graph.mul %{{[0-9]+}}, [[G]] :
// NVFP4:      graph.quantize %w, %{{[0-9]+}} to f4E2M1FN axis 0 block_size 16 : (tensor<40x6xf32>, tensor<3x6xf32>)
