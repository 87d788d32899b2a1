// RUN: ge-opt %s --split-input-file -p simplify-control-flow,eliminate-dead-code | filecheck %s

// A loop that nobody needs, even one that would not end; the loop in it goes with it.
func.func @unused(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  graph.loop (%i, %go) -> () {
    %0 = graph.loop (%j, %on) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = graph.sin %a : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %on, %1 : tensor<i1>, tensor<4xf32>
    }
    graph.yield %go : tensor<i1>
  }
  func.return %x : tensor<4xf32>
}
// CHECK-LABEL: func.func @unused(
// CHECK-NEXT:    func.return

// -----

// Data that is known at run time only decides; a loop that never ends is left alone.
func.func @counts_not(%x: tensor<f32>) -> tensor<f32> {
  %zero = graph.constant dense<0> : tensor<i64>
  %0 = graph.loop (%i, %go) carry (%a = %x : tensor<f32>) -> (tensor<f32>) {
    %b = graph.sin %a : (tensor<f32>) -> tensor<f32>
    %more = graph.compare lt %b, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    graph.yield %more, %b : tensor<i1>, tensor<f32>
  }
  %1 = graph.loop (%i, %go) carry (%a = %0 : tensor<f32>) -> (tensor<f32>) {
    %b = graph.sin %a : (tensor<f32>) -> tensor<f32>
    %more = graph.compare ge %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    graph.yield %more, %b : tensor<i1>, tensor<f32>
  }
  func.return %1 : tensor<f32>
}
// CHECK-LABEL: func.func @counts_not(
// CHECK:         graph.loop ({{.*}}) carry
// CHECK:         graph.loop ({{.*}}) carry
