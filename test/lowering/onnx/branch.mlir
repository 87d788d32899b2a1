// An If whose condition is computed becomes graph.if; its branches see the values around them.
// RUN: ge-import %models/if_cond.tiny.onnx --mlir-print-debuginfo | filecheck %s

// CHECK: func.func @main(%x: tensor<4x16xf32> {graph.name = "x"}
// CHECK-SAME: -> (tensor<4x5xf32> {graph.name = "y"})
// CHECK: graph.constant #graph.weight<"a.weight"> : tensor<24x16xf32> loc("a.weight"
// CHECK: %[[C:.*]] = graph.compare gt
// CHECK: graph.if %[[C]] : (tensor<i1>) -> tensor<4x24xf32> {
// CHECK-NEXT: graph.matmul %x,
// CHECK: graph.yield %{{.*}} : tensor<4x24xf32>
// CHECK: } else {
// CHECK: graph.tanh
// CHECK: graph.yield %{{.*}} : tensor<4x24xf32>
