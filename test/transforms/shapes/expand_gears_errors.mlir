// RUN: ge-opt %s -p 'expand-gears{dims="2;5"}' --verify-diagnostics

// The sizes of a gear that contradict the model are told.
func.func @main(%x: tensor<?xf32> {graph.dims = ["n"]}) -> tensor<?xf32> {
  %c = graph.constant dense<1.0> : tensor<2xf32>
  // expected-error@+1 {{'graph.add' op shapes [5] and [2] do not broadcast, in the gear n=5 (in pass 'expand-gears')}}
  %0 = graph.add %x, %c : (tensor<?xf32>, tensor<2xf32>) -> tensor<?xf32>
  func.return %0 : tensor<?xf32>
}
