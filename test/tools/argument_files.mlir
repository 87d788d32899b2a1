// @FILE stands for the arguments in it.
// RUN: printf -- '--cse\n@%t.inner' > %t.args && printf -- ' -mlir-print-ir-after-all "-p=" ' > %t.inner && ge-opt %s @%t.args 2>&1 | filecheck %s
// RUN: printf '@%t.circle' > %t.circle && not ge-opt @%t.circle 2>&1 | filecheck %s --check-prefix=CIRCLE
// RUN: not ge-opt %s @%t.none 2>&1 | filecheck %s --check-prefix=NONE
// RUN: printf -- '-p "cse' > %t.open && not ge-opt @%t.open 2>&1 | filecheck %s --check-prefix=OPEN

// CHECK: IR Dump After CommonSubexpressionElimination (cse)
// CIRCLE: argument_files.mlir{{.*}}.circle: error: '@{{.*}}.circle' is in itself
// NONE: ge-opt: error: cannot read the arguments in '{{.*}}.none': No such file or directory
// OPEN: {{.*}}.open:1:4: error: this quote " is not closed

func.func private @f() -> ()
