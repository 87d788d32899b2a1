// Warnings are printed, remarks on request; neither is a failure.
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-talk 2>&1 >/dev/null | filecheck %s --check-prefix=WARNING
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-talk --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// WARNING-NOT:  remark:
// WARNING:      remarks.mlir:12:8: warning: of a value to itself
// WARNING-NEXT: %0 = arith.addi %a, %a : i32{{$}}
// REMARK:       remarks.mlir:12:8: remark: an addition
// REMARK:       remarks.mlir:12:8: warning: of a value to itself

func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  func.return %0 : i32
}
