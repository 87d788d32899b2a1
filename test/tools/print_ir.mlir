// The IR before and after passes goes to stderr, the result alone to stdout.
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-before-all 2>&1 >/dev/null | filecheck %s --check-prefix=BEFORE
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-after-all --mlir-print-ir-before-all 2>/dev/null | filecheck %s --check-prefix=STDOUT
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-before=cse 2>&1 | filecheck %s --check-prefix=ONE
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-after=canonicalize,cse 2>&1 | filecheck %s --check-prefix=TWO
// RUN: ge-opt %s --canonicalize --cse --mlir-print-ir-after-change 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --cse --plug-fail --mlir-print-ir-after-failure 2>&1 --parsing-diagnostics | filecheck %s --check-prefix=FAILURE
// RUN: not ge-opt %s --cse --mlir-print-ir-after=csee 2>&1 | filecheck %s --check-prefix=UNKNOWN

// BEFORE:      // -----// IR Dump Before Canonicalize (canonicalize) //----- //
// BEFORE-NEXT: builtin.module {
// BEFORE:      arith.addi
// BEFORE:      // -----// IR Dump Before CommonSubexpressionElimination (cse) //----- //
// BEFORE-NOT:  arith.addi

// STDOUT-NOT: IR Dump

// ONE-NOT: canonicalize
// ONE:     IR Dump Before CommonSubexpressionElimination (cse)
// ONE-NOT: IR Dump

// TWO: IR Dump After Canonicalize
// TWO: IR Dump After CommonSubexpressionElimination

// CHANGE:     IR Dump After Canonicalize
// CHANGE-NOT: IR Dump

// FAILURE-NOT: Dump After CommonSub
// FAILURE:     IR Dump After PlugFail Failed (plug-fail)
// FAILURE:     error: nothing can be done (in pass 'plug-fail')

// UNKNOWN: ge-opt: error: unknown pass 'csee'; did you mean 'cse'?

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %0, %0 : i32
  func.return %1 : i32
}
