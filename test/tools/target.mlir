// The target is the NPU, for passes that ask for one; what xdsl-opt calls so is the output format.
// RUN: ge-opt %s -p infer-shapes,check-capacity --target=310p3 --dump-pass-pipeline -o /dev/null 2>&1 | filecheck %s
// RUN: ge-opt %s --check-capacity=target=910b2 --target 310p3 --dump-pass-pipeline -o /dev/null 2>&1 | filecheck %s --check-prefix=GIVEN
// RUN: not ge-opt %s --target 310p 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: ge-opt %s --output-format='mlir{print_generic_format=true}' | filecheck %s --check-prefix=GENERIC
// RUN: ge-opt %s -t 'mlir{print_generic_format=true}' --infer-shapes | filecheck %s --check-prefix=GENERIC

// CHECK: builtin.module(infer-shapes,check-capacity{target="310p3"})
// GIVEN: builtin.module(check-capacity{target="910b2"})
// UNKNOWN: ge-opt: error: unknown target '310p'; did you mean '310p3'?
// GENERIC: "func.func"

func.func @f() {
  func.return
}
