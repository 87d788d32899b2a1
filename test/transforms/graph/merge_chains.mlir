// RUN: ge-opt %s --split-input-file -p simplify-control-flow,eliminate-dead-code --validate | filecheck %s

// A chain of three is a case of four; results come in the order of the first branch, and a value
// that a side only passes on is yielded where it is.
func.func @chain(%i: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = graph.constant dense<0> : tensor<i64>
  %seven = graph.constant dense<7> : tensor<i64>
  %minus = graph.constant dense<-1> : tensor<i64>
  %c = graph.compare eq %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %0, %1 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
    %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2, %x : tensor<4xf32>, tensor<4xf32>
  } else {
    %d = graph.compare eq %seven, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %3, %4 = graph.if %d : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
      %5 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %y, %5 : tensor<4xf32>, tensor<4xf32>
    } else {
      %k = graph.sub %i, %minus : (tensor<i64>, tensor<i64>) -> tensor<i64>
      %e = graph.compare lt %k, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %6 = graph.if %e : (tensor<i1>) -> tensor<4xf32> {
        %7 = graph.cos %x : (tensor<4xf32>) -> tensor<4xf32>
        graph.yield %7 : tensor<4xf32>
      } else {
        %7 = graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
        graph.yield %7 : tensor<4xf32>
      }
      graph.yield %6, %y : tensor<4xf32>, tensor<4xf32>
    }
    graph.yield %4, %3 : tensor<4xf32>, tensor<4xf32>
  }
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @chain(
// CHECK-DAG:     %[[ZERO:.*]] = graph.constant dense<0> : tensor<i64>
// CHECK-DAG:     %[[ONE:.*]] = graph.constant dense<1> : tensor<i64>
// CHECK-DAG:     %[[TWO:.*]] = graph.constant dense<2> : tensor<i64>
// CHECK-DAG:     %[[THREE:.*]] = graph.constant dense<3> : tensor<i64>
// CHECK:         %[[C:.*]] = graph.compare eq %i, %[[ZERO]] :
// CHECK:         %[[D:.*]] = graph.compare eq
// CHECK:         %[[K:.*]] = graph.sub %i,
// CHECK:         %[[E:.*]] = graph.compare lt %[[K]], %[[ZERO]] :
// CHECK:         %[[S:.*]] = graph.select %[[E]], %[[TWO]], %[[THREE]] :
// CHECK-NEXT:    %[[T:.*]] = graph.select %[[D]], %[[ONE]], %[[S]] :
// CHECK-NEXT:    %[[U:.*]] = graph.select %[[C]], %[[ZERO]], %[[T]] :
// CHECK-NEXT:    graph.case %[[U]] : (tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:      %[[R:.*]] = graph.exp %x :
// CHECK-NEXT:      graph.yield %[[R]], %x :
// CHECK-NEXT:    } {
// CHECK-NEXT:      %[[R:.*]] = graph.sin %x :
// CHECK-NEXT:      graph.yield %[[R]], %y :
// CHECK-NEXT:    } {
// CHECK-NEXT:      %[[R:.*]] = graph.cos %x :
// CHECK-NEXT:      graph.yield %y, %[[R]] :
// CHECK-NEXT:    } {
// CHECK-NEXT:      %[[R:.*]] = graph.tanh %x :
// CHECK-NEXT:      graph.yield %y, %[[R]] :
// CHECK-NEXT:    }

// -----

// One branch stays one; so do two of which the outer one's then side has the inner one.
func.func @short(%c: tensor<i1>, %d: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    } else {
      graph.yield %x : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  } else {
    %2 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @short(
// CHECK-NOT:     graph.case
// CHECK:         graph.if %c :
// CHECK:         graph.if %d :

// -----

// What is no shape arithmetic is not computed for those who do not need it.
func.func @costs(%c: tensor<i1>, %x: tensor<4xf32>, %t: tensor<f32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    graph.yield %x : tensor<4xf32>
  } else {
    %s = graph.reduce sum %x axes [0] keep_dims false : (tensor<4xf32>) -> tensor<f32>
    %d = graph.compare lt %s, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %1 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    } else {
      %2 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @costs(
// CHECK-NOT:     graph.case

// -----

// What may fail (an index out of range) stays where it was asked for.
func.func @fails(%c: tensor<i1>, %x: tensor<4xf32>, %t: tensor<2xi64>, %i: tensor<i64>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    graph.yield %x : tensor<4xf32>
  } else {
    %s = graph.gather %t, %i : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
    %d = graph.compare lt %s, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %1 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    } else {
      %2 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @fails(
// CHECK-NOT:     graph.case

// -----

// What uses the inner branch's result comes after it: no chain, even where it is of scalars.
func.func @after(%c: tensor<i1>, %d: tensor<i1>, %i: tensor<i64>, %j: tensor<i64>) -> tensor<i64> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<i64> {
    graph.yield %i : tensor<i64>
  } else {
    %1 = graph.if %d : (tensor<i1>) -> tensor<i64> {
      %2 = graph.neg %i : (tensor<i64>) -> tensor<i64>
      graph.yield %2 : tensor<i64>
    } else {
      graph.yield %j : tensor<i64>
    }
    %3 = graph.add %1, %j : (tensor<i64>, tensor<i64>) -> tensor<i64>
    graph.yield %3 : tensor<i64>
  }
  func.return %0 : tensor<i64>
}
// CHECK-LABEL: func.func @after(
// CHECK-NOT:     graph.case

// -----

// A chain in a branch of another one that is none; a branch in a side of a chain stays.
func.func @inside(%c: tensor<i1>, %d: tensor<i1>, %e: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.if %d : (tensor<i1>) -> tensor<4xf32> {
      graph.yield %x : tensor<4xf32>
    } else {
      %2 = graph.if %e : (tensor<i1>) -> tensor<4xf32> {
        %3 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
        graph.yield %3 : tensor<4xf32>
      } else {
        %3 = graph.cos %x : (tensor<4xf32>) -> tensor<4xf32>
        graph.yield %3 : tensor<4xf32>
      }
      graph.yield %2 : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  } else {
    %2 = graph.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @inside(
// CHECK:         graph.if %c :
// CHECK-NEXT:      graph.select %e,
// CHECK-NEXT:      graph.select %d,
// CHECK-NEXT:      graph.case
