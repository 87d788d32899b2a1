// The patterns that a plug-in's op comes with are applied where ge's own are.
// RUN: ge-opt %s --load-plugin %S/Inputs/gain.py -canonicalize | filecheck %s
// RUN: ge-opt %s --load-plugin %S/Inputs/gain.py -p simplify-algebra,eliminate-dead-code | filecheck %s
// RUN: ge-compile %s --load-plugin %S/Inputs/gain.py --until graph -o - | filecheck %s
// Its programs are proved with the plug-in alone.
// RUN: ge-compile %s --load-plugin %S/Inputs/gain.py -o %t.mlir && ge-check %t.mlir --load-plugin %S/Inputs/gain.py | filecheck %s --check-prefix=PROVED
// RUN: env GE_CUSTOM_PASS=%S/Inputs/gain.py ge-check %t.mlir | filecheck %s --check-prefix=PROVED
// RUN: not ge-check %t.mlir 2>&1 | filecheck %s --check-prefix=UNKNOWN
// PROVED: proved, 4 tasks
// UNKNOWN: error: unknown op 'loud.gain'

func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}, tensor<4xf32> {graph.name = "z"}) {
  %0 = loud.gain %x decibels 0.0 : f64 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = loud.gain %0 decibels 3.0 : f64 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = loud.gain %1 decibels 4.0 : f64 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.neg %3 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %4 : tensor<4xf32>, tensor<4xf32>
}
// CHECK:      func.func @main(
// CHECK-NEXT:   [[Y:%.*]] = loud.gain %x decibels 7.000000e+00 : f64
// CHECK-NEXT:   func.return %x, [[Y]] :
