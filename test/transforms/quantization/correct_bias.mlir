// RUN: ge-opt %s --split-input-file -p 'correct-bias{data="%S/Inputs/correct_bias.toml"}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p correct-bias | filecheck %s --check-prefix=NONE
// NONE-NOT: graph.constant dense<[

// A vector is added to the bias of a quantized layer, or becomes it.
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant #graph.weight<"w"> : tensor<2x2x1x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<2xf32>
  %q = graph.quantize %x, %s to i8 : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xi8>
  %d = graph.dequantize %q, %s : (tensor<1x2x4x4xi8>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %0 = graph.conv %d, %w bias %b strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x3x3xf32> loc("/conv")
  %1 = graph.conv %d, %w : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("/plain")
  func.return %1 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      %[[C:.*]] = graph.constant dense<[1.0{{.*}}, 2.0{{.*}}]> : tensor<2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %b, %[[C]] :
// CHECK-NEXT: graph.conv %d, %w bias %[[B]] strides [2, 2] pads [1, 1, 1, 1] :
// CHECK-NEXT: %[[P:.*]] = graph.constant dense<[1.0{{.*}}, 2.0{{.*}}]> : tensor<2xf32>
// CHECK-NEXT: graph.conv %d, %w bias %[[P]] :

// -----

// The bias of a matmul is a sum behind it; a layer that is not quantized stays.
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %s = graph.constant dense<0.5> : tensor<f32>
  %w = graph.constant #graph.weight<"w"> : tensor<2x2xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<2xf32>
  %q = graph.quantize %x, %s to i8 : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xi8>
  %d = graph.dequantize %q, %s : (tensor<4x2xi8>, tensor<f32>) -> tensor<4x2xf32>
  %0 = graph.matmul %d, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("/linear")
  %1 = graph.add %b, %0 : (tensor<2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = graph.matmul %d, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("/alone")
  %3 = graph.matmul %x, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("/float")
  func.return %1, %2, %3 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      %[[L:.*]] = graph.matmul %d, %w :
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<[3.0{{.*}}, 4.0{{.*}}]> : tensor<2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.add %b, %[[C]] :
// CHECK-NEXT: %[[S:.*]] = graph.add %[[B]], %[[L]] :
// CHECK-NEXT: %[[A:.*]] = graph.matmul %d, %w :
// CHECK-NEXT: %[[D:.*]] = graph.constant dense<[5.0{{.*}}, 6.0{{.*}}]> : tensor<2xf32>
// CHECK-NEXT: %[[T:.*]] = graph.add %[[A]], %[[D]] :
// CHECK-NEXT: %[[F:.*]] = graph.matmul %x, %w :
// CHECK-NEXT: func.return %[[S]], %[[T]], %[[F]] :
