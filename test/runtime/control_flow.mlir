// Branches and loops of the graph level, and what they become: the same numbers at every level.
// RUN: ge-run %s | filecheck %s
// RUN: ge-run %s --level tasks | filecheck %s
// RUN: ge-run %s --level buffers | filecheck %s
// RUN: ge-run %s --level program --poison | filecheck %s

// CHECK:      taken: float32[2] = 2 3{{$}}
// CHECK-NEXT: other: float32[2] = 1 2{{$}}
// CHECK-NEXT: power: float32[] = 16{{$}}
// CHECK-NEXT: steps: float32[4] = 2 4 8 16{{$}}
// CHECK-NEXT: swapped: float32[2] = 1 2{{$}}
// CHECK-NEXT: none: float32[0] ={{ *$}}
func.func @main(%x: tensor<f32> {graph.name = "x"}) -> (
    tensor<2xf32> {graph.name = "taken"},
    tensor<2xf32> {graph.name = "other"},
    tensor<f32> {graph.name = "power"},
    tensor<4xf32> {graph.name = "steps"},
    tensor<2xf32> {graph.name = "swapped"},
    tensor<?xf32> {graph.name = "none"}) {
  // nothing is known before the program runs: x - x is zero
  %zero = graph.sub %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %yes = graph.compare eq %zero, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %no = graph.not %yes : (tensor<i1>) -> tensor<i1>
  %c1 = graph.constant dense<1.0> : tensor<f32>
  %one = graph.add %zero, %c1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %c12 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %a = graph.add %c12, %zero : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = graph.add %a, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %taken = graph.if %yes : (tensor<i1>) -> tensor<2xf32> {
    %0 = graph.add %a, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    graph.yield %0 : tensor<2xf32>
  } else {
    graph.yield %a : tensor<2xf32>
  }
  %other = graph.if %no : (tensor<i1>) -> tensor<2xf32> {
    %0 = graph.add %a, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    graph.yield %0 : tensor<2xf32>
  } else {
    graph.yield %a : tensor<2xf32>
  }
  %four = graph.constant dense<4> : tensor<i64>
  %power, %steps = graph.loop (%i, %go) trip %four : tensor<i64>
      carry (%p = %one : tensor<f32>) -> (tensor<f32>, tensor<4xf32>) {
    %0 = graph.add %p, %p : (tensor<f32>, tensor<f32>) -> tensor<f32>
    graph.yield %go, %0, %0 : tensor<i1>, tensor<f32>, tensor<f32>
  }
  // both carried values change at the same time
  %s, %t = graph.loop (%i2, %go2) trip %four : tensor<i64>
      carry (%p2 = %a : tensor<2xf32>, %q2 = %b : tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    graph.yield %go2, %q2, %p2 : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  %none = graph.loop (%i3, %go3) while %no : tensor<i1> -> (tensor<?xf32>) {
    graph.yield %go3, %one : tensor<i1>, tensor<f32>
  }
  func.return %taken, %other, %power, %steps, %s, %none : tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<4xf32>, tensor<2xf32>, tensor<?xf32>
}
