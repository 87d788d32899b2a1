// RUN: ge-opt %s --split-input-file -p infer-shapes | filecheck %s

// A carried value keeps the type of its start when it comes around the same.
func.func @same(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<?xf32> {
  %h, %hs = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s : tensor<?xf32> = %x : tensor<4xf32>) -> (tensor<?xf32>, tensor<?x?xf32>) {
    %t = graph.exp %s : (tensor<?xf32>) -> tensor<?xf32>
    graph.yield %go, %t, %t : tensor<i1>, tensor<?xf32>, tensor<?xf32>
  }
  func.return %h : tensor<?xf32>
}
// CHECK-LABEL: func.func @same(
// CHECK-SAME:    -> tensor<4xf32>
// CHECK-NEXT:    carry (%s = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {
// CHECK-NEXT:      graph.exp %s : (tensor<4xf32>) -> tensor<4xf32>

// -----

// A dimension that grows is unknown, the other one is not; values in the body follow.
func.func @grows(%n: tensor<i64>, %x: tensor<1x4xf32>) -> tensor<?x?xf32> {
  %h = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s : tensor<?x?xf32> = %x : tensor<1x4xf32>) -> (tensor<?x?xf32>) {
    %e = graph.exp %s : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %t = graph.concat %e, %x axis 0 : (tensor<?x?xf32>, tensor<1x4xf32>) -> tensor<?x?xf32>
    graph.yield %go, %t : tensor<i1>, tensor<?x?xf32>
  }
  func.return %h : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @grows(
// CHECK-SAME:    -> tensor<?x4xf32>
// CHECK-NEXT:    carry (%s : tensor<?x4xf32> = %x : tensor<1x4xf32>) -> (tensor<?x4xf32>) {
// CHECK-NEXT:      graph.exp %s : (tensor<?x4xf32>) -> tensor<?x4xf32>

// -----

// What changes one carried value changes the other one a round later.
func.func @chain(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a, %b, %c = graph.loop (%i, %go) trip %n : tensor<i64> carry (%p : tensor<?xf32> = %x : tensor<4xf32>, %q : tensor<?xf32> = %x : tensor<4xf32>, %r : tensor<?xf32> = %x : tensor<4xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    graph.yield %go, %q, %y, %r : tensor<i1>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
  func.return %a : tensor<?xf32>
}
// CHECK-LABEL: func.func @chain(
// CHECK:         carry (%p : tensor<?xf32> = %x : tensor<4xf32>, %q : tensor<?xf32> = %x : tensor<4xf32>, %r = %x : tensor<4xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<4xf32>)

// -----

// A rank that changes is unknown.
func.func @rank(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<1x4xf32>) -> tensor<*xf32> {
  %h = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s : tensor<*xf32> = %x : tensor<4xf32>) -> (tensor<*xf32>) {
    graph.yield %go, %y : tensor<i1>, tensor<1x4xf32>
  }
  func.return %h : tensor<*xf32>
}
// CHECK-LABEL: func.func @rank(
// CHECK-SAME:    -> tensor<*xf32>
// CHECK-NEXT:    carry (%s : tensor<*xf32> = %x : tensor<4xf32>) -> (tensor<*xf32>)

// -----

// A loop in a loop: the inner one is inferred again when the outer one's types change.
func.func @nested(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %h = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s : tensor<?xf32> = %x : tensor<4xf32>) -> (tensor<?xf32>) {
    %k = graph.loop (%j, %on) trip %n : tensor<i64> carry (%t : tensor<?xf32> = %s : tensor<?xf32>) -> (tensor<?xf32>) {
      graph.yield %on, %y : tensor<i1>, tensor<?xf32>
    }
    graph.yield %go, %k : tensor<i1>, tensor<?xf32>
  }
  func.return %h : tensor<?xf32>
}
// CHECK-LABEL: func.func @nested(
// CHECK:         carry (%s : tensor<?xf32> = %x : tensor<4xf32>) -> (tensor<?xf32>)
// CHECK-NEXT:    carry (%t = %s : tensor<?xf32>) -> (tensor<?xf32>)

// -----

// Branches are joined likewise.
func.func @branches(%c: tensor<i1>, %x: tensor<4x2xf32>, %y: tensor<4x3xf32>, %z: tensor<4xf32>) {
  %a, %b = graph.if %c : (tensor<i1>) -> (tensor<?x?xf32>, tensor<*xf32>) {
    graph.yield %x, %x : tensor<4x2xf32>, tensor<4x2xf32>
  } else {
    graph.yield %y, %z : tensor<4x3xf32>, tensor<4xf32>
  }
  func.return
}
// CHECK-LABEL: func.func @branches(
// CHECK:         graph.if %c : (tensor<i1>) -> (tensor<4x?xf32>, tensor<*xf32>)
