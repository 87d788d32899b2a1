// RUN: ge-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: ge-opt %s --allow-unregistered-dialect --print-op-generic | ge-opt --allow-unregistered-dialect | filecheck %s
// RUN: not ge-opt %s 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not xdsl-opt %s

// CHECK: %0 = "stablehlo.abs"(%x) {note = #some.attr<1>} : (tensor<2xf32>) -> tensor<2xf32>
// ERROR: unregistered.mlir:10:8: error: unknown op 'stablehlo.abs': there is no dialect 'stablehlo'

func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.abs"(%x) {note = #some.attr<1>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
