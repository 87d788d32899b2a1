// A plugin's dialect and its passes are a part of ge-compile and ge-run.
// RUN: ge-compile --load-plugin %S/Inputs/level_plugin.py %s -o - | filecheck %s
// RUN: env GE_CUSTOM_PASS=%S/Inputs/level_plugin.py ge-compile %s -o - | filecheck %s
// RUN: ge-run --load-plugin %S/Inputs/level_plugin.py --level fused %s | filecheck %s --check-prefix=NUMBERS
// RUN: ge-compile --print-pipeline --load-plugin %S/Inputs/level_plugin.py | filecheck %s --check-prefix=PIPELINE
// RUN: not ge-compile %s 2>&1 | filecheck %s --check-prefix=WITHOUT
// RUN: not ge-compile --load-plugin %S/Inputs/level_plugin.py --load-plugin %S/Inputs/wrong_level_plugin.py %s 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not ge-compile --load-plugin %S/Inputs/none.py %s 2>&1 | filecheck %s --check-prefix=NONE

// CHECK-NOT: half.double
// CHECK:     graph.add
// CHECK-NOT: half.double
// NUMBERS:   y: float32[1] = {{.*}}
// PIPELINE:  ,eliminate-dead-code,lower-half,verify-level{level=graph},refuse-sin,keep-channels-last{{.*}}verify-level{level=fused}
// PIPELINE-NOT:  not-by-itself
// WITHOUT:   compile_plugin.mlir:[[#]]:8: error: unknown op 'half.double': there is no dialect 'half'
// LEVEL:     ge-compile: error: pass 'lost' states level 'grpah'; levels are graph, fused, tasks, buffers, program
// NONE:      ge-compile: error: cannot load plugin '{{.*}}none.py': no such Python file

func.func @main(%x: tensor<1xf32> {graph.name = "x"}) -> (tensor<1xf32> {graph.name = "y"}) {
  %0 = half.double %x : (tensor<1xf32>) -> tensor<1xf32>
  func.return %0 : tensor<1xf32>
}
