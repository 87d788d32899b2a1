// RUN: ge-opt %s -p merge-collectives --split-input-file | filecheck %s

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
// CHECK-NEXT:  %[[X:.*]] = graph.reshape %x shape [12]
// CHECK-NEXT:  %[[Y:.*]] = graph.reshape %y shape [5]
// CHECK-NEXT:  %[[Z:.*]] = graph.reshape %z shape [1]
// CHECK-NEXT:  %[[ALL:.*]] = graph.concat %[[X]], %[[Y]], %[[Z]] axis 
// CHECK-NEXT:  %[[SUM:.*]] = graph.all_reduce sum %[[ALL]] over <"dp"=4> : (tensor<18xf32>) -> tensor<18xf32>
// CHECK-NEXT:  graph.slice %[[SUM]] starts [0] ends [12]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  graph.slice %[[SUM]] starts [12] ends [17]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  graph.slice %[[SUM]] starts [17] ends [18]
// CHECK-NEXT:  graph.reshape
// CHECK-NEXT:  %[[M:.*]] = graph.all_reduce max %y
// CHECK-NEXT:  %[[D:.*]] = graph.mul
// CHECK-NEXT:  graph.all_reduce sum %[[D]] over

// -----

// What uses a sum waits where nothing that is sent follows from it; the sum of both goes out when the
// second one is there.
graph.mesh @mesh ["dp"=4]
func.func @main(%x: tensor<1x8xf32>, %y: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = graph.exp %x : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %a = graph.all_reduce sum %0 over <"dp"=4> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %1 = graph.reshape %a shape [8] : (tensor<1x8xf32>) -> tensor<8xf32>
  %2 = graph.sub %w, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = graph.exp %y : (tensor<8xf32>) -> tensor<8xf32>
  %b = graph.all_reduce sum %3 over <"dp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %b : tensor<8xf32>, tensor<8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       graph.exp %y
// CHECK:       graph.concat
// CHECK-NEXT:  graph.all_reduce sum {{.*}} (tensor<16xf32>) -> tensor<16xf32>
// CHECK:       graph.sub %w
// CHECK-NOT:   all_reduce

// -----

// A sum on which another one depends does not wait for a third: what follows from it is sent.
graph.mesh @mesh ["dp"=4]
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = graph.all_reduce sum %x over <"dp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  %0 = graph.exp %a : (tensor<8xf32>) -> tensor<8xf32>
  %m = graph.all_reduce max %0 over <"dp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  %b = graph.all_reduce sum %y over <"dp"=4> : (tensor<8xf32>) -> tensor<8xf32>
  return %m, %b : tensor<8xf32>, tensor<8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  graph.all_reduce sum %x
// CHECK-NEXT:  graph.all_reduce sum %y
// CHECK-NEXT:  graph.exp
// CHECK-NEXT:  graph.all_reduce max

// -----

// Terms of which each device gets a part stand in rows, one for each device. Long ones are not copied
// for that.
graph.mesh @mesh ["dp"=4]
func.func @main(%x: tensor<8xf32>, %y: tensor<3x8xf32>, %z: tensor<4096x1024xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<1024x1024xf32>) {
  %a = graph.reduce_scatter sum %x dim 0 over <"dp"=4> : (tensor<8xf32>) -> tensor<2xf32>
  %b = graph.reduce_scatter sum %y dim 1 over <"dp"=4> : (tensor<3x8xf32>) -> tensor<3x2xf32>
  %c = graph.reduce_scatter sum %z dim 0 over <"dp"=4> : (tensor<4096x1024xf32>) -> tensor<1024x1024xf32>
  return %a, %b, %c : tensor<2xf32>, tensor<3x2xf32>, tensor<1024x1024xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-DAG:   graph.reduce_scatter sum %z dim 0
// CHECK-DAG:   %[[X:.*]] = graph.reshape %x shape [4, 2]
// CHECK-DAG:   %[[Y:.*]] = graph.reshape %y shape [3, 4, 2]
// CHECK-DAG:   %[[T:.*]] = graph.transpose %[[Y]] permutation [1, 0, 2]
// CHECK-DAG:   %[[ROWS:.*]] = graph.reshape %[[T]] shape [4, 6]
// CHECK:       %[[ALL:.*]] = graph.concat %[[X]], %[[ROWS]] axis 
// CHECK-NEXT:  %[[SUM:.*]] = graph.reduce_scatter sum %[[ALL]] dim 0 over <"dp"=4> : (tensor<4x8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:  graph.slice %[[SUM]] starts [0] ends [2]
// CHECK-NEXT:  graph.reshape {{.*}} shape [2]
// CHECK-NEXT:  graph.slice %[[SUM]] starts [2] ends [8]
// CHECK-NEXT:  graph.reshape {{.*}} shape [3, 2]

// -----

// Boxes of one value that lie beside each other come in one, of which each is a part.
graph.mesh @mesh ["sp"=4]
func.func @main(%x: tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>, tensor<1x2xf32>) {
  %a = graph.exchange %x shape [32, 2] has <@mesh, [{"sp":(1)4}, {}]> needs <["sp"=4 * 8 + -1 : 8], [0 : 2]> fill 0.0 : f32 : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %b = graph.exchange %x shape [32, 2] has <@mesh, [{"sp":(1)4}, {}]> needs <["sp"=4 * 8 + 1 : 8], [0 : 2]> fill 0.0 : f32 : (tensor<8x2xf32>) -> tensor<8x2xf32>
  %c = graph.exchange %x shape [32, 2] has <@mesh, [{"sp":(1)4}, {}]> needs <["sp"=4 * 1 : 1], [0 : 2]> fill 0.0 : f32 : (tensor<8x2xf32>) -> tensor<1x2xf32>
  return %a, %b, %c : tensor<8x2xf32>, tensor<8x2xf32>, tensor<1x2xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[BOX:.*]] = graph.exchange %x {{.*}} needs <["sp"=4 * 8 + -1 : 10], [0 : 2]> fill
// CHECK-NEXT:  graph.slice %[[BOX]] starts [0, 0] ends [8, 2] axes [0, 1]
// CHECK-NEXT:  graph.slice %[[BOX]] starts [2, 0] ends [10, 2] axes [0, 1]
// CHECK-NEXT:  graph.exchange %x {{.*}} needs <["sp"=4 * 1 : 1], [0 : 2]> fill
