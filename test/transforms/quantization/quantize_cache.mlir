// Inputs that come back with rows appended become codes and scales.
// RUN: ge-opt %s -p quantize-cache --split-input-file | filecheck %s
// RUN: ge-opt %s -p 'quantize-cache{to=fp8}' --split-input-file | filecheck %s --check-prefix SMALL

// Codes are moved and appended beside their scales; what reads floats gets the new row as it is.
func.func @main(%x: tensor<?x2x1x4xf32>, %past: tensor<3x?x2x?x4xf32> {graph.name = "past", graph.dims = ["", "N", "", "P", ""]}) -> (tensor<1x?x2x?x4xf32> {graph.name = "present"}, tensor<?x2x?x4xf32> {graph.name = "y"}) {
  %one = graph.constant dense<1> : tensor<i64>
  %0 = graph.gather %past, %one : (tensor<3x?x2x?x4xf32>, tensor<i64>) -> tensor<?x2x?x4xf32>
  %1 = graph.concat %0, %x axis 2 : (tensor<?x2x?x4xf32>, tensor<?x2x1x4xf32>) -> tensor<?x2x?x4xf32>
  %2 = graph.exp %1 : (tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %3 = graph.unsqueeze %1 axes [0] : (tensor<?x2x?x4xf32>) -> tensor<1x?x2x?x4xf32>
  func.return %3, %2 : tensor<1x?x2x?x4xf32>, tensor<?x2x?x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %past: tensor<3x?x2x?x4xi8> {graph.name = "past", graph.dims = ["", "N", "", "P", ""]}
// CHECK-SAME:  %past_scale: tensor<3x?x2x?x1xf32> {graph.name = "past.scale", graph.dims = ["", "N", "", "P", ""]}
// CHECK-SAME:  -> (tensor<1x?x2x?x4xi8> {graph.name = "present"}, tensor<?x2x?x4xf32> {graph.name = "y"}, tensor<1x?x2x?x1xf32> {graph.name = "present.scale"})
// CHECK:       [[P:%[0-9]+]] = graph.gather %past, %one :
// CHECK:       [[S:%[0-9]+]] = graph.gather %past_scale, %one :
// CHECK:       [[T:%[0-9]+]] = graph.maximum
// CHECK:       [[C:%[0-9]+]] = graph.quantize %x, [[T]] to i8 axis 3 block_size 4
// CHECK:       [[Q:%[0-9]+]] = graph.concat [[P]], [[C]] axis 2 :
// CHECK-NEXT:  [[R:%[0-9]+]] = graph.concat [[S]], [[T]] axis 2 :
// CHECK-NEXT:  [[D:%[0-9]+]] = graph.dequantize [[P]], [[S]] axis 3 block_size 4
// CHECK-NEXT:  [[F:%[0-9]+]] = graph.concat [[D]], %x axis 2 :
// CHECK-NEXT:  [[Y:%[0-9]+]] = graph.exp [[F]] :
// CHECK-NEXT:  [[U:%[0-9]+]] = graph.unsqueeze [[Q]] axes [0]
// CHECK-NEXT:  [[V:%[0-9]+]] = graph.unsqueeze [[R]] axes [0]
// CHECK-NEXT:  func.return [[U]], [[Y]], [[V]] :

// SMALL:       tensor<3x?x2x?x4xf8E4M3FN> {graph.name = "past"
// SMALL:       graph.constant dense<4.480000e+02>
// SMALL:       to f8E4M3FN axis 3 block_size 4

// -----

// Through reshapes and casts of rows; `%other` is handed on as it is, `%turned` along the last
// dimension, so neither is a cache.
func.func @main(%x: tensor<1x8xf16>, %past: tensor<4x5x8xf32>, %other: tensor<2x8xf32>, %turned: tensor<8x2xf32>) -> (tensor<21x8xf32>, tensor<2x8xf32>, tensor<8x4xf32>) {
  %0 = graph.cast %past to f16 : (tensor<4x5x8xf32>) -> tensor<4x5x8xf16>
  %1 = graph.reshape %0 shape [-1, 8] : (tensor<4x5x8xf16>) -> tensor<20x8xf16>
  %2 = graph.concat %1, %x axis 0 : (tensor<20x8xf16>, tensor<1x8xf16>) -> tensor<21x8xf16>
  %3 = graph.cast %2 to f32 : (tensor<21x8xf16>) -> tensor<21x8xf32>
  %4 = graph.exp %turned : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %5 = graph.concat %turned, %4 axis 1 : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  func.return %3, %other, %5 : tensor<21x8xf32>, tensor<2x8xf32>, tensor<8x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-SAME:  %past: tensor<4x5x8xi8>, %other: tensor<2x8xf32>, %turned: tensor<8x2xf32>, %past_scale: tensor<4x5x1xf32>
// CHECK-SAME:  -> (tensor<21x8xi8>, tensor<2x8xf32>, tensor<8x4xf32>, tensor<21x1xf32>
// CHECK:       graph.cast %past_scale to f16 :
// CHECK:       [[P:%[0-9]+]] = graph.reshape %past shape [-1, 8]
// CHECK:       [[S:%[0-9]+]] = graph.reshape %{{[0-9]+}} shape [-1, 1]
// CHECK:       graph.concat [[P]], %{{[0-9]+}} axis 0 :
// CHECK:       [[R:%[0-9]+]] = graph.concat [[S]], %{{[0-9]+}} axis 0 :
// CHECK:       graph.cast [[R]] to f32 :
