// RUN: ge-compile %s --until graph --fusion default --validate -o - | filecheck %s

// What brings an image to mean 0 and deviation 1 goes into the first convolution, with the channels
// first or last; where the convolution pads with zeros, the factors do, but not the means: what is
// padded is 0 after they were taken off.
func.func @main(%x: tensor<1x3x8x8xf32>, %y: tensor<1x8x8x3xf32>, %z: tensor<1x8x8x3xf32>)
    -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>, tensor<1x4x8x8xf32>) {
  %u = graph.constant #graph.weight<"u"> : tensor<4x3x3x3xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x3x3x3xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<4x3x3x3xf32>
  %m = graph.constant dense<[[[0.485]], [[0.456]], [[0.406]]]> : tensor<3x1x1xf32>
  %s = graph.constant dense<[[[0.229]], [[0.224]], [[0.225]]]> : tensor<3x1x1xf32>
  %mean = graph.constant dense<[0.485, 0.456, 0.406]> : tensor<3xf32>
  %scale = graph.constant dense<[4.37, 4.46, 4.44]> : tensor<3xf32>

  %0 = graph.sub %x, %m : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %1 = graph.div %0, %s : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %2 = graph.conv %1, %u : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>

  %3 = graph.sub %y, %mean : (tensor<1x8x8x3xf32>, tensor<3xf32>) -> tensor<1x8x8x3xf32>
  %4 = graph.mul %3, %scale : (tensor<1x8x8x3xf32>, tensor<3xf32>) -> tensor<1x8x8x3xf32>
  %5 = graph.transpose %4 permutation [0, 3, 1, 2] : (tensor<1x8x8x3xf32>) -> tensor<1x3x8x8xf32>
  %6 = graph.conv %5, %v : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>

  %7 = graph.transpose %z permutation [0, 3, 1, 2] : (tensor<1x8x8x3xf32>) -> tensor<1x3x8x8xf32>
  %8 = graph.sub %7, %m : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %9 = graph.div %8, %s : (tensor<1x3x8x8xf32>, tensor<3x1x1xf32>) -> tensor<1x3x8x8xf32>
  %10 = graph.conv %9, %w pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  func.return %2, %6, %10 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>, tensor<1x4x8x8xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:       graph.conv %x, %{{.*}} bias
// CHECK:       graph.conv %y, %{{.*}} bias %{{.*}} input_channels_last true
// CHECK-NEXT:  %[[Z:.*]] = graph.transpose %z permutation
// CHECK-NEXT:  %[[MEAN:.*]] = graph.add %[[Z]],
// CHECK-NEXT:  %[[W:.*]] = graph.constant #graph.weight<"prepared.4">
// CHECK-NEXT:  graph.conv %[[MEAN]], %[[W]] pads [1, 1, 1, 1]
// CHECK-NEXT:  func.return
