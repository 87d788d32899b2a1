// What goes wrong inside a pass of the default pipeline is told with the pass and the place.
// RUN: not ge-compile --load-plugin %S/Inputs/level_plugin.py %s 2>&1 | filecheck %s
// CHECK: ge-compile: error: no sines here (in pass 'refuse-sin')

// RUN: not ge-compile --target=911 %s 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: error: unknown target '911'; {{.*}}910b1'

func.func @main(%x: tensor<1xf32> {graph.name = "x"}) -> (tensor<1xf32> {graph.name = "y"}) {
  %0 = graph.sin %x : (tensor<1xf32>) -> tensor<1xf32>
  func.return %0 : tensor<1xf32>
}
