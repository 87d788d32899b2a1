// All ways to expect a diagnostic, as in mlir-opt.
// RUN: ge-opt %s --split-input-file --verify-diagnostics --load-plugin=%S/Inputs/plugin.py --plug-talk | filecheck %s
// CHECK: func.func @talk(

func.func @talk(%a: i32) -> i32 {
  // expected-remark@+1 {{an addition}}
  %0 = arith.addi %a, %a : i32
  // expected-warning@-1 {{of a value to itself}}
  %1 = arith.addi %0, %a : i32 // expected-remark {{addition}}
  // expected-remark@below {{an}}
  %2 = arith.addi %1, %a : i32
  %3 = arith.addi %2, %a : i32
  // expected-remark@above {{addition}}

  // expected-remark-re@+1 {{an {{[ad]+}}ition}}
  %4 = arith.addi %3, %a : i32
  func.return %4 : i32
}
// -----
// expected-error@+1 {{there is no dialect 'a'}}
a.b
