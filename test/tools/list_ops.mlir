// What there is, sorted, with the package that it is of.
// RUN: ge-opt --list-ops | filecheck %s --check-prefix=OPS
// RUN: ge-opt --list-ops=tile | filecheck %s --check-prefix=DIALECT
// RUN: ge-opt --list-ops=graph.softmax | filecheck %s --check-prefix=OP --match-full-lines
// RUN: ge-opt --list-ops=arith.addi | filecheck %s --check-prefix=XDSL
// RUN: ge-opt --list-ops=plug.twice --load-plugin %S/Inputs/plugin.py | filecheck %s --check-prefix=PLUGIN --match-full-lines
// RUN: not ge-opt --list-ops=graph.softmux 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not ge-opt --list-ops=grph.softmax 2>&1 | filecheck %s --check-prefix=NODIALECT
// RUN: ge-opt --list-targets | filecheck %s --check-prefix=TARGETS
// RUN: ge-opt --list-dialects --load-plugin %S/Inputs/plugin.py | filecheck %s --check-prefix=DIALECTS
// RUN: ge-opt --list-rules | filecheck %s --check-prefix=RULES

// OPS-NOT: arith.
// OPS:     fused_op.conv ge A convolution and ops on its tiles on the way out
// OPS:     graph.abs ge |x|
// OPS:     npu_task.launch ge

// DIALECT-NOT: graph.
// DIALECT:     tile.load ge

// OP:       graph.softmax (of ge)
// OP:         syntax:
// OP-NEXT:      graph.softmax $input (axis $axis^)? (flatten $flatten^)? attr-dict : functional-type(operands, results)
// OP-NEXT:    operands:
// OP-NEXT:      input: tensor of floats (one)
// OP-NEXT:    attributes:
// OP-NEXT:      axis: integer (-1)
// OP:         results:
// OP-NEXT:      result: tensor of floats (one)
// OP-NEXT:    traits:
// OP-NEXT:      Canonicalized, NoMemoryEffect, SpeculatableUnlessItFails
// OP-NEXT:    access:
// OP-NEXT:      ROWS
// OP-NEXT:    example:
// OP:           %y = graph.softmax %x {{.*}}

// XDSL: arith.addi (of xdsl)
// XDSL: lhs: {{.*}} (one)

// PLUGIN:       plug.twice (of plug-in)
// PLUGIN-NEXT:      x + x
// PLUGIN-NEXT:   syntax:
// PLUGIN-NEXT:     plug.twice $input attr-dict
// PLUGIN-NEXT:   operands:
// PLUGIN-NEXT:     input: i32 (one)
// PLUGIN-NEXT:   results:
// PLUGIN-NEXT:     result: i32 (one)
// PLUGIN-NOT:    example:

// UNKNOWN:   ge-opt: error: there is no op 'graph.softmux'; did you mean 'graph.softmax'?
// NODIALECT: ge-opt: error: there is no dialect 'grph'; did you mean 'graph'?

// TARGETS: 910_merged ge 24 cube and 48 vector cores at 1.85 GHz, 64 GiB
// TARGETS: 910b2 ge 24 cube and 48 vector cores at 1.8 GHz, 64 GiB

// DIALECTS: arith xdsl
// DIALECTS: graph ge
// DIALECTS: plug plug-in

// RULES: absolute ge |-x| = |x|
// RULES: fuse-bias ge
