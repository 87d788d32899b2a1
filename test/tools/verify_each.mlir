// --verify-each=false shows what a pass has made of the module; the input is verified all the same.
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=invalid --verify-each=false | filecheck %s
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=invalid --verify-each=true 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail=how=invalid --verify-each=false | not ge-opt - --verify-each=false 2>&1 | filecheck %s --check-prefix=INPUT

// CHECK: func.func @f() -> i32 {
// CHECK: func.return %{{.*}} : i64{{$}}
// ERROR: error: 'func.return' op {{.*}} (after pass 'plug-fail')
// INPUT: <stdin>:{{[0-9]+}}:5: error: 'func.return' op

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  func.return %0 : i32
}
