// RUN: ge-opt %s --split-input-file -p 'equalize-channels{data="%S/Inputs/equalize_channels.toml"}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p equalize-channels | filecheck %s --check-prefix=NONE

// The factors of the table divide what the first convolution computes and multiply the weights of
// the second; relu lets them through. Without data nothing is done.
func.func @main(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<2x3x1x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<2xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x2x1x1xf32>
  %0 = graph.conv %x, %w bias %b : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.relu %0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.conv %1, %v : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("/next")
  func.return %2 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      %[[I:.*]] = graph.constant dense<{{.*}}5.0{{.*}}e-01{{.*}}2.0{{.*}}> : tensor<2x1x1x1xf32>
// CHECK-NEXT: %[[W:.*]] = graph.mul %w, %[[I]] :
// CHECK-NEXT: %[[J:.*]] = graph.constant {{.*}} : tensor<2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.mul %b, %[[J]] :
// CHECK-NEXT: %[[Y:.*]] = graph.conv %x, %[[W]] bias %[[B]] :
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[Y]] :
// CHECK-NEXT: %[[S:.*]] = graph.constant {{.*}} : tensor<2x1x1xf32>
// CHECK-NEXT: %[[V:.*]] = graph.mul %v, %[[S]] :
// CHECK-NEXT: graph.conv %[[R]], %[[V]] :

// NONE-NOT: graph.mul

// -----

// The limits of a clamp become one for each channel; a depthwise convolution has a factor for each of
// its filters.
func.func @main(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<2x3x1x1xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<2x1x3x3xf32>
  %low = graph.constant dense<0.0> : tensor<f32>
  %high = graph.constant dense<6.0> : tensor<f32>
  %0 = graph.conv %x, %w : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.clamp %0 low %low high %high : (tensor<1x2x4x4xf32>, tensor<f32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %2 = graph.conv %1, %v group 2 pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x4x4xf32> loc("/depthwise")
  func.return %2 : tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      %[[R:.*]] = graph.relu
// CHECK:      %[[H:.*]] = graph.mul %high, %{{.*}} : (tensor<f32>, tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT: %[[M:.*]] = graph.minimum %[[R]], %[[H]] :
// CHECK:      %[[V:.*]] = graph.mul %v, %{{.*}} : (tensor<2x1x3x3xf32>, tensor<2x1x1x1xf32>)
// CHECK-NEXT: graph.conv %[[M]], %[[V]] group 2 pads

// -----

// Two convolutions whose sum is read share the factors, and so does all that reads the sum; a mean
// over other axes and views let them through.
func.func @main(%x: tensor<1x3x4x4xf32>) -> (tensor<1x5xf32>, tensor<1x2x4x4xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<3x3x1x1xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<3x3x1x1xf32>
  %f = graph.constant #graph.weight<"f"> : tensor<5x3xf32>
  %u = graph.constant #graph.weight<"u"> : tensor<2x3x1x1xf32>
  %0 = graph.conv %x, %w : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %1 = graph.conv %x, %v : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %2 = graph.add %0, %1 : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %3 = graph.relu %2 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %4 = graph.reduce mean %3 axes [2, 3] : (tensor<1x3x4x4xf32>) -> tensor<1x3x1x1xf32>
  %5 = graph.reshape %4 shape [1, 3] : (tensor<1x3x1x1xf32>) -> tensor<1x3xf32>
  %6 = graph.matmul %5, %f transpose_rhs true : (tensor<1x3xf32>, tensor<5x3xf32>) -> tensor<1x5xf32> loc("/fc")
  %7 = graph.conv %3, %u : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %6, %7 : tensor<1x5xf32>, tensor<1x2x4x4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-DAG:  graph.mul %w, %{{.*}} : (tensor<3x3x1x1xf32>, tensor<3x1x1x1xf32>)
// CHECK-DAG:  graph.mul %v, %{{.*}} : (tensor<3x3x1x1xf32>, tensor<3x1x1x1xf32>)
// CHECK-DAG:  graph.mul %f, %{{.*}} : (tensor<5x3xf32>, tensor<3xf32>)
// CHECK-DAG:  graph.mul %u, %{{.*}} : (tensor<2x3x1x1xf32>, tensor<3x1x1xf32>)
// CHECK:      func.return
