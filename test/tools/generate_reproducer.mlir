// What mlir-opt calls a reproducer: a module with the passes, whether or not anything fails.
// RUN: ge-opt %s -p 'func.func(cse),canonicalize' --mlir-generate-reproducer=%t.mlir | filecheck %s --check-prefix=DONE
// RUN: filecheck %s < %t.mlir
// RUN: ge-opt %t.mlir --run-reproducer | filecheck %s --check-prefix=DONE
// RUN: ge-opt %t.mlir --run-reproducer --dump-pass-pipeline -o /dev/null 2>&1 | filecheck %s --check-prefix=DUMP --match-full-lines
// RUN: not ge-opt %s --mlir-generate-reproducer=%t/none/x.mlir 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: ge-opt %s --show-dialects | filecheck %s --check-prefix=DIALECTS

// CHECK:      %{{.*}} = "arith.addi"
// CHECK-NEXT: %{{.*}} = "arith.addi"
// CHECK:      pipeline: "builtin.module(func.func(cse),canonicalize)",

// DONE:     arith.addi
// DONE-NOT: arith.addi
// DONE-NOT: {-#

// DUMP:      Pass Manager with 2 passes:
// DUMP-NEXT: builtin.module(func.func(cse),canonicalize)

// WRONG: error: cannot write '{{.*}}x.mlir': No such file or directory
// DIALECTS: Available Dialects: {{.*}}arith,{{.*}},func,fused_op,{{.*}}graph,{{.*}}npu_task

func.func @f(%x: i32) -> (i32, i32) {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  func.return %0, %1 : i32, i32
}
