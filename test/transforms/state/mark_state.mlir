// RUN: ge-opt %s -p 'mark-state{patterns="past\\.(.*)=new.\\1"}' | filecheck %s

// An input is state where the pattern has all of its name.

// CHECK:      func.func @main(
// CHECK-SAME: {graph.name = "past.0", graph.state = "new.0"}
// CHECK-SAME: {graph.name = "past.1", graph.state = "new.1"}
// CHECK-SAME: {graph.name = "a.past.1"}
// CHECK-SAME: ->
func.func @main(%a: tensor<2x8xf32> {graph.name = "past.0"},
                %b: tensor<4x8xf32> {graph.name = "past.1"},
                %c: tensor<4x8xf32> {graph.name = "a.past.1"})
    -> (tensor<2x8xf32> {graph.name = "new.0"}, tensor<8x8xf32> {graph.name = "new.1"}) {
  %0 = graph.exp %a : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.concat %b, %c axis 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  func.return %0, %1 : tensor<2x8xf32>, tensor<8x8xf32>
}
