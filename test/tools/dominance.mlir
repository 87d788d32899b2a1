// A value is defined before it is used, in the input and after each pass.
// RUN: ge-opt %s --split-input-file --verify-diagnostics
// RUN: not ge-opt %S/Inputs/two_adds.in --load-plugin=%S/Inputs/plugin.py -p 'plug-fail{how=order}' 2>&1 | filecheck %s --check-prefix=PASS
// RUN: ge-opt %S/Inputs/two_adds.in --load-plugin=%S/Inputs/plugin.py -p 'plug-fail{how=order}' --verify-each=false

// PASS:      two_adds.in:{{.*}}: error: operand #0 does not dominate this use (after pass 'plug-fail')
// PASS:      two_adds.in:{{.*}}: note: operand defined here (op in the same block)

func.func @f(%x: i32) -> i32 {
  // expected-error@+1 {{operand #1 does not dominate this use}}
  %0 = arith.addi %x, %1 : i32
  // expected-note@+1 {{operand defined here (op in the same block)}}
  %1 = arith.addi %x, %x : i32
  func.return %0 : i32
}

// -----

func.func @branches(%c: i1, %x: i32) -> i32 {
  cf.cond_br %c, ^a, ^b
^a:
  // expected-note@+1 {{operand defined here (op in the same region)}}
  %0 = arith.addi %x, %x : i32
  cf.br ^b
^b:
  // expected-error@+1 {{operand #0 does not dominate this use}}
  func.return %0 : i32
}

// -----

// The entry dominates all, and no path comes to ^dead.
func.func @fine(%c: i1, %x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  cf.cond_br %c, ^a, ^b
^a:
  cf.br ^b
^b:
  func.return %0 : i32
^dead:
  %1 = arith.addi %2, %x : i32
  %2 = arith.addi %1, %x : i32
  func.return %2 : i32
}
