// RUN: ge-opt %s --split-input-file -p simplify-control-flow,eliminate-dead-code --validate | filecheck %s

// No rounds, by count or by condition: the start, and empty scan results.
func.func @idle(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> (tensor<4xf32>, tensor<?x4xf32>, tensor<?x?xf32>) {
  %zero = graph.constant dense<-1> : tensor<i64>
  %false = graph.constant dense<false> : tensor<i1>
  %0, %1 = graph.loop (%i, %go) trip %zero : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b, %b : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  %2 = graph.loop (%i, %go) trip %n : tensor<i64> while %false : tensor<i1> -> (tensor<?x?xf32>) {
    %b = graph.exp %y : (tensor<?xf32>) -> tensor<?xf32>
    graph.yield %go, %b : tensor<i1>, tensor<?xf32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<?x4xf32>, tensor<?x?xf32>
}
// CHECK-LABEL: func.func @idle(
// CHECK-SAME:    -> (tensor<4xf32>, tensor<0x4xf32>, tensor<0x0xf32>)
// CHECK-NEXT:    %[[S:.*]] = graph.constant dense<> : tensor<0x4xf32>
// CHECK-NEXT:    %[[T:.*]] = graph.constant dense<> : tensor<0x0xf32>
// CHECK-NEXT:    func.return %x, %[[S]], %[[T]] :

// -----

// One round, by count or because the body says no.
func.func @once(%n: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>, tensor<4xf32>, tensor<i64>) {
  %one = graph.constant dense<1> : tensor<i64>
  %seven = graph.constant dense<7> : tensor<i64>
  %false = graph.constant dense<false> : tensor<i1>
  %0, %1 = graph.loop (%i, %go) trip %one : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b, %b : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  %2, %3 = graph.loop (%i, %go) carry (%a = %x : tensor<4xf32>, %k = %seven : tensor<i64>) -> (tensor<4xf32>, tensor<i64>) {
    %b = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    %l = graph.add %k, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
    graph.yield %false, %b, %l : tensor<i1>, tensor<4xf32>, tensor<i64>
  }
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<?x4xf32>, tensor<4xf32>, tensor<i64>
}
// CHECK-LABEL: func.func @once(
// CHECK-SAME:    -> (tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<i64>)
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<7> : tensor<i64>
// CHECK-NEXT:    %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[R:.*]] = graph.unsqueeze %[[E]] axes [0]
// CHECK-NEXT:    %[[S:.*]] = graph.sin %x :
// CHECK-NEXT:    func.return %[[E]], %[[R]], %[[S]], %[[C]] :

// -----

// Once at most is not once.
func.func @perhaps(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = graph.constant dense<1> : tensor<i64>
  %false = graph.constant dense<false> : tensor<i1>
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %false, %b : tensor<i1>, tensor<4xf32>
  }
  %1 = graph.loop (%i, %go) trip %one : tensor<i64> while %c : tensor<i1> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b : tensor<i1>, tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @perhaps(
// CHECK:         graph.loop
// CHECK:         graph.loop

// -----

// Values that come around as they went in, the start by its own name too; then the other one is
// computed from values that never change, so that the body folds.
func.func @unchanged(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %true = graph.constant dense<true> : tensor<i1>
  %0, %1, %2, %3 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>, %c = %y : tensor<4xf32>, %f = %true : tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i1>) {
    %d = graph.if %f : (tensor<i1>) -> tensor<4xf32> {
      graph.yield %b : tensor<4xf32>
    } else {
      graph.yield %a : tensor<4xf32>
    }
    %e = graph.add %a, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %e, %d, %y, %f : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i1>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @unchanged(
// CHECK-NEXT:    %[[L:.*]] = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:      %[[E:.*]] = graph.add %a, %y :
// CHECK-NEXT:      graph.yield %go, %[[E]] :
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[L]], %y, %y :

// -----

// Another value than the start makes a difference in the first round.
func.func @changed_once(%n: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    graph.yield %go, %y : tensor<i1>, tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @changed_once(
// CHECK-NEXT:    %[[L:.*]] = graph.loop
// CHECK:         func.return %[[L]] :

// -----

// Values that are always equal, and what is scanned twice, are one.
func.func @equal(%n: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %0, %1, %2, %3 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>, %b = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
    %c = graph.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %c, %c, %b, %b : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}
// CHECK-LABEL: func.func @equal(
// CHECK-NEXT:    %[[A:.*]], %[[S:.*]] = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {
// CHECK-NEXT:      graph.add %a, %a :
// CHECK:         func.return %[[A]], %[[A]], %[[S]], %[[S]] :

// -----

// What is the same in every round goes before the loop, if it cannot fail or surely runs: the
// first gather may not run, the second does; the division by a carried value changes.
func.func @invariant(%n: tensor<i64>, %k: tensor<i64>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> (tensor<f32>, tensor<f32>) {
  %three = graph.constant dense<3> : tensor<i64>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %zero : tensor<f32>) -> (tensor<f32>) {
    %e = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %g = graph.gather %e, %k : (tensor<4xf32>, tensor<i64>) -> tensor<f32>
    %b = graph.div %g, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.yield %go, %b : tensor<i1>, tensor<f32>
  }
  %1 = graph.loop (%i, %go) trip %three : tensor<i64> carry (%a = %zero : tensor<f32>) -> (tensor<f32>) {
    %e = graph.sin %y : (tensor<?xf32>) -> tensor<?xf32>
    %g = graph.gather %e, %k : (tensor<?xf32>, tensor<i64>) -> tensor<f32>
    %b = graph.div %g, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.yield %go, %b : tensor<i1>, tensor<f32>
  }
  func.return %0, %1 : tensor<f32>, tensor<f32>
}
// CHECK-LABEL: func.func @invariant(
// CHECK:         %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:    graph.loop
// CHECK-NEXT:      graph.gather %[[E]],
// CHECK-NEXT:      graph.div
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S:.*]] = graph.sin %y :
// CHECK-NEXT:    %[[G:.*]] = graph.gather %[[S]],
// CHECK-NEXT:    graph.loop
// CHECK-NEXT:      graph.div %[[G]],

// -----

// An invariant branch with its body; a dynamic shape may not fit, so that it stays.
func.func @invariant_branch(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %two = graph.constant dense<3> : tensor<i64>
  %0 = graph.loop (%i, %go) trip %two : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %f = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
      %e = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %e : tensor<4xf32>
    } else {
      graph.yield %x : tensor<4xf32>
    }
    %b = graph.div %f, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b : tensor<i1>, tensor<4xf32>
  }
  %1 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a : tensor<?xf32> = %0 : tensor<4xf32>) -> (tensor<?xf32>) {
    %e = graph.add %y, %x : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = graph.div %a, %e : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b : tensor<i1>, tensor<4xf32>
  }
  func.return %1 : tensor<?xf32>
}
// CHECK-LABEL: func.func @invariant_branch(
// CHECK:         %[[F:.*]] = graph.if %c :
// CHECK:         graph.loop
// CHECK-NEXT:      graph.div %[[F]],
// CHECK:         graph.loop
// CHECK-NEXT:      graph.add %y, %x :

// -----

// The rounds of a loop that counts by itself are counted; the scan result gets a static shape.
func.func @counts(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32>) {
  %zero = graph.constant dense<0> : tensor<i64>
  %two = graph.constant dense<2> : tensor<i64>
  %limit = graph.constant dense<9> : tensor<i64>
  %true = graph.constant dense<true> : tensor<i1>
  %0, %1, %2 = graph.loop (%i, %go) while %true : tensor<i1> carry (%k = %zero : tensor<i64>, %a = %x : tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>, tensor<?x4xf32>) {
    %l = graph.add %k, %two : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %more = graph.compare lt %l, %limit : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %more, %l, %b, %b : tensor<i1>, tensor<i64>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %1, %2 : tensor<4xf32>, tensor<?x4xf32>
}
// CHECK-LABEL: func.func @counts(
// CHECK-NEXT:    %[[N:.*]] = graph.constant dense<5> : tensor<i64>
// CHECK-NEXT:    graph.loop (%i, %go) trip %[[N]] : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<5x4xf32>) {
// CHECK-NEXT:      %[[B:.*]] = graph.exp %a :
// CHECK-NEXT:      graph.yield %go, %[[B]], %[[B]] :

// -----

// Rounds that fold to less than the loop are written out.
func.func @unrolls(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<?xi64>) {
  %three = graph.constant dense<3> : tensor<i64>
  %0, %1 = graph.loop (%i, %go) trip %three : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<?xi64>) {
    %b = graph.mul %i, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %last = graph.compare eq %b, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %c = graph.if %last : (tensor<i1>) -> tensor<4xf32> {
      %d = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %d : tensor<4xf32>
    } else {
      graph.yield %a : tensor<4xf32>
    }
    graph.yield %go, %c, %b : tensor<i1>, tensor<4xf32>, tensor<i64>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<?xi64>
}
// CHECK-LABEL: func.func @unrolls(
// CHECK-NEXT:    %[[S:.*]] = graph.constant dense<[0, 1, 4]> : tensor<3xi64>
// CHECK-NEXT:    func.return %x, %[[S]] :

// -----

// Others are not: two rounds of two launches are more than a loop with two.
func.func @unrolls_not(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = graph.constant dense<2> : tensor<i64>
  %0 = graph.loop (%i, %go) trip %two : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    %c = graph.sin %b : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %c : tensor<i1>, tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @unrolls_not(
// CHECK:         graph.loop

// -----

// A loop of one launch is no better than two of them.
func.func @unrolls_small(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = graph.constant dense<2> : tensor<i64>
  %0 = graph.loop (%i, %go) trip %two : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %b : tensor<i1>, tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @unrolls_small(
// CHECK-NEXT:    %[[A:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[B:.*]] = graph.exp %[[A]] :
// CHECK-NEXT:    func.return %[[B]] :

// -----

// All together: the outer loop runs once, the inner one becomes counted, its invariant leaves both.
func.func @nested(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %one = graph.constant dense<1> : tensor<i64>
  %six = graph.constant dense<6> : tensor<i64>
  %0 = graph.loop (%i, %go) trip %one : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %1, %2 = graph.loop (%j, %on) carry (%b = %a : tensor<4xf32>, %k = %i : tensor<i64>) -> (tensor<4xf32>, tensor<i64>) {
      %s = graph.sin %y : (tensor<4xf32>) -> tensor<4xf32>
      %d = graph.add %b, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %e = graph.exp %d : (tensor<4xf32>) -> tensor<4xf32>
      %l = graph.add %k, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
      %more = graph.compare lt %l, %six : (tensor<i64>, tensor<i64>) -> tensor<i1>
      graph.yield %more, %e, %l : tensor<i1>, tensor<4xf32>, tensor<i64>
    }
    graph.yield %go, %1 : tensor<i1>, tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @nested(
// CHECK:         %[[S:.*]] = graph.sin %y :
// CHECK-NEXT:    %[[L:.*]] = graph.loop (%j, %on) trip %{{.*}} : tensor<i64> carry (%b = %x : tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:      graph.add %b, %[[S]] :
// CHECK-NEXT:      graph.exp
// CHECK-NEXT:      graph.yield %on,
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[L]] :

// -----

// What is asserted is asserted where the loop runs.
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>, %n: tensor<i64>) -> tensor<4xf32> {
  %y = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %1 = graph.assert %x, %c, "no" : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
    %2 = graph.add %a, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %2 : tensor<i1>, tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.loop
// CHECK-NEXT:      graph.assert
