// Remarks by kind, pass and text; as YAML of LLVM's form; and in a summary by rule.
// RUN: ge-opt %s -p 'find-activations,fuse-linear{target=910_merged}' --remarks=yaml 2>&1 >/dev/null | filecheck %s --check-prefix=YAML
// RUN: ge-opt %s -p 'find-activations,fuse-linear{target=910_merged}' --remarks=summary 2>&1 >/dev/null | filecheck %s --check-prefix=SUMMARY
// RUN: ge-opt %s -p 'find-activations,fuse-linear{target=910_merged}' --remarks --remarks-pass 'fuse-b' 2>&1 >/dev/null | filecheck %s --check-prefix=RULE
// RUN: ge-opt %s -p 'find-activations,fuse-linear{target=910_merged}' --remarks --remarks-text 'mlir:26' 2>&1 >/dev/null | filecheck %s --check-prefix=PLACE
// RUN: ge-opt --remarks %s -p 'find-activations,fuse-linear{target=910_merged}' --remarks-output %t.txt >/dev/null
// RUN: cat %t.txt | filecheck %s --check-prefix=RULE

// YAML:      --- !Passed
// YAML-NEXT: Pass:            fuse-linear
// YAML-NEXT: Name:            fuse-bias
// YAML-NEXT: DebugLoc:        { File: "{{.*}}remarks_forms.mlir", Line: 26, Column: 8 }
// YAML-NEXT: Function:        main
// YAML-NEXT: Args:
// YAML-NEXT:   - String:          "about "
// YAML-NEXT:   - Microseconds:    "{{[0-9.]+}}"
// YAML-NEXT:   - String:          " us won"
// YAML-NEXT: ...
// SUMMARY:      rule passed  missed  other      us won     us lost  pass
// SUMMARY:      fuse-bias 1       0      0 {{[0-9.]+}} 0.0  fuse-linear
// SUMMARY:      all {{[0-9]+}}
// RULE:         remark: fuse-bias applied: {{[0-9.]+}} us saved
// PLACE:        remarks_forms.mlir:26:8: remark: fuse-bias applied
func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = graph.add %0, %b : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
