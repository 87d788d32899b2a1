// Counters leave out applications of rules, and runs of passes.
// RUN: ge-opt %s --find-activations | filecheck %s --check-prefixes=ALL
// RUN: ge-opt %s --find-activations --mlir-debug-counter=find-silu-skip=1,find-silu-count=1 | filecheck %s --check-prefix=SECOND
// RUN: ge-opt %s --find-activations --mlir-debug-counter=rule-application-count=2 | filecheck %s --check-prefix=TWO
// RUN: ge-opt %s --find-activations --cse --mlir-debug-counter=pass-execution-skip=1 --mlir-print-debug-counter 2>&1 | filecheck %s --check-prefix=PASS
// RUN: ge-opt %s --find-activations --mlir-print-debug-counter 2>&1 >%t.out | filecheck %s --check-prefix=PRINT
// RUN: not ge-opt %s --mlir-debug-counter=find-slu-skip=1 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not ge-opt %s --mlir-debug-counter=find-silu 2>&1 | filecheck %s --check-prefix=FORM

// ALL-COUNT-3: graph.silu
// SECOND-COUNT-1: graph.silu
// SECOND-NOT: graph.silu
// TWO-COUNT-2: graph.silu
// TWO-NOT: graph.silu
// PASS: DebugCounter counters: {seen,skip,count}
// PASS: pass-execution : {2,1,-1}
// PRINT: find-silu : {3,0,-1}
// NAME: ge-opt: error: --mlir-debug-counter: nothing counts 'find-slu'; did you mean 'find-silu'?
// FORM: ge-opt: error: --mlir-debug-counter: expected NAME-skip=N or NAME-count=N, not 'find-silu'

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.mul %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.sigmoid %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.mul %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.sigmoid %3 : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.mul %3, %4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}
