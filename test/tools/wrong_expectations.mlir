// What is expected and not said, or said and not expected, is an error.
// RUN: not ge-opt %s --split-input-file --verify-diagnostics 2>&1 >%t.out | filecheck %s
// RUN: filecheck %s --check-prefix=OUT < %t.out

// OUT: builtin.module
// OUT: func.func private @fine(

// CHECK: wrong_expectations.mlir:[[L:[0-9]+]]:4: error: expected error "other words" was not produced
// CHECK: wrong_expectations.mlir:[[L:[0-9]+]]:4: error: expected warning "no such" was not produced
// CHECK: wrong_expectations.mlir:[[L:[0-9]+]]:1: error: unexpected error: unknown op 'c.d'
// CHECK: wrong_expectations.mlir:[[L:[0-9]+]]:4: error: expected error "there is no dialect" was not produced

// -----
// expected-error@+1 {{unknown op}}
a.b
// expected-error@-1 {{other words}}
// -----
// expected-warning {{no such}}
func.func private @fine() -> ()
// -----
c.d
// -----
// expected-error {{there is no dialect}}

e.f // expected-error {{unknown op 'e.f'}}
