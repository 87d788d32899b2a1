// Colours of diagnostics, asked for.
// RUN: not ge-opt %s --color 2>&1 | filecheck %s
// RUN: not ge-opt %s --color=always 2>&1 | filecheck %s
// RUN: not ge-opt %s --color=auto 2>&1 | filecheck %s --check-prefix=PLAIN
// RUN: not ge-opt %s --color=never 2>&1 | filecheck %s --check-prefix=PLAIN
// RUN: not ge-opt %s --color=red 2>&1 | filecheck %s --check-prefix=WHAT

// CHECK: [1;31merror:
// PLAIN: {{^}}{{[^ ]*}}colours.mlir:13:1: error: unknown op 'a.b'
// WHAT: ge-opt: error: argument --color: auto, always or never, not 'red'


a.b
