// Options are spelled as LLVM's tools take them: with one dash or two, switches with a value.
// RUN: ge-opt %s -canonicalize -cse -mlir-print-op-generic -mlir-print-ir-after=cse -o %t.mlir 2>&1 | filecheck %s
// RUN: ge-opt %s -canonicalize='' --mlir-print-op-generic=true | filecheck %s --check-prefix=GENERIC
// RUN: ge-opt %s --mlir-print-op-generic=0 -mlir-timing=false 2>&1 | filecheck %s --check-prefix=OFF
// RUN: ge-compile %s -until=graph -o - -mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: ge-run %s -timing-only=0 -seed=3 | filecheck %s --check-prefix=NUMBERS
// RUN: not ge-opt %s --mlir-timing=maybe 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not ge-opt %s --mlir-elide-elementsattrs-if-larger=-1 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=many 2>&1 | filecheck %s --check-prefix=HEX
// RUN: not ge-compile %s --mlir-print-ir-after=fuse-linaer 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not ge-opt %s -mlir-tming 2>&1 | filecheck %s --check-prefix=UNKNOWN

// CHECK: IR Dump After CommonSubexpressionElimination (cse)
// CHECK: "builtin.module"
// GENERIC: "builtin.module"
// OFF-NOT: Execution
// OFF: builtin.module {
// NUMBERS: float32[4]

// WRONG: ge-opt: error: argument --mlir-timing: 0 or 1, not 'maybe'
// NUMBER: ge-opt: error: argument --mlir-elide-elementsattrs-if-larger: {{.*}}, not '-1'
// HEX: ge-opt: error: argument --mlir-print-elementsattrs-with-hex-if-larger: {{.*}}, not 'many'
// PASS: ge-compile: error: unknown pass 'fuse-linaer'; did you mean 'fuse-linear'?
// UNKNOWN: ge-opt: error: unknown option '-mlir-tming'; did you mean '--mlir-timing'?

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
