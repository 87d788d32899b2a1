// A loop that may end early: the length of its scan output is known at run time only.
// RUN: ge-import %models/loop_rnn.tiny.onnx | filecheck %s

// CHECK: tensor<?x2x16xf32> {graph.name = "ys"}
// CHECK: %[[TRIP:.*]] = graph.constant dense<9> : tensor<i64>
// CHECK: graph.loop (%[[I:.*]], %{{.*}}) trip %[[TRIP]] : tensor<i64> carry (%[[H:.*]] = %h0 : tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<?x2x16xf32>) {
// CHECK-NEXT: graph.gather %x, %[[I]] :
// CHECK: %[[MORE:.*]] = graph.compare lt %{{.*}}, %limit :
// CHECK-NEXT: graph.yield %[[MORE]], %[[NEXT:.*]], %[[NEXT]] : tensor<i1>, tensor<2x16xf32>, tensor<2x16xf32>
