// RUN: ge-opt %s --split-input-file -p share-common-subexpressions --validate | filecheck %s

// Operands of commutative ops in any order; what uses them is shared next.
func.func @commutative(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.exp %1 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @commutative(
// CHECK-NEXT:    %[[A:.*]] = graph.add %a, %b :
// CHECK-NEXT:    %[[E:.*]] = graph.exp %[[A]] :
// CHECK-NEXT:    func.return %[[E]], %[[E]] :

// -----

// Others only in the given order. Of -0 and 0 the maximum is the first one.
func.func @in_order(%a: tensor<4xf32>, %b: tensor<4xf32>, %i: tensor<4xi32>, %j: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = graph.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.maximum %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.maximum %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.maximum %i, %j : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %5 = graph.maximum %j, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>
}
// CHECK-LABEL: func.func @in_order(
// CHECK-NEXT:    %0 = graph.sub %a, %b :
// CHECK-NEXT:    %1 = graph.sub %b, %a :
// CHECK-NEXT:    %2 = graph.maximum %a, %b :
// CHECK-NEXT:    %3 = graph.maximum %b, %a :
// CHECK-NEXT:    %4 = graph.maximum %i, %j :
// CHECK-NEXT:    func.return %0, %1, %2, %3, %4, %4 :

// -----

// a > b is b < a; equality has no order.
func.func @compare(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %0 = graph.compare gt %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = graph.compare lt %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = graph.compare lt %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %3 = graph.compare eq %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %4 = graph.compare eq %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  func.return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}
// CHECK-LABEL: func.func @compare(
// CHECK-NEXT:    %0 = graph.compare gt %a, %b :
// CHECK-NEXT:    %1 = graph.compare lt %a, %b :
// CHECK-NEXT:    %2 = graph.compare eq %a, %b :
// CHECK-NEXT:    func.return %0, %0, %1, %2, %2 :

// -----

// Attributes, constants and types count.
func.func @attributes(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = graph.transpose %x permutation [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = graph.transpose %x permutation [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.constant dense<0.0> : tensor<2xf32>
  %3 = graph.constant dense<-0.0> : tensor<2xf32>
  %4 = graph.constant #graph.weight<"w"> : tensor<2xf32>
  %5 = graph.constant #graph.weight<"w"> : tensor<2xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<3x2xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @attributes(
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.transpose
// CHECK-NEXT:    graph.constant dense<0.000000e+00>
// CHECK-NEXT:    graph.constant dense<-0.000000e+00>
// CHECK-NEXT:    %[[W:.*]] = graph.constant #graph.weight<"w">
// CHECK-NEXT:    func.return %{{.*}}, %[[W]], %[[W]] :

// -----

// What an outer block computes is shared by inner ones; branches share nothing with each other,
// and what follows shares nothing with them.
func.func @scopes(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b : tensor<4xf32>
  } else {
    %a = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.sqrt %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b : tensor<4xf32>
  }
  %2 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @scopes(
// CHECK-NEXT:    %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:    graph.if
// CHECK-NEXT:      graph.neg %[[E]] :
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    } else {
// CHECK-NEXT:      graph.neg %[[E]] :
// CHECK-NEXT:      graph.sqrt
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    graph.neg %[[E]] :

// -----

// Ops with bodies: equal ones, also in an inner block, and those that differ in the body alone.
func.func @bodies(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %t = graph.add %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %t : tensor<i1>, tensor<4xf32>
  }
  %1 = graph.loop (%j, %on) trip %n : tensor<i64> carry (%u = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %v = graph.add %x, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %on, %v : tensor<i1>, tensor<4xf32>
  }
  %2 = graph.loop (%j, %on) trip %n : tensor<i64> carry (%u = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %v = graph.add %u, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %on, %v : tensor<i1>, tensor<4xf32>
  }
  %3 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %4 = graph.loop (%j, %on) trip %n : tensor<i64> carry (%u = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %v = graph.add %u, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      graph.yield %on, %v : tensor<i1>, tensor<4xf32>
    }
    graph.yield %4 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @bodies(
// CHECK-NEXT:    %[[A:.*]] = graph.loop
// CHECK-NEXT:      graph.add %s, %x :
// CHECK:         %[[B:.*]] = graph.loop
// CHECK-NEXT:      graph.add %u, %u :
// CHECK:         %[[C:.*]] = graph.if
// CHECK-NEXT:      graph.yield %[[B]] :
// CHECK:         func.return %[[A]], %[[A]], %[[B]], %[[C]] :

// -----

// A fused op sees nothing around it: its body shares with itself, equal fused ops are one.
func.func @fused(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    %c = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    %d = graph.mul %b, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fused_op.yield %d : tensor<4xf32>
  }
  %2 = fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    %d = graph.mul %b, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fused_op.yield %d : tensor<4xf32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @fused(
// CHECK-NEXT:    %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[F:.*]] = fused_op.region(%x)
// CHECK-NEXT:    ^{{.*}}(%a: tensor<4xf32>):
// CHECK-NEXT:      %[[I:.*]] = graph.exp %a :
// CHECK-NEXT:      graph.mul %[[I]], %[[I]] :
// CHECK:         func.return %[[E]], %[[F]], %[[F]] :
