// RUN: ge-opt %s -o - | filecheck %s
// RUN: not ge-opt %s --shrink | filecheck %s --check-prefix=NOSHRINK
// RUN: ge-opt %s --load-plugin=%S/Inputs/shrink.py --shrinks --shrink | filecheck %s --check-prefix=SHRINK
// RUN: ge-opt %s -t 'mlir{print_generic_format=true}' | filecheck %s --check-prefix=GENERIC

// CHECK: func.func @f(
// NOSHRINK: Failure, can't shrink
// SHRINK: Success, can shrink
// GENERIC: "func.func"() <{sym_name = "f"
func.func @f() {
  func.return
}
