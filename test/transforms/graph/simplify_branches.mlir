// RUN: ge-opt %s --split-input-file -p simplify-control-flow,eliminate-dead-code --validate | filecheck %s

// The branch of a constant condition, and the branch in it, whose condition folds only now.
func.func @constant(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %t = graph.constant dense<true> : tensor<1xi1>
  %0 = graph.if %t : (tensor<1xi1>) -> tensor<4xf32> {
    %f = graph.not %t : (tensor<1xi1>) -> tensor<1xi1>
    %1 = graph.if %f : (tensor<1xi1>) -> tensor<4xf32> {
      %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    } else {
      %2 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @constant(
// CHECK-NEXT:    %[[S:.*]] = graph.sin %x :
// CHECK-NEXT:    func.return %[[S]] :

// -----

// What the branch knows, its users know: the shape is static.
func.func @types(%x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %t = graph.constant dense<true> : tensor<i1>
  %0 = graph.if %t : (tensor<i1>) -> tensor<?xf32> {
    graph.yield %x : tensor<4xf32>
  } else {
    graph.yield %y : tensor<?xf32>
  }
  %1 = graph.exp %0 : (tensor<?xf32>) -> tensor<?xf32>
  func.return %1 : tensor<?xf32>
}
// CHECK-LABEL: func.func @types(
// CHECK-SAME:    -> tensor<4xf32>
// CHECK-NEXT:    graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>

// -----

// A condition is known in its own branches, in inner loops too.
func.func @known(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %2 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
        %3 = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
        graph.yield %3 : tensor<4xf32>
      } else {
        graph.yield %x : tensor<4xf32>
      }
      graph.yield %go, %2 : tensor<i1>, tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  } else {
    %1 = graph.select %c, %x, %x : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.not %c : (tensor<i1>) -> tensor<i1>
    %3 = graph.if %2 : (tensor<i1>) -> tensor<4xf32> {
      %4 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %4 : tensor<4xf32>
    } else {
      graph.yield %1 : tensor<4xf32>
    }
    graph.yield %3 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @known(
// CHECK:         graph.if %c :
// CHECK-NEXT:      graph.loop
// CHECK-NEXT:        graph.exp
// CHECK-NEXT:        graph.yield
// CHECK-NEXT:      }
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    } else {
// CHECK-NEXT:      graph.sin
// CHECK-NEXT:      graph.yield

// -----

// After the branches it is not known.
func.func @unknown(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  %2 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %3 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %3 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  func.return %0, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @unknown(
// CHECK:         graph.if %c :
// CHECK:         graph.if %c :

// -----

// What both branches compute goes before them, with what is computed from it, inner branches and
// commutative operands included; the rest stays.
func.func @common(%c: tensor<i1>, %d: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0, %1, %2 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.add %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %i = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %k = graph.tanh %b : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %k : tensor<4xf32>
    } else {
      graph.yield %a : tensor<4xf32>
    }
    %e = graph.sin %b : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b, %e, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } else {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.add %a, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %e = graph.cos %b : (tensor<4xf32>) -> tensor<4xf32>
    %i = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %k = graph.tanh %b : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %k : tensor<4xf32>
    } else {
      graph.yield %a : tensor<4xf32>
    }
    graph.yield %b, %e, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @common(
// CHECK-NEXT:    %[[A:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[B:.*]] = graph.add %x, %[[A]] :
// CHECK-NEXT:    %[[I:.*]] = graph.if %d :
// CHECK-NEXT:      graph.tanh %[[B]] :
// CHECK:         %[[E:.*]] = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
// CHECK-NEXT:      graph.sin %[[B]] :
// CHECK:           graph.cos %[[B]] :
// CHECK:         func.return %[[B]], %[[E]], %[[I]] :

// -----

// Branches that are all the same are none.
func.func @same(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
    %a = graph.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  } else {
    %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
    %a = graph.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @same(
// CHECK-NEXT:    %[[W:.*]] = graph.constant
// CHECK-NEXT:    %[[A:.*]] = graph.add %x, %[[W]] :
// CHECK-NEXT:    func.return %[[A]] :

// -----

// Equal results are one; true where the condition holds is the condition.
func.func @results(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<i1>) {
  %true = graph.constant dense<true> : tensor<i1>
  %false = graph.constant dense<false> : tensor<i1>
  %0, %1, %2, %3 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<i1>) {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a, %a, %true, %false : tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<i1>
  } else {
    graph.yield %x, %x, %false, %true : tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<i1>
  }
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<i1>
}
// CHECK-LABEL: func.func @results(
// CHECK-NEXT:    %[[N:.*]] = graph.not %c :
// CHECK-NEXT:    %[[R:.*]] = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
// CHECK:         func.return %[[R]], %[[R]], %c, %[[N]] :

// -----

// What one branch alone computes stays there: it may fail, and it costs something.
func.func @alone(%c: tensor<i1>, %k: tensor<i64>, %x: tensor<4xf32>) -> tensor<f32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<f32> {
    %g = graph.gather %x, %k : (tensor<4xf32>, tensor<i64>) -> tensor<f32>
    graph.yield %g : tensor<f32>
  } else {
    %z = graph.constant dense<0.0> : tensor<f32>
    graph.yield %z : tensor<f32>
  }
  func.return %0 : tensor<f32>
}
// CHECK-LABEL: func.func @alone(
// CHECK-NEXT:    %[[Z:.*]] = graph.constant
// CHECK-NEXT:    graph.if %c :
// CHECK-NEXT:      graph.gather
// CHECK:         } else {
// CHECK-NEXT:      graph.yield %[[Z]] :

// -----

// A case is a chain of branches: what all cases compute is hoisted out of the whole chain.
func.func @case(%i: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %c = graph.compare eq %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
    %d = graph.compare eq %i, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %2 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %3 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      %4 = graph.sin %3 : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %4 : tensor<4xf32>
    } else {
      %3 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      %4 = graph.cos %3 : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %4 : tensor<4xf32>
    }
    graph.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @case(
// CHECK:         %[[E:.*]] = graph.exp %x :
// CHECK-NOT:     graph.exp
// CHECK:         graph.yield %[[E]] :
// CHECK:         graph.sin %[[E]] :
// CHECK:         graph.cos %[[E]] :

// -----

// A case that is known leaves one branch.
func.func @known_case(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %c = graph.compare eq %one, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
    %d = graph.compare eq %one, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %2 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %3 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %3 : tensor<4xf32>
    } else {
      %3 = graph.cos %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %3 : tensor<4xf32>
    }
    graph.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @known_case(
// CHECK-NOT:     graph.if
// CHECK:         %[[S:.*]] = graph.sin %x :
// CHECK-NEXT:    func.return %[[S]] :

// -----

// What is hoisted uses the second of two equal ops: both are the hoisted one.
func.func @twice_in_a_branch(%c: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %n = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
    %s = graph.sin %n : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a, %s : tensor<4xf32>, tensor<4xf32>
  } else {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %n = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a, %n : tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @twice_in_a_branch(
// CHECK-NEXT:    %[[E:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[N:.*]] = graph.neg %[[E]] :
// CHECK-NEXT:    graph.if
// CHECK-NEXT:      graph.sin %[[N]] :
// CHECK-NOT:     graph.exp

// -----

// The branch of a constant index.
func.func @case(%j: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %i = graph.constant dense<1> : tensor<i64>
  %0 = graph.case %i : (tensor<i64>) -> tensor<4xf32> {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  } {
    %a = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  }
  %1 = graph.case %j : (tensor<i64>) -> tensor<4xf32> {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  } {
    %a = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @case(
// CHECK:         %[[S:.*]] = graph.sin %x :
// CHECK:         %[[C:.*]] = graph.case
// CHECK:         func.return %[[S]], %[[C]] :

// -----

// What all branches compute is hoisted, what two of three compute is not; a value of all is itself.
func.func @hoist_of_three(%i: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = graph.case %i : (tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  } {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %b = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  } {
    %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a, %a : tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @hoist_of_three(
// CHECK-NEXT:    %[[A:.*]] = graph.exp %x :
// CHECK-NEXT:    %[[C:.*]] = graph.case %i : (tensor<i64>) -> tensor<4xf32> {
// CHECK-NEXT:      graph.sin %[[A]] :
// CHECK:           graph.sin %[[A]] :
// CHECK:         func.return %[[C]], %[[A]] :
