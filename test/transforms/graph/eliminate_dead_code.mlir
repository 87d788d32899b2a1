// RUN: ge-opt %s --split-input-file -p eliminate-dead-code --validate | filecheck %s

// What is computed for a dead value alone is dead.
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.sin %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    graph.exp
// CHECK-NEXT:    graph.sin
// CHECK-NEXT:    func.return

// -----

// An op of which one result is used stays.
func.func @several(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0, %1 = graph.split %x sizes [2, 2] axis 0 : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  func.return %1 : tensor<2xf32>
}
// CHECK-LABEL: func.func @several(
// CHECK-NEXT:    graph.split

// -----

// A result of a branch that nobody uses, and what was computed for it, before the branch too.
func.func @branch(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  %1, %2 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  } else {
    graph.yield %0, %x : tensor<4xf32>, tensor<4xf32>
  }
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @branch(
// CHECK-NEXT:    %[[R:.*]] = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
// CHECK-NEXT:      %[[S:.*]] = graph.sin %x :
// CHECK-NEXT:      graph.yield %[[S]] : tensor<4xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      graph.yield %x : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[R]] :

// -----

// Carried values that only they themselves need, in a circle too, and scan results. The first one
// is not returned, but decides when the loop ends.
func.func @loop(%n: tensor<i64>, %k: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %h:5 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %k : tensor<i64>, %b = %x : tensor<4xf32>, %c = %0 : tensor<4xf32>, %d = %x : tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) {
    %more = graph.compare lt %a, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %a1 = graph.add %a, %a : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %c1 = graph.sin %d : (tensor<4xf32>) -> tensor<4xf32>
    %d1 = graph.cos %c : (tensor<4xf32>) -> tensor<4xf32>
    %b1 = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %more, %a1, %b1, %c1, %d1, %d1 : tensor<i1>, tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %h#1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @loop(
// CHECK-NEXT:    %{{.*}}, %[[R:.*]] = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %k : tensor<i64>, %b = %x : tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>) {
// CHECK-NEXT:      graph.compare
// CHECK-NEXT:      graph.add
// CHECK-NEXT:      graph.neg
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[R]] :

// -----

// A value that only the body of a loop needs is carried on, though nobody uses the result.
func.func @argument(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<?x4xf32> {
  %0, %1, %2 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>, %b = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) {
    %c = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %c, %c, %a : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %2 : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @argument(
// CHECK-NEXT:    graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {

// -----

// In a fused op; the outer op is needed by it alone.
func.func @fused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    %c = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    fused_op.yield %c : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @fused(
// CHECK:         ^{{.*}}(%a: tensor<4xf32>):
// CHECK-NEXT:      graph.sin
