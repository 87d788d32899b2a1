// --parsing-diagnostics prints what went wrong and exits with 0.
// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s
// RUN: not ge-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK:      plain_diagnostics.mlir:9:3: error: 'func.return' op Expected arguments to have the same types
// CHECK-NEXT: func.return
// CHECK-NEXT: ^
func.func @f() -> i32 {
  func.return
}

// -----

// CHECK: plain_diagnostics.mlir:15:1: error: unknown op 'a.b'
a.b

// -----

// CHECK: func.func private @after_errors(
func.func private @after_errors() -> ()

// -----

// CHECK: error: 'arith.addi' op
// CHECK-SAME: operand 'lhs' at position 0 does not verify
%0 = "test.op"() : () -> f32
%1 = "arith.addi"(%0, %0) : (f32, f32) -> f32
