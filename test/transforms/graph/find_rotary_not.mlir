// RUN: ge-opt %s --split-input-file -p find-rotary --validate | filecheck %s

// What looks like rotary embedding and is not.

// The embedding itself, to start from.
func.func @rotary(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %b : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %n, %a axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = graph.add %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @rotary(
// CHECK-NEXT:  graph.rotary_embedding %x, %c, %s full_tables

// -----

// Turned the other way: the first half is negative.
func.func @other_way(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %a : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %b, %n axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = graph.add %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @other_way(
// CHECK-NOT:   rotary

// -----

// The halves do not change places.
func.func @halves_in_place(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %a : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %n, %b axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = graph.add %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @halves_in_place(
// CHECK-NOT:   rotary

// -----

// The other summand is of another value.
func.func @another_value(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %b : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %n, %a axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %y, %c : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = graph.add %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @another_value(
// CHECK-NOT:   rotary

// -----

// A difference.
func.func @difference(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x8xf32>, %s: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %b : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %n, %a axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %2 = graph.sub %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @difference(
// CHECK-NOT:   rotary

// -----

// One number a token in the tables, not one an element.
func.func @by_token(%x: tensor<2x4x8xf32>, %y: tensor<2x4x8xf32>, %c: tensor<4x1xf32>, %s: tensor<4x1xf32>) -> tensor<2x4x8xf32> {
  %a, %b = graph.split %x axis 2 : (tensor<2x4x8xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %n = graph.neg %b : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.concat %n, %a axis 2 : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x8xf32>
  %0 = graph.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x1xf32>) -> tensor<2x4x8xf32>
  %1 = graph.mul %r, %s : (tensor<2x4x8xf32>, tensor<4x1xf32>) -> tensor<2x4x8xf32>
  %2 = graph.add %0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %2 : tensor<2x4x8xf32>
}
// CHECK-LABEL: func.func @by_token(
// CHECK-NOT:   rotary
