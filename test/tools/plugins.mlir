// A Python file adds dialects and passes.
// RUN: ge-opt %s --load-plugin %S/Inputs/plugin.py | filecheck %s
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-twice | filecheck %s --check-prefix=TWICE
// RUN: not ge-opt %s 2>&1 | filecheck %s --check-prefix=WITHOUT
// RUN: not ge-opt %s --load-plugin=%S/Inputs/none.py 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not ge-opt %s --load-plugin=%S/Inputs/broken_plugin.py 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not ge-opt %s --load-plugin=%S/Inputs/clashing_plugin.py 2>&1 | filecheck %s --check-prefix=CLASH

// CHECK:   plug.twice
// CHECK:   arith.addi
// TWICE:   plug.twice
// TWICE:   plug.twice
// WITHOUT: error: unknown op 'plug.twice': there is no dialect 'plug'
// NONE:    ge-opt: error: cannot load plugin '{{.*}}none.py': no such Python file
// BROKEN:      broken_plugin.py:3: error: cannot load plugin: ModuleNotFoundError: No module named 'no_such_module'
// BROKEN-NEXT: import no_such_module
// CLASH:   ge-opt: error: a pass named 'canonicalize' exists already

func.func @f(%a: i32) -> i32 {
  %0 = plug.twice %a
  %1 = arith.addi %0, %0 : i32
  func.return %1 : i32
}
