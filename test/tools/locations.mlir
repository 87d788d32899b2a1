// Ops know where they come from; a location in the text is kept; rewrites hand it on.
// RUN: ge-opt %s --mlir-print-debuginfo --split-input-file | filecheck %s
// RUN: ge-opt %s --print-debuginfo --split-input-file --print-op-generic | ge-opt --print-debuginfo --split-input-file | filecheck %s
// RUN: ge-opt %s --print-debuginfo --split-input-file --load-plugin=%S/Inputs/plugin.py --plug-twice | filecheck %s --check-prefix=TWICE

// CHECK: arith.constant 1 : i32 loc("{{.*}}locations.mlir":16:8)
// CHECK: arith.addi {{.*}} loc("{{.*}}locations.mlir":17:12)
// CHECK: arith.muli {{.*}} loc("conv1")
// CHECK: func.return {{.*}}":19:3)
// CHECK: func.func {{.*}}
// CHECK: arith.constant 2 : i32 loc("{{.*}}locations.mlir":25:8)

// TWICE: plug.twice %0 loc("{{.*}}locations.mlir":17:12)

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %a_sum = arith.addi %0, %0 : i32
  %2 = arith.muli %a_sum, %0 : i32 loc("conv1")
  func.return %2 : i32
}

// -----

func.func @g() -> i32 {
  %0 = arith.constant 2 : i32
  func.return %0 : i32
}
