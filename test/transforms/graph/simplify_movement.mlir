// RUN: ge-opt %s --split-input-file -p simplify-movement{exact=true},eliminate-dead-code | filecheck %s

// Only the last shape counts; without effect nothing is left.
func.func @views(%x: tensor<2x3x4xf32>) -> (tensor<4x6xf32>, tensor<2x3x4xf32>) {
  %0 = graph.reshape %x shape [6, -1] : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = graph.unsqueeze %0 axes [1] : (tensor<6x4xf32>) -> tensor<6x1x4xf32>
  %2 = graph.reshape %1 shape [4, -1] : (tensor<6x1x4xf32>) -> tensor<4x6xf32>
  %3 = graph.reshape %2 shape [2, 3, 4] : (tensor<4x6xf32>) -> tensor<2x3x4xf32>
  func.return %2, %3 : tensor<4x6xf32>, tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @views(
// CHECK-NEXT:   %[[R:.*]] = graph.reshape %x shape [4, 6]
// CHECK-NEXT:   func.return %[[R]], %x :

// -----

// With one unknown dimension the others tell it; with two, only pairs that undo each other go.
func.func @dynamic_views(%x: tensor<?x3x4xf32>, %y: tensor<?x?xf32>) -> (tensor<?x12xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = graph.reshape %x shape [0, 1, -1] : (tensor<?x3x4xf32>) -> tensor<?x1x12xf32>
  %1 = graph.squeeze %0 axes [1] : (tensor<?x1x12xf32>) -> tensor<?x12xf32>
  %2 = graph.unsqueeze %y axes [1] : (tensor<?x?xf32>) -> tensor<?x1x?xf32>
  %3 = graph.squeeze %2 axes [-2] : (tensor<?x1x?xf32>) -> tensor<?x?xf32>
  %4 = graph.unsqueeze %y axes [1] : (tensor<?x?xf32>) -> tensor<?x1x?xf32>
  %5 = graph.reshape %4 shape [-1, 0] : (tensor<?x1x?xf32>) -> tensor<?x?xf32>
  func.return %1, %3, %5 : tensor<?x12xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}
// CHECK-LABEL: func.func @dynamic_views(
// CHECK-DAG: %[[A:.*]] = graph.reshape %x shape [-1, 12]
// CHECK-DAG: %[[U:.*]] = graph.unsqueeze %y axes
// CHECK-DAG: %[[B:.*]] = graph.reshape %[[U]] shape [-1, 0]
// CHECK: func.return %[[A]], %y, %[[B]] :

// -----

// Transposes compose, also of unknown dimensions; moving dimensions of size 1 moves nothing.
func.func @transposes(%x: tensor<?x?x4xf32>, %y: tensor<1x3x4xf32>) -> (tensor<4x?x?xf32>, tensor<?x?x4xf32>, tensor<3x1x4xf32>) {
  %0 = graph.transpose %x permutation [1, 0, 2] : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %1 = graph.transpose %0 permutation [2, 1, 0] : (tensor<?x?x4xf32>) -> tensor<4x?x?xf32>
  %2 = graph.transpose %0 permutation [1, 0, 2] : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %3 = graph.transpose %y permutation [1, 0, 2] : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32>
  func.return %1, %2, %3 : tensor<4x?x?xf32>, tensor<?x?x4xf32>, tensor<3x1x4xf32>
}
// CHECK-LABEL: func.func @transposes(
// CHECK-NEXT: %[[A:.*]] = graph.transpose %x permutation [2, 0, 1]
// CHECK-NEXT: %[[B:.*]] = graph.reshape %y shape [3, 1, 4]
// CHECK-NEXT: func.return %[[A]], %x, %[[B]] :

// -----

// Keys of attention, transposed twice with a view between: one transpose.
func.func @keys(%x: tensor<2x16x4x8xf32>) -> tensor<2x4x8x16xf32> {
  %0 = graph.transpose %x permutation [0, 2, 1, 3] : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = graph.reshape %0 shape [-1, 16, 8] : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %2 = graph.transpose %1 permutation [0, 2, 1] : (tensor<8x16x8xf32>) -> tensor<8x8x16xf32>
  %3 = graph.reshape %2 shape [2, 4, 8, 16] : (tensor<8x8x16xf32>) -> tensor<2x4x8x16xf32>
  func.return %3 : tensor<2x4x8x16xf32>
}
// CHECK-LABEL: func.func @keys(
// CHECK-NEXT: %[[T:.*]] = graph.transpose %x permutation [0, 2, 3, 1]
// CHECK-NEXT: func.return %[[T]] :

// -----

// Transposes that undo each other through views; a view that takes apart what it does not join.
func.func @through_views(%x: tensor<2x3x4xf32>, %y: tensor<2x3x5xf32>) -> (tensor<6x4xf32>, tensor<3x10xf32>) {
  %0 = graph.transpose %x permutation [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = graph.reshape %0 shape [4, 6] : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %2 = graph.transpose %1 permutation [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %3 = graph.transpose %y permutation [2, 0, 1] : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %4 = graph.reshape %3 shape [10, 3] : (tensor<5x2x3xf32>) -> tensor<10x3xf32>
  %5 = graph.transpose %4 permutation [1, 0] : (tensor<10x3xf32>) -> tensor<3x10xf32>
  func.return %2, %5 : tensor<6x4xf32>, tensor<3x10xf32>
}
// CHECK-LABEL: func.func @through_views(
// CHECK-NEXT: %[[A:.*]] = graph.reshape %x shape [6, 4]
// CHECK-NEXT: %[[T:.*]] = graph.transpose %y permutation [1, 2, 0]
// CHECK-NEXT: %[[B:.*]] = graph.reshape %[[T]] shape [3, 10]
// CHECK-NEXT: func.return %[[A]], %[[B]] :

// -----

// Slices of slices; backward and with steps as well.
func.func @slices(%x: tensor<10x4xf32>) -> (tensor<2x4xf32>, tensor<3x2xf32>) {
  %0 = graph.slice %x starts [2] ends [8] axes [0] : (tensor<10x4xf32>) -> tensor<6x4xf32>
  %1 = graph.slice %0 starts [3] ends [5] axes [0] : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %2 = graph.slice %x starts [9, 1] ends [-11, 3] axes [0, 1] steps [-2, 1] : (tensor<10x4xf32>) -> tensor<5x2xf32>
  %3 = graph.slice %2 starts [2] ends [9] axes [0] : (tensor<5x2xf32>) -> tensor<3x2xf32>
  func.return %1, %3 : tensor<2x4xf32>, tensor<3x2xf32>
}
// CHECK-LABEL: func.func @slices(
// CHECK-NEXT: graph.slice %x starts [5] ends [7] axes [0]
// CHECK-NEXT: graph.slice %x starts [5, 1] ends [-11, 3] axes [0, 1] steps [-2, 1]
// CHECK-NEXT: func.return

// -----

// Rows of a copied slice are views of it: the copy stays one. (One row is a view of the source.)
func.func @views_of_a_copy(%x: tensor<4x8xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>) {
  %0 = graph.slice %x starts [1] ends [4] axes [1] : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %1 = graph.slice %0 starts [0] ends [2] axes [0] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = graph.slice %0 starts [2] ends [4] axes [0] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = graph.slice %0 starts [2] ends [3] axes [0] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  func.return %1, %2, %3 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>
}
// CHECK-LABEL: func.func @views_of_a_copy(
// CHECK: %[[S:.*]] = graph.slice %x starts [1]
// CHECK: graph.slice %[[S]] starts [0]
// CHECK: graph.slice %[[S]] starts [2]
// CHECK: graph.slice %x starts [2, 1] ends [3, 4]

// -----

// A slice of a concatenation is a slice of the operand that it is in.
func.func @slice_of_concat(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>, %z: tensor<2x1xf32>) -> (tensor<2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = graph.concat %x, %y, %z axis -1 : (tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %1 = graph.slice %0 starts [4] ends [7] axes [1] : (tensor<2x8xf32>) -> tensor<2x3xf32>
  %2 = graph.slice %0 starts [5] ends [7] axes [1] : (tensor<2x8xf32>) -> tensor<2x2xf32>
  %3 = graph.slice %0 starts [6] ends [8] axes [1] : (tensor<2x8xf32>) -> tensor<2x2xf32>
  func.return %1, %2, %3 : tensor<2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @slice_of_concat(
// CHECK-DAG: %[[C:.*]] = graph.concat
// CHECK-DAG: %[[A:.*]] = graph.slice %y starts [1] ends [3]
// CHECK-DAG: %[[B:.*]] = graph.slice %[[C]] starts [6]
// CHECK: func.return %y, %[[A]], %[[B]] :

// -----

// Parts put together again are the whole; a split of a concatenation its operands.
func.func @split_concat(%x: tensor<2x6xf32>, %y: tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x4xf32>, tensor<2x10xf32>, tensor<2x2xf32>) {
  %0, %1 = graph.split %x sizes [2, 4] axis 1 : (tensor<2x6xf32>) -> (tensor<2x2xf32>, tensor<2x4xf32>)
  %2 = graph.concat %0, %1 axis 1 : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x6xf32>
  %3 = graph.concat %x, %y axis 1 : (tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<2x10xf32>
  %4, %5 = graph.split %3 sizes [6, 4] axis 1 : (tensor<2x10xf32>) -> (tensor<2x6xf32>, tensor<2x4xf32>)
  %6, %7 = graph.split %y axis 1 : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  func.return %2, %5, %3, %7 : tensor<2x6xf32>, tensor<2x4xf32>, tensor<2x10xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @split_concat(
// CHECK-DAG: %[[C:.*]] = graph.concat %x, %y axis
// CHECK-DAG: %[[S:.*]] = graph.slice %y starts [2] ends [4]
// CHECK: func.return %x, %y, %[[C]], %[[S]] :

// -----

// Concatenations are joined; parts side by side are one part; nothing adds nothing.
func.func @concats(%x: tensor<8x2xf32>, %e: tensor<0x2xf32>, %y: tensor<1x2xf32>) -> tensor<6x2xf32> {
  %0 = graph.slice %x starts [1] ends [3] axes [0] : (tensor<8x2xf32>) -> tensor<2x2xf32>
  %1 = graph.slice %x starts [3] ends [5] axes [0] : (tensor<8x2xf32>) -> tensor<2x2xf32>
  %2 = graph.concat %0, %1 axis 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %3 = graph.concat %e, %2, %y axis 0 : (tensor<0x2xf32>, tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<5x2xf32>
  %4 = graph.concat %3, %y axis 0 : (tensor<5x2xf32>, tensor<1x2xf32>) -> tensor<6x2xf32>
  func.return %4 : tensor<6x2xf32>
}
// CHECK-LABEL: func.func @concats(
// CHECK-NEXT: %[[S:.*]] = graph.slice %x starts [1] ends [5]
// CHECK-NEXT: %[[C:.*]] = graph.concat %[[S]], %y, %y axis 0 :
// CHECK-NEXT: func.return %[[C]] :

// -----

// Zeros around: of two pads one, and a convolution's own.
func.func @pads(%x: tensor<1x2x4x4xf32>, %w: tensor<2x2x3x3xf32>) -> tensor<1x2x7x6xf32> {
  %z = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.pad %x pads [0, 0, 1, 1, 0, 0, 1, 1] : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x6xf32>
  %1 = graph.pad %0 pads [1, 0] axes [2] value %z : (tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x7x6xf32>
  %2 = graph.conv %1, %w pads [1, 1, 1, 1] : (tensor<1x2x7x6xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x7x6xf32>
  func.return %2 : tensor<1x2x7x6xf32>
}
// CHECK-LABEL: func.func @pads(
// CHECK-NEXT: %[[C:.*]] = graph.conv %x, %w pads [3, 2, 2, 2]
// CHECK-NEXT: func.return %[[C]] :

// -----

// Other numbers, and channels, are not the convolution's.
func.func @other_pads(%x: tensor<1x2x4x4xf32>, %w: tensor<2x2x3x3xf32>, %v: tensor<2x3x3x3xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x2x2xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.pad %x pads [1, 1, 1, 1] axes [2, 3] value %one : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x6x6xf32>
  %1 = graph.conv %0, %w : (tensor<1x2x6x6xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  %2 = graph.pad %x pads [1, 0] axes [1] : (tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32>
  %3 = graph.conv %2, %v : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x2x2xf32>
  func.return %1, %3 : tensor<1x2x4x4xf32>, tensor<1x2x2x2xf32>
}
// CHECK-LABEL: func.func @other_pads(
// CHECK-COUNT-2: graph.pad

// -----

// Elementwise ops broadcast by themselves, unless the shape comes from nothing else.
func.func @broadcasts(%x: tensor<4x1xf32>, %y: tensor<4x3xf32>, %z: tensor<1x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  %0 = graph.broadcast_to %x shape [4, 3] : (tensor<4x1xf32>) -> tensor<4x3xf32>
  %1 = graph.add %0, %y : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = graph.tile %x repeats [1, 3] : (tensor<4x1xf32>) -> tensor<4x3xf32>
  %3 = graph.mul %2, %z : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %4 = graph.broadcast_to %z shape [2, 3] : (tensor<1x3xf32>) -> tensor<2x3xf32>
  %5 = graph.tile %4 repeats [2, 1] : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %6 = graph.exp %5 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %1, %3, %6 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}
// CHECK-LABEL: func.func @broadcasts(
// CHECK: graph.add %x, %y :
// CHECK: graph.mul %x, %z :
// CHECK: %[[B:.*]] = graph.broadcast_to %z shape
// CHECK: %[[T:.*]] = graph.tile %[[B]] repeats
// CHECK: graph.exp %[[T]] :

// -----

// Less is computed before a broadcast.
func.func @broadcast_later(%x: tensor<4x1xf32>) -> tensor<4x3xf32> {
  %c = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.broadcast_to %x shape [4, 3] : (tensor<4x1xf32>) -> tensor<4x3xf32>
  %1 = graph.exp %0 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = graph.mul %1, %c : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}
// CHECK-LABEL: func.func @broadcast_later(
// CHECK: graph.exp %x :
// CHECK: %[[M:.*]] = graph.mul
// CHECK: graph.broadcast_to %[[M]] shape [4, 3]

// -----

// Constant indices in regular order are a slice, others not; indices of every place are a view.
func.func @gathers(%x: tensor<2x6xf32>) -> (tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1x6xf32>) {
  %i = graph.constant dense<-1> : tensor<i64>
  %j = graph.constant dense<[4, 2, 0]> : tensor<3xi64>
  %k = graph.constant dense<[4, 2, 1]> : tensor<3xi64>
  %l = graph.constant dense<[[[[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [0, 5]]], [[[1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [1, 5]]]]> : tensor<2x1x6x2xi64>
  %0 = graph.gather %x, %i axis 1 : (tensor<2x6xf32>, tensor<i64>) -> tensor<2xf32>
  %1 = graph.gather %x, %j axis 1 : (tensor<2x6xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  %2 = graph.gather %x, %k axis 1 : (tensor<2x6xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  %3 = graph.gather_nd %x, %l : (tensor<2x6xf32>, tensor<2x1x6x2xi64>) -> tensor<2x1x6xf32>
  func.return %0, %1, %2, %3 : tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1x6xf32>
}
// CHECK-LABEL: func.func @gathers(
// CHECK: %[[S:.*]] = graph.slice %x starts [5] ends [6] axes [1]
// CHECK: graph.reshape %[[S]] shape [2]
// CHECK: graph.slice %x starts [4] ends [-8] axes [1] steps [-2]
// CHECK: graph.gather %x,
// CHECK: graph.reshape %x shape [2, 1, 6]

// -----

// Vectors of one index are indices of a gather; those of two, and those of several batches, are not.
func.func @one_index(%x: tensor<8x6x4xf32>, %i: tensor<3x5xi64>, %j: tensor<?x1xi64>, %b: tensor<1x7x1xi64>, %y: tensor<1x9x4xf32>, %c: tensor<8x7x1xi64>, %d: tensor<3x2xi64>) -> (tensor<3x5x6x4xf32>, tensor<?x6x4xf32>, tensor<1x7x4xf32>, tensor<8x7x4xf32>, tensor<3x4xf32>) {
  %0 = graph.unsqueeze %i axes [-1] : (tensor<3x5xi64>) -> tensor<3x5x1xi64>
  %1 = graph.gather_nd %x, %0 : (tensor<8x6x4xf32>, tensor<3x5x1xi64>) -> tensor<3x5x6x4xf32>
  %2 = graph.gather_nd %x, %j : (tensor<8x6x4xf32>, tensor<?x1xi64>) -> tensor<?x6x4xf32>
  %3 = graph.gather_nd %y, %b batch_dims 1 : (tensor<1x9x4xf32>, tensor<1x7x1xi64>) -> tensor<1x7x4xf32>
  %4 = graph.gather_nd %x, %c batch_dims 1 : (tensor<8x6x4xf32>, tensor<8x7x1xi64>) -> tensor<8x7x4xf32>
  %5 = graph.gather_nd %x, %d : (tensor<8x6x4xf32>, tensor<3x2xi64>) -> tensor<3x4xf32>
  func.return %1, %2, %3, %4, %5 : tensor<3x5x6x4xf32>, tensor<?x6x4xf32>, tensor<1x7x4xf32>, tensor<8x7x4xf32>, tensor<3x4xf32>
}
// CHECK-LABEL: func.func @one_index(
// CHECK-NEXT:    graph.gather %x, %i : (tensor<8x6x4xf32>, tensor<3x5xi64>)
// CHECK-NEXT:    %[[J:.*]] = graph.squeeze %j axes [1]
// CHECK-NEXT:    graph.gather %x, %[[J]] : (tensor<8x6x4xf32>, tensor<?xi64>)
// CHECK-NEXT:    %[[B:.*]] = graph.squeeze %b axes [0, 2]
// CHECK-NEXT:    graph.gather %y, %[[B]] axis 1 :
// CHECK-NEXT:    graph.gather_nd %x, %c batch_dims 1 :
// CHECK-NEXT:    graph.gather_nd %x, %d :

// -----

// A value again and again, times ones: a broadcast or a tile, and nothing of other numbers.
func.func @repeated(%x: tensor<2x1x4xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>, tensor<2x3x4xf32>) {
  %o = graph.constant dense<1.0> : tensor<1x3x1xf32>
  %t = graph.constant dense<2.0> : tensor<1x3x1xf32>
  %0 = graph.mul %x, %o : (tensor<2x1x4xf32>, tensor<1x3x1xf32>) -> tensor<2x3x4xf32>
  %1 = graph.concat %x, %x, %x axis 1 : (tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  %2 = graph.concat %y, %y axis 1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
  %3 = graph.mul %x, %t : (tensor<2x1x4xf32>, tensor<1x3x1xf32>) -> tensor<2x3x4xf32>
  func.return %0, %1, %2, %3 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>, tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @repeated(
// CHECK:         %[[A:.*]] = graph.broadcast_to %x shape [2, 3, 4]
// CHECK-NEXT:    %[[B:.*]] = graph.broadcast_to %x shape [2, 3, 4]
// CHECK-NEXT:    %[[C:.*]] = graph.tile %y repeats [1, 2, 1]
// CHECK-NEXT:    %[[D:.*]] = graph.mul %x, %t :
// CHECK-NEXT:    func.return %[[A]], %[[B]], %[[C]], %[[D]] :

// -----

// A zero point around integers is what the convolution pads with, unless that is another one.
func.func @pads_of_integers(%x: tensor<1x2x4xi8>, %w: tensor<2x2x3xi8>) -> (tensor<1x2x4xi32>, tensor<1x2x6xi32>, tensor<1x2x6xi32>) {
  %z = graph.constant dense<3> : tensor<i8>
  %0 = graph.pad %x pads [0, 0, 1, 0, 0, 1] value %z : (tensor<1x2x4xi8>, tensor<i8>) -> tensor<1x2x6xi8>
  %1 = graph.conv %0, %w : (tensor<1x2x6xi8>, tensor<2x2x3xi8>) -> tensor<1x2x4xi32>
  %2 = graph.conv %0, %w pad_value 3 pads [1, 1] : (tensor<1x2x6xi8>, tensor<2x2x3xi8>) -> tensor<1x2x6xi32>
  %3 = graph.conv %0, %w pad_value 4 pads [1, 1] : (tensor<1x2x6xi8>, tensor<2x2x3xi8>) -> tensor<1x2x6xi32>
  func.return %1, %2, %3 : tensor<1x2x4xi32>, tensor<1x2x6xi32>, tensor<1x2x6xi32>
}
// CHECK-LABEL: func.func @pads_of_integers(
// CHECK:      %[[P:.*]] = graph.pad %x pads
// CHECK-NEXT: %[[A:.*]] = graph.conv %x, %w pad_value 3 pads [1, 1]
// CHECK-NEXT: %[[B:.*]] = graph.conv %x, %w pad_value 3 pads [2, 2]
// CHECK-NEXT: %[[C:.*]] = graph.conv %[[P]], %w pad_value 4 pads [1, 1]
