// An error in a pass names the pass, and the op if the pass says which.
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --cse --plug-fail=how=op 2>&1 | filecheck %s --check-prefix=OP
// OP:      pass_errors.mlir:[[L:[0-9]+]]:10: error: 'arith.addi' op this op cannot be done (in pass 'plug-fail')
// OP-NEXT: %sum = arith.addi %a, %a : i32{{$}}
// OP-NEXT: {{^}}         ^
// OP-NEXT: note: see current operation: %{{.*}} = "arith.addi"(%a, %a)

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail 2>&1 | filecheck %s --check-prefix=PLAIN
// PLAIN: pass_errors.mlir: error: nothing can be done (in pass 'plug-fail')

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=user 2>&1 | filecheck %s --check-prefix=USER
// USER: target.toml: error: the target has no core; see --target

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=loop 2>&1 | filecheck %s --check-prefix=LOOP
// LOOP: pass_errors.mlir:[[L:[0-9]+]]:10: error: rewriting does not end: pattern Endless was applied {{[0-9]+}} times, at last to 'arith.constant'

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=invalid 2>&1 | filecheck %s --check-prefix=INVALID
// INVALID:      pass_errors.mlir:[[L:[0-9]+]]:3: error: 'func.return' op Expected arguments to have the same types {{.*}} (after pass 'plug-fail')
// INVALID:      note: see current operation: "func.return"(%{{.*}}) : (i64) -> ()

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=bug 2>&1 | filecheck %s --check-prefix=BUG
// BUG:      pass_errors.mlir: error: internal error: KeyError: 'an oversight' (in pass 'plug-fail')
// BUG-NEXT: note: this is a bug in the compiler or a plugin
// BUG-NOT:  Traceback

// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=bug --debug 2>&1 | filecheck %s --check-prefix=DEBUG
// DEBUG: Traceback
// DEBUG: KeyError
// DEBUG: pass_errors.mlir: error: internal error: KeyError: 'an oversight' (in pass 'plug-fail')

func.func @f(%a: i32) -> i32 {
  %one = arith.constant 1 : i32
  %sum = arith.addi %a, %a : i32
  %two = arith.addi %sum, %one : i32
  func.return %two : i32
}
