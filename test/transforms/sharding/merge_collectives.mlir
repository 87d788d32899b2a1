// RUN: ge-opt %s -p merge-collectives | filecheck %s

// Three sums that nothing uses in between are one; a greatest element is another kind, and a sum of
// a sum waits for it.
graph.mesh @mesh ["dp"=4]
func.func @main(%x: tensor<4x3xf32>, %y: tensor<5xf32>, %z: tensor<f32>) -> (tensor<4x3xf32>, tensor<5xf32>, tensor<f32>, tensor<5xf32>) {
  %a = graph.all_reduce sum %x over <"dp"=4> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %m = graph.all_reduce max %y over <"dp"=4> : (tensor<5xf32>) -> tensor<5xf32>
  %b = graph.all_reduce sum %y over <"dp"=4> : (tensor<5xf32>) -> tensor<5xf32>
  %c = graph.all_reduce sum %z over <"dp"=4> : (tensor<f32>) -> tensor<f32>
  %d = graph.mul %b, %m : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %e = graph.all_reduce sum %d over <"dp"=4> : (tensor<5xf32>) -> tensor<5xf32>
  return %a, %e, %c, %d : tensor<4x3xf32>, tensor<5xf32>, tensor<f32>, tensor<5xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[M:.*]] = graph.all_reduce max %y
// CHECK-NEXT:  %[[X:.*]] = graph.reshape %x shape [12]
// CHECK-NEXT:  %[[Y:.*]] = graph.reshape %y shape [5]
// CHECK-NEXT:  %[[Z:.*]] = graph.reshape %z shape [1]
// CHECK-NEXT:  %[[ALL:.*]] = graph.concat %[[X]], %[[Y]], %[[Z]] axis 0
// CHECK-NEXT:  %[[SUM:.*]] = graph.all_reduce sum %[[ALL]] over <"dp"=4> : (tensor<18xf32>) -> tensor<18xf32>
// CHECK-NEXT:  graph.slice %[[SUM]] starts [0] ends [12]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  graph.slice %[[SUM]] starts [12] ends [17]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  graph.slice %[[SUM]] starts [17] ends [18]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  %[[D:.*]] = graph.mul
// CHECK-NEXT:  graph.all_reduce sum %[[D]] over
