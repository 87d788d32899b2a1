// RUN: ge-opt %s -p 'prune-outputs{outputs=c,a}' | filecheck %s
// RUN: ge-opt %s -p 'prune-outputs{outputs="c" unused-inputs=true}' | filecheck %s --check-prefix=DROP
// RUN: ge-opt %s -p prune-outputs | filecheck %s --check-prefix=ALL
// RUN: ge-compile %s --until graph --outputs c -o - | filecheck %s --check-prefix=ONE
// RUN: ge-compile %s --until graph --outputs c,a --drop-unused-inputs -o - | filecheck %s --check-prefix=TWO
// RUN: ge-run %s --keep-outputs a | filecheck %s --check-prefix=RUNS
// RUN: not ge-compile %s --outputs aa 2>&1 | filecheck %s --check-prefix=NEAR
// RUN: not ge-compile %s --outputs nothing 2>&1 | filecheck %s --check-prefix=NONE

func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %y: tensor<4xf32> {graph.name = "y"}) -> (tensor<4xf32> {graph.name = "a"}, tensor<2x2xf32> {graph.name = "b"}, tensor<4xf32> {graph.name = "c"}) {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.reshape %y shape [2, 2] : (tensor<4xf32>) -> tensor<2x2xf32>
  %2 = graph.cos %y : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>
}

// The order is the model's. Inputs stay.
// CHECK:      func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %y: tensor<4xf32> {graph.name = "y"}) -> (tensor<4xf32> {graph.name = "a"}, tensor<4xf32> {graph.name = "c"}) {
// CHECK-NEXT:   %[[A:.*]] = graph.exp %x :
// CHECK-NEXT:   %[[C:.*]] = graph.cos %y :
// CHECK-NEXT:   func.return %[[A]], %[[C]] :

// DROP:      func.func @main(%y: tensor<4xf32> {graph.name = "y"}) -> (tensor<4xf32> {graph.name = "c"}) {
// DROP-NEXT:   graph.cos %y :

// ALL:       graph.exp
// ALL-NEXT:  graph.reshape
// ALL-NEXT:  graph.cos

// ONE:       func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %y: tensor<4xf32> {graph.name = "y"}) -> (tensor<4xf32> {graph.name = "c"}) {
// TWO:       func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %y: tensor<4xf32> {graph.name = "y"}) -> (tensor<4xf32> {graph.name = "a"}, tensor<4xf32> {graph.name = "c"}) {
// RUNS: a: float32[4] = {{.*}}

// NEAR: prune_outputs.mlir:{{.*}}error: there is no output 'aa'; did you mean 'a'?
// NONE: error: there is no output 'nothing'; outputs are a, b, c
