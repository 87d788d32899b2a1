// The module runs before and after each pass. The first one that breaks what it declares is named.
// RUN: not ge-opt %s --load-plugin=%S/Inputs/numbers.py --regroup --drop-zero --canonicalize --validate --validate-output=%t.mlir 2>&1 | filecheck %s --check-prefix=NAMED
// NAMED:      validate.mlir:[[#]]:{{.*}}error: pass 'drop-zero' declares bit-exact, but changes the numbers: @main, {{edges|extremes|zeros}} inputs: output 'result0': {{.*}} became {{.*}} at [{{.*}}]; {{.*}}.mlir repeats it with 1 op
// NAMED-NEXT: %2 = graph.add %1, %zero :

// What is written is a test, cut down to the op that matters.
// RUN: filecheck %s --check-prefix=TEST < %t.mlir
// TEST:      // RUN{{:}} ge-opt %s --load-plugin={{.*}}/numbers.py -p drop-zero --validate | filecheck %s{{$}}
// TEST-NEXT: // Declared: bit-exact.
// TEST-NEXT: // @main, edges inputs: output 'result0': {{.*}}0.0 became -0.0 at
// TEST-NEXT: // CHECK: builtin.module
// TEST:        %zero = graph.constant dense<0.000000e+00> : tensor<f32>
// TEST-NEXT:   %[[R:.*]] = graph.add %{{.*}}, %zero :
// TEST-NEXT:   func.return %[[R]] :

// It fails with that pass, for the same reason, and not without.
// RUN: not ge-opt %t.mlir --load-plugin=%S/Inputs/numbers.py -p drop-zero --validate --validate-output=%t.again.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: ge-opt %t.mlir -p canonicalize --validate | filecheck %t.mlir
// AGAIN: error: pass 'drop-zero' declares bit-exact, but changes the numbers

// A pass that says that it rounds elsewhere may; one that says that it does not may not.
// RUN: ge-opt %s --load-plugin=%S/Inputs/numbers.py --regroup --validate | filecheck %s
// RUN: not ge-opt %s --load-plugin=%S/Inputs/numbers.py --regroup=exact=true --validate --validate-output=%t.exact.mlir 2>&1 | filecheck %s --check-prefix=EXACT
// RUN: filecheck %s --check-prefix=PAIR < %t.exact.mlir
// CHECK: %[[B:.*]] = graph.add %y, %z :
// CHECK: graph.add %x, %[[B]] :
// EXACT: error: pass 'regroup' declares bit-exact, but changes the numbers: @main, normal inputs: {{.*}} repeats it with 2 ops
// PAIR:       -p 'regroup{exact=true}'
// PAIR:       graph.add
// PAIR-NEXT:  graph.add
// PAIR-NEXT:  func.return

func.func @main(%x: tensor<5x7xf32>, %y: tensor<7xf32>, %z: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.add %x, %y : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
  %1 = graph.add %0, %z : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %2 = graph.add %1, %zero : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %3 = graph.reciprocal %2 : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = graph.tanh %3 : (tensor<5x7xf32>) -> tensor<5x7xf32>
  func.return %4 : tensor<5x7xf32>
}
