// What --verify-diagnostics makes of diagnostics that no comment expects, and of comments that are
// no expectations.
// RUN: not ge-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s
// RUN: not ge-opt %s --split-input-file --verify-diagnostics=all 2>&1 | filecheck %s
// RUN: not ge-opt %s --split-input-file --verify-diagnostics=only-expected 2>&1 | filecheck %s --check-prefix=ONLY
// RUN: not ge-opt %s --verify-diagnostics=some 2>&1 | filecheck %s --check-prefix=LEVEL
// LEVEL: argument --verify-diagnostics: invalid choice: 'some' (choose from

// CHECK: expectation_levels.mlir:19:1: error: unexpected error: unknown op 'a.b'
// CHECK: expectation_levels.mlir:24:1: error: unexpected error (a comment expects a warning): unknown op 'a.b'
// CHECK: expectation_levels.mlir:23:4: error: expected warning "unknown op" was not produced
// CHECK: expectation_levels.mlir:26:4: error: this expectation cannot be read
// CHECK: expectation_levels.mlir:29:4: error: the regular expression that begins with '{{[{][{]}}' has no '}}'
// CHECK: expectation_levels.mlir:30:4: error: 'a(' is no regular expression: missing )
// ONLY-NOT: :19:1
// ONLY: expectation_levels.mlir:23:4: error: expected warning "unknown op" was not produced

// -----
a.b
// -----


// expected-warning@+1 {{unknown op}}
a.b
// -----
// expected-error@+1 {{unknown op
func.func private @f() -> ()
// -----
// expected-error-re {{a {{b+}}
// expected-error-re {{a {{a(}}}}
func.func private @f() -> ()
