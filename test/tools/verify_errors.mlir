// What the verifier says stands at the op, whatever its location is.
// RUN: ge-opt %s --split-input-file --verify-diagnostics --load-plugin=%S/Inputs/plugin.py
// RUN: not ge-opt %s --split-input-file --load-plugin=%S/Inputs/plugin.py 2>&1 | filecheck %s

func.func @f() -> i32 {
  // CHECK:      verify_errors.mlir:[[LINE:[0-9]+]]:3: error: 'func.return' op Expected arguments
  // CHECK-NEXT: {{^}}  func.return // here
  // CHECK-NEXT: {{^}}  ^
  // expected-error@+1 {{'func.return' op Expected arguments to have the same types}}
  func.return // here
}
// -----
%0 = "test.op"() : () -> tensor<2xf32>
%1 = "test.op"() : () -> tensor<3xf32>
// CHECK:      verify_errors.mlir:[[LINE:[0-9]+]]:11: error: 'graph.add' op shapes [2] and [3] do not broadcast
// CHECK-NEXT: %name = graph.add
// CHECK-NEXT: {{^}}          ^
// expected-error@below {{'graph.add' op shapes [2] and [3] do not broadcast}}
  %name = graph.add %0, %1 : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
// -----
// An op that the model named. It has no line of this file.
// expected-error@unknown {{'arith.addi' op operand 'lhs' at position 0 does not verify}}
// CHECK: loc("/encoder/Add_1"): error: 'arith.addi' op operand 'lhs' at position 0 does not verify
%0 = "test.op"() : () -> f32
%1 = "arith.addi"(%0, %0) : (f32, f32) -> f32 loc("/encoder/Add_1")
// -----
// CHECK: model.py:17:4: error: 'arith.addi' op operand 'lhs' at position 0 does
// expected-error@unknown {{operand 'lhs' at position 0 does not verify}}
%0 = "test.op"() : () -> f32
%1 = "arith.addi"(%0, %0) : (f32, f32) -> f32 loc(fused["a", callsite("model.py":17:4 at "b")])
// -----
// A verifier with a bug.
// expected-error@+1 {{internal error: IndexError: list index out of range}}
plug.fragile
// -----
// expected-error@+1 {{terminates block in single-block region but is not a terminator}}
func.func @f() { %0 = arith.constant 1 : i32 }
// -----
// A successor outside of a region of blocks.
func.func @f() {
  // expected-error@+1 {{'test.termop' op with block successors must terminate its parent block}}
  "test.termop"() [^bb1] : () -> ()
  func.return
^bb1:
  func.return
}
