// How a module is printed, by the flags of mlir-opt.
// RUN: ge-opt %s --mlir-print-debuginfo --mlir-pretty-debuginfo | filecheck %s --check-prefix=PRETTY
// RUN: ge-opt %s --mlir-pretty-debuginfo | filecheck %s --check-prefix=PLAIN
// RUN: ge-opt %s --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=LOCAL
// RUN: ge-opt %s --mlir-print-skip-regions | filecheck %s --check-prefix=SKIP --match-full-lines
// RUN: ge-opt %s --mlir-print-skip-regions --mlir-print-op-generic | filecheck %s --check-prefix=SKIP-GENERIC --match-full-lines
// RUN: ge-opt %s --mlir-print-unique-ssa-ids | filecheck %s --check-prefix=UNIQUE
// RUN: ge-opt %s --mlir-print-value-users | filecheck %s --check-prefix=USERS
// RUN: ge-opt %s --mlir-print-value-users | ge-opt | filecheck %s --check-prefix=PLAIN
// RUN: ge-opt %s --mlir-use-nameloc-as-prefix | filecheck %s --check-prefix=NAMES
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=2 | filecheck %s --check-prefix=HEX
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=2 | ge-opt | filecheck %s --check-prefix=PLAIN
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=3 | filecheck %s --check-prefix=PLAIN
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=-1 | filecheck %s --check-prefix=PLAIN
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=1 --mlir-elide-elementsattrs-if-larger=2 | filecheck %s --check-prefix=ELIDED
// RUN: ge-opt %s -p 'func.func(cse)' --mlir-print-ir-after-all --mlir-print-skip-regions 2>&1 >/dev/null | filecheck %s --check-prefix=DUMP --match-full-lines

// PLAIN:      func.func @f(%a: f32, %b: i1) -> (f32, f32) {
// PLAIN-NEXT:   %0 = arith.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// PLAIN-NEXT:   %1, %2 = scf.if
// PLAIN-NEXT:     %3 = arith.addf %a, %a : f32
// PLAIN:      func.func @g(%a: f32) -> f32 {
// PLAIN-NEXT:   %0 = arith.addf

// PRETTY:      func.func @f(%a: f32 "an/input", %b: i1 [unknown]) -> (f32, f32) {
// PRETTY-NEXT:   tensor<3xf32> ["a", b.py:1:2]
// PRETTY:          %3 = arith.addf %a, %a : f32 "Add_3"(b.py:4:5)
// PRETTY-NEXT:     scf.yield %3, %a : f32, f32 "Add_3" at b.py:5:6
// PRETTY-NEXT:   } else {
// PRETTY-NEXT:     scf.yield %a, %a : f32, f32 {{.*}}print_looks.mlir:{{[0-9]+}}:5

// LOCAL:     func.func @f(%a: f32 loc("an/input"), %b: i1 loc(unknown))
// LOCAL-NOT: #loc

// SKIP: builtin.module {...}
// SKIP-GENERIC: "builtin.module"() ({...}) : () -> ()

// UNIQUE:      func.func @f(%a: f32, %b: i1)
// UNIQUE:        %3 = arith.addf %a, %a :
// UNIQUE:      func.func @g(%a_1: f32) -> f32 {
// UNIQUE-NEXT:   %4 = arith.addf %a_1, %a_1 :

// USERS:      func.func @f(%a: f32, %b: i1)
// USERS-NEXT:   // %a is used by %5, %4, %3
// USERS-NEXT:   // %b is used by %1, %2
// USERS-NEXT:   %0 = arith.constant {{.*}} // unused
// USERS-NEXT:   %1, %2 = scf.if
// USERS-NEXT:     %3 = arith.addf %a, %a : f32 // user: %4
// USERS-NEXT:     scf.yield %3, %a : f32, f32 // id: %4
// USERS-NEXT:   } else {
// USERS-NEXT:     scf.yield %a, %a : f32, f32 // id: %5
// USERS-NEXT:   } // users: (%6), (%6)
// USERS-NEXT:   func.return %1, %2 : f32, f32 // id: %6

// NAMES:      func.func @f(%an_input: f32, %b: i1)
// NAMES-NEXT:   %a = arith.constant
// NAMES:          %Add_3 = arith.addf %an_input, %an_input :

// HEX:    dense<"0x0000803F0000004000004040"> : tensor<3xf32>
// ELIDED: dense_resource<__elided__> : tensor<3xf32>

// DUMP:      // -----// IR Dump After CommonSubexpressionElimination (cse) //----- //
// DUMP-NEXT: func.func @f(%a: f32, %b: i1) -> (f32, f32) {...}

func.func @f(%a: f32 loc("an/input"), %b: i1) -> (f32, f32) {
  %0 = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> loc(fused["a", "b.py":1:2])
  %1, %2 = scf.if %b -> (f32, f32) {
    %3 = arith.addf %a, %a : f32 loc("Add_3"("b.py":4:5))
    scf.yield %3, %a : f32, f32 loc(callsite("Add_3" at "b.py":5:6))
  } else {
    scf.yield %a, %a : f32, f32
  }
  func.return %1, %2 : f32, f32
}
func.func @g(%a: f32) -> f32 {
  %0 = arith.addf %a, %a : f32
  func.return %0 : f32
}
