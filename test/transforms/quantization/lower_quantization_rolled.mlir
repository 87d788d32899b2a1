// RUN: ge-opt %s --split-input-file -p lower-quantization | filecheck %s

// A shifted window: quantize moves before the concatenation, and both parts are of one value. That is
// quantized before the first of them, whichever rule comes first.
func.func @rolled(%x: tensor<1x8x8x4xf32>) -> tensor<64x4xi8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<0> : tensor<i8>
  %0 = graph.slice %x starts [2] ends [8] axes [2] : (tensor<1x8x8x4xf32>) -> tensor<1x8x6x4xf32>
  %1 = graph.slice %x starts [0] ends [2] axes [2] : (tensor<1x8x8x4xf32>) -> tensor<1x8x2x4xf32>
  %2 = graph.concat %0, %1 axis 2 : (tensor<1x8x6x4xf32>, tensor<1x8x2x4xf32>) -> tensor<1x8x8x4xf32>
  %3 = graph.reshape %2 shape [64, 4] : (tensor<1x8x8x4xf32>) -> tensor<64x4xf32>
  %4 = graph.quantize %3, %s, %z to i8 : (tensor<64x4xf32>, tensor<f32>, tensor<i8>) -> tensor<64x4xi8>
  func.return %4 : tensor<64x4xi8>
}
// CHECK-LABEL: func.func @rolled(
// CHECK:         %[[S:.*]] = graph.constant dense<5.000000e-01> : tensor<8xf32>
// CHECK-NEXT:    %[[Q:.*]] = graph.quantize %x, %[[S]] to i8 axis 2
// CHECK-NEXT:    %[[A:.*]] = graph.slice %[[Q]] starts [2]
// CHECK-NEXT:    %[[B:.*]] = graph.slice %[[Q]] starts [0]
// CHECK-NEXT:    %[[C:.*]] = graph.concat %[[A]], %[[B]] axis 2 :
// CHECK-NEXT:    %[[Y:.*]] = graph.reshape %[[C]] shape
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// The scale of the second part is defined behind the first one's quantize.
func.func @scale_behind(%x: tensor<4x8xf32>) -> (tensor<4x2xi8>, tensor<4x6xi8>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.slice %x starts [0] ends [2] axes [1] : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %1 = graph.quantize %0, %s to i8 : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xi8>
  %t = graph.constant dense<0.25> : tensor<f32>
  %2 = graph.slice %x starts [2] ends [8] axes [1] : (tensor<4x8xf32>) -> tensor<4x6xf32>
  %3 = graph.quantize %2, %t to i8 : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xi8>
  func.return %1, %3 : tensor<4x2xi8>, tensor<4x6xi8>
}
// CHECK-LABEL: func.func @scale_behind(
// CHECK:         %[[Q:.*]] = graph.quantize %x, %{{.*}} to i8 axis 1
// CHECK-NEXT:    %[[A:.*]] = graph.slice %[[Q]] starts [0]
// CHECK-NEXT:    %[[B:.*]] = graph.slice %[[Q]] starts [2]
// CHECK-NEXT:    func.return %[[A]], %[[B]] :
