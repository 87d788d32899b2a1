// A reproducer holds the module and the passes, and runs again by itself.
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --canonicalize --plug-fail=how=bug --cse --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: filecheck %s < %t.mlir
// RUN: not ge-opt %t.mlir --load-plugin=%S/Inputs/plugin.py 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not ge-opt %t.mlir --run-reproducer --load-plugin=%S/Inputs/plugin.py 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not ge-opt %t.mlir 2>&1 | filecheck %s --check-prefix=PLUGIN
// RUN: ge-opt %t.mlir --cse | filecheck %s --check-prefix=OTHER

// ERROR: error: internal error: KeyError: 'an oversight' (in pass 'plug-fail')
// PLUGIN: <pass-pipeline>:1:{{[0-9]+}}: error: unknown pass 'plug-fail'

// CHECK:      // error: {{.*}}internal error: KeyError: 'an oversight'
// CHECK:      "arith.addi"(%0, %0) {{.*}} loc("{{.*}}reproducer.mlir":36:8)
// CHECK:      {-#
// CHECK-NEXT:   external_resources: {
// CHECK-NEXT:     mlir_reproducer: {
// CHECK-NEXT:       pipeline: "builtin.module(canonicalize,plug-fail{how=bug},cse)",
// CHECK-NEXT:       disable_threading: true,
// CHECK-NEXT:       verify_each: true
// OTHER:      arith.addi

// With --mlir-pass-pipeline-local-reproducer: the failing pass, and the module right before it.
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --canonicalize --plug-fail=how=invalid --mlir-pass-pipeline-crash-reproducer=%t.2.mlir --mlir-pass-pipeline-local-reproducer
// RUN: filecheck %s --check-prefix=LOCAL < %t.2.mlir
// LOCAL-NOT: arith.addi
// LOCAL:     pipeline: "builtin.module(plug-fail{how=invalid})"

// Nothing is written when nothing fails; other files are no reproducers.
// RUN: ge-opt %s --canonicalize --mlir-pass-pipeline-crash-reproducer=%t.3.mlir
// RUN: not ge-opt %t.3.mlir 2>&1 | filecheck %s --check-prefix=NOFILE
// NOFILE: cannot open
// RUN: not ge-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE
// NONE: reproducer.mlir: error: this is not a reproducer of ge-opt
func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %0, %0 : i32
  func.return %1 : i32
}
