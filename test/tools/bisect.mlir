// The pass and the application of a rule that make a module wrong.
// RUN: ge-opt %s --find-activations --cse --bisect 2>&1 | filecheck %s --check-prefix=GOOD
// GOOD: no pass does harm
// RUN: not ge-opt %s --cse --load-plugin=%S/Inputs/numbers.py --drop-zero --find-activations --bisect 2>&1 | filecheck %s --check-prefix=NUMBERS
// NUMBERS:      error: pass 'drop-zero' (number 2 of 3) does harm: it changes the numbers: @main, {{.*}} inputs: output 'result0': {{.*}} became {{.*}}
// NUMBERS-NEXT: bisect.mlir:[[#ZERO:]]:8: note: by this application of rule 'DropZero'
// NUMBERS-NEXT: %3 = graph.add %2, %zero :
// NUMBERS:      note: up to it, it is ge-opt -p 'builtin.module(cse,drop-zero)' --mlir-debug-counter=rule-application-count={{[0-9]+}}
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail --bisect 2>&1 | filecheck %s --check-prefix=FAILS
// FAILS:      error: pass 'plug-fail' (number 1 of 1) does harm: nothing can be done
// FAILS-NEXT: note: not by an application of a rule that is counted; up to this pass it is ge-opt -p 'builtin.module(plug-fail)'

// With a script: from the second silu on it is wrong.
// RUN: printf '#!/bin/sh\ntest $(grep -c graph.silu $1) -ge 2 && exit 1\nexit 0\n' > %t.sh && chmod +x %t.sh
// RUN: not ge-opt %s --cse --find-activations --bisect=%t.sh 2>&1 | filecheck %s --check-prefix=SCRIPT
// SCRIPT:      error: pass 'find-activations' (number 2 of 2) does harm: the script says so
// SCRIPT-NEXT: bisect.mlir:{{[0-9]+}}:8: note: by this application of rule 'find-silu'
// SCRIPT-NEXT: graph.sigmoid
// SCRIPT:      --mlir-debug-counter=rule-application-count=2{{$}}
// RUN: not ge-opt %s --cse --bisect=false 2>&1 | filecheck %s --check-prefix=BEFORE
// BEFORE: error: the script says that the input is wrong before any pass (status 1)

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.sigmoid %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.add %2, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = graph.sigmoid %3 : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.mul %3, %4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = graph.sigmoid %5 : (tensor<4xf32>) -> tensor<4xf32>
  %7 = graph.mul %5, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}
