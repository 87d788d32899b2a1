// RUN: ge-opt %s --split-input-file -p transform-interpreter --verify-diagnostics
// RUN: ge-opt %s --split-input-file -p transform-interpreter --parsing-diagnostics | filecheck %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x : tensor<4xf32>
}
// CHECK-NOT: graph.exp
// CHECK: func.return %x :
"transform.named_sequence"() <{sym_name = "__transform_main", function_type = (!transform.any_op) -> ()}> ({
^bb0(%a: !transform.any_op):
  %b = "transform.apply_registered_pass"(%a) <{pass_name = "eliminate-dead-code"}> : (!transform.any_op) -> !transform.any_op
  "transform.yield"() : () -> ()
}) : () -> ()

// -----

"transform.named_sequence"() <{sym_name = "__transform_main", function_type = (!transform.any_op) -> ()}> ({
^bb0(%a: !transform.any_op):
  // expected-error@+1 {{unknown pass 'eliminate-it'; --list-passes lists them}}
  %b = "transform.apply_registered_pass"(%a) <{pass_name = "eliminate-it"}> : (!transform.any_op) -> !transform.any_op
  "transform.yield"() : () -> ()
}) : () -> ()
