// RUN: ge-opt %s --split-input-file -p resolve-shapes,eliminate-dead-code | filecheck %s

// The dimension of a transposed value is one of the value before.
func.func @transposed(%x: tensor<?x?x4xf32>) -> tensor<i64> {
  %i = graph.constant dense<1> : tensor<i64>
  %0 = graph.transpose %x permutation [1, 0, 2] : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %1 = graph.shape_of %0 : (tensor<?x?x4xf32>) -> tensor<3xi64>
  %2 = graph.gather %1, %i : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
  func.return %2 : tensor<i64>
}
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT:    %[[D:.*]] = graph.shape_of %x end 1 : (tensor<?x?x4xf32>) -> tensor<1xi64>
// CHECK-NEXT:    %[[S:.*]] = graph.squeeze %[[D]] axes [0] : (tensor<1xi64>) -> tensor<i64>
// CHECK-NEXT:    func.return %[[S]] :

// -----

// Known dimensions are constants, those of one name are one.
func.func @named(%x: tensor<?x4xf32> {graph.dims = ["n", ""]}, %y: tensor<?x4xf32> {graph.dims = ["n", ""]}) -> tensor<2xi64> {
  %0 = graph.exp %y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = graph.shape_of %0 : (tensor<?x4xf32>) -> tensor<2xi64>
  func.return %1 : tensor<2xi64>
}
// CHECK-LABEL: func.func @named(
// CHECK:         %[[D:.*]] = graph.shape_of %x end 1 :
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<4> : tensor<1xi64>
// CHECK-NEXT:    %[[S:.*]] = graph.concat %[[D]], %[[C]] axis 0 :
// CHECK-NEXT:    func.return %[[S]] :

// -----

// A reshape by a computed shape, and a product.
func.func @computed(%x: tensor<?x?x64xf32>, %w: tensor<64x32xf32>) -> tensor<2xi64> {
  %four = graph.constant dense<[-1, 16]> : tensor<2xi64>
  %s = graph.shape_of %x start 0 end 2 : (tensor<?x?x64xf32>) -> tensor<2xi64>
  %t = graph.concat %s, %four axis 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %0 = graph.matmul %x, %w : (tensor<?x?x64xf32>, tensor<64x32xf32>) -> tensor<?x?x32xf32>
  %1 = graph.reshape %0 shape %t : (tensor<?x?x32xf32>, tensor<4xi64>) -> tensor<?x?x?x16xf32>
  %2 = graph.shape_of %1 : (tensor<?x?x?x16xf32>) -> tensor<4xi64>
  %3 = graph.slice %2 starts [1] ends [3] : (tensor<4xi64>) -> tensor<2xi64>
  func.return %3 : tensor<2xi64>
}
// CHECK-LABEL: func.func @computed(
// CHECK-NEXT:    %[[D:.*]] = graph.shape_of %x start 1 end 2 :
// CHECK-NEXT:    %[[TWO:.*]] = graph.constant dense<2> : tensor<1xi64>
// CHECK-NEXT:    %[[S:.*]] = graph.concat %[[D]], %[[TWO]] axis 0 :
// CHECK-NEXT:    func.return %[[S]] :

// -----

// What an op does not say stays a question to its result.
func.func @unknown(%x: tensor<?x4xf32>) -> tensor<1xi64> {
  %0 = graph.nonzero %x : (tensor<?x4xf32>) -> tensor<2x?xi64>
  %1 = graph.shape_of %0 start 1 : (tensor<2x?xi64>) -> tensor<1xi64>
  func.return %1 : tensor<1xi64>
}
// CHECK-LABEL: func.func @unknown(
// CHECK:         %[[N:.*]] = graph.nonzero %x :
// CHECK-NEXT:    graph.shape_of %[[N]] start

// -----

// A range has as many elements as its limit says, and the first n of 8 elements that fit to n others
// are n.
func.func @counted(%x: tensor<?x4xf32>, %t: tensor<8x4xf32>) -> (tensor<1xi64>, tensor<1xi64>) {
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %d = graph.shape_of %x end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
  %n = graph.squeeze %d axes [0] : (tensor<1xi64>) -> tensor<i64>
  %0 = graph.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %1 = graph.shape_of %0 : (tensor<?xi64>) -> tensor<1xi64>
  %2 = graph.slice %t starts [0] ends %d axes [0] steps [1] : (tensor<8x4xf32>, tensor<1xi64>) -> tensor<?x4xf32>
  %3 = graph.add %2, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %4 = graph.shape_of %3 end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
  func.return %1, %4 : tensor<1xi64>, tensor<1xi64>
}
// CHECK-LABEL: func.func @counted(
// CHECK-NEXT:    %[[D:.*]] = graph.shape_of %x end 1 :
// CHECK-NEXT:    func.return %[[D]], %[[D]] :

// -----

// Other ranges and slices are not known: the limit may be negative, the slice may be shorter.
func.func @not_counted(%x: tensor<?x4xf32>, %t: tensor<8x4xf32>, %n: tensor<i64>) -> (tensor<1xi64>, tensor<1xi64>) {
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %d = graph.shape_of %x end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
  %0 = graph.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %1 = graph.shape_of %0 : (tensor<?xi64>) -> tensor<1xi64>
  %2 = graph.slice %t starts [0] ends %d axes [0] steps [1] : (tensor<8x4xf32>, tensor<1xi64>) -> tensor<?x4xf32>
  %3 = graph.exp %2 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %4 = graph.shape_of %3 end 1 : (tensor<?x4xf32>) -> tensor<1xi64>
  func.return %1, %4 : tensor<1xi64>, tensor<1xi64>
}
// CHECK-LABEL: func.func @not_counted(
// CHECK:         %[[R:.*]] = graph.range
// CHECK-NEXT:    %[[A:.*]] = graph.shape_of %[[R]] :
// CHECK:         %[[S:.*]] = graph.slice
// CHECK-NEXT:    %[[B:.*]] = graph.shape_of %[[S]] end 1 :
// CHECK-NEXT:    func.return %[[A]], %[[B]] :

// -----

// Parts of a shape are asked for one by one.
func.func @parts(%x: tensor<?x?x?xf32>) -> (tensor<2xi64>, tensor<i64>, tensor<2xi64>) {
  %last = graph.constant dense<-1> : tensor<i64>
  %0 = graph.shape_of %x : (tensor<?x?x?xf32>) -> tensor<3xi64>
  %1 = graph.slice %0 starts [1] ends [3] : (tensor<3xi64>) -> tensor<2xi64>
  %2 = graph.gather %0, %last : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
  %3 = graph.slice %0 starts [0] ends [3] axes [0] steps [2] : (tensor<3xi64>) -> tensor<2xi64>
  func.return %1, %2, %3 : tensor<2xi64>, tensor<i64>, tensor<2xi64>
}
// CHECK-LABEL: func.func @parts(
// CHECK-NEXT:    %[[ALL:.*]] = graph.shape_of %x :
// CHECK-NEXT:    %[[A:.*]] = graph.shape_of %x start 1 end 3 :
// CHECK-NEXT:    %[[L:.*]] = graph.shape_of %x start 2 end 3 :
// CHECK-NEXT:    %[[B:.*]] = graph.squeeze %[[L]] axes [0]
// CHECK-NEXT:    %[[C:.*]] = graph.slice %[[ALL]] starts
// CHECK-NEXT:    func.return %[[A]], %[[B]], %[[C]] :

// -----

// Indices i * n + j into the flattened value count all of its elements.
func.func @all_of_a_flattened_value(%x: tensor<?x?x3xi1>) -> tensor<?x?x1x3xi1> {
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %m = graph.shape_of %x end 1 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %n = graph.shape_of %x start 1 end 2 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %m0 = graph.squeeze %m axes [0] : (tensor<1xi64>) -> tensor<i64>
  %n0 = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %i = graph.range %c0, %m0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %j = graph.range %c0, %n0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %i1 = graph.reshape %i shape [-1, 1, 1] : (tensor<?xi64>) -> tensor<?x1x1xi64>
  %j1 = graph.unsqueeze %j axes [1] : (tensor<?xi64>) -> tensor<?x1xi64>
  %i2 = graph.mul %i1, %n : (tensor<?x1x1xi64>, tensor<1xi64>) -> tensor<?x1x1xi64>
  %k = graph.add %i2, %j1 : (tensor<?x1x1xi64>, tensor<?x1xi64>) -> tensor<?x?x1xi64>
  %f = graph.reshape %x shape [-1, 3] : (tensor<?x?x3xi1>) -> tensor<?x3xi1>
  %y = graph.gather %f, %k : (tensor<?x3xi1>, tensor<?x?x1xi64>) -> tensor<?x?x1x3xi1>
  func.return %y : tensor<?x?x1x3xi1>
}
// CHECK-LABEL: func.func @all_of_a_flattened_value(
// CHECK-NEXT:    %[[Y:.*]] = graph.unsqueeze %x axes [2] : (tensor<?x?x3xi1>) -> tensor<?x?x1x3xi1>
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// Rows of another length are other elements.
func.func @other_rows(%x: tensor<?x?x3xi1>) -> tensor<?x?x1x3xi1> {
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %m = graph.shape_of %x end 1 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %n = graph.shape_of %x start 1 end 2 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %m0 = graph.squeeze %m axes [0] : (tensor<1xi64>) -> tensor<i64>
  %n0 = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %i = graph.range %c0, %m0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %j = graph.range %c0, %n0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %i1 = graph.reshape %i shape [-1, 1, 1] : (tensor<?xi64>) -> tensor<?x1x1xi64>
  %j1 = graph.unsqueeze %j axes [1] : (tensor<?xi64>) -> tensor<?x1xi64>
  %i2 = graph.mul %i1, %m : (tensor<?x1x1xi64>, tensor<1xi64>) -> tensor<?x1x1xi64>
  %k = graph.add %i2, %j1 : (tensor<?x1x1xi64>, tensor<?x1xi64>) -> tensor<?x?x1xi64>
  %f = graph.reshape %x shape [-1, 3] : (tensor<?x?x3xi1>) -> tensor<?x3xi1>
  %y = graph.gather %f, %k : (tensor<?x3xi1>, tensor<?x?x1xi64>) -> tensor<?x?x1x3xi1>
  func.return %y : tensor<?x?x1x3xi1>
}
// CHECK-LABEL: func.func @other_rows(
// CHECK:         graph.gather

// -----

// The first column is left out.
func.func @later_columns(%x: tensor<?x?x3xi1>) -> tensor<?x?x1x3xi1> {
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %m = graph.shape_of %x end 1 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %n = graph.shape_of %x start 1 end 2 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %m0 = graph.squeeze %m axes [0] : (tensor<1xi64>) -> tensor<i64>
  %n0 = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %i = graph.range %c0, %m0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %j = graph.range %c1, %n0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %i1 = graph.reshape %i shape [-1, 1, 1] : (tensor<?xi64>) -> tensor<?x1x1xi64>
  %j1 = graph.unsqueeze %j axes [1] : (tensor<?xi64>) -> tensor<?x1xi64>
  %i2 = graph.mul %i1, %n : (tensor<?x1x1xi64>, tensor<1xi64>) -> tensor<?x1x1xi64>
  %k = graph.add %i2, %j1 : (tensor<?x1x1xi64>, tensor<?x1xi64>) -> tensor<?x?x1xi64>
  %f = graph.reshape %x shape [-1, 3] : (tensor<?x?x3xi1>) -> tensor<?x3xi1>
  %y = graph.gather %f, %k : (tensor<?x3xi1>, tensor<?x?x1xi64>) -> tensor<?x?x1x3xi1>
  func.return %y : tensor<?x?x1x3xi1>
}
// CHECK-LABEL: func.func @later_columns(
// CHECK:         graph.gather

// -----

// Columns before rows: the result is a transposed value.
func.func @columns_first(%x: tensor<?x?x3xi1>) -> tensor<?x?x1x3xi1> {
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %m = graph.shape_of %x end 1 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %n = graph.shape_of %x start 1 end 2 : (tensor<?x?x3xi1>) -> tensor<1xi64>
  %m0 = graph.squeeze %m axes [0] : (tensor<1xi64>) -> tensor<i64>
  %n0 = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %i = graph.range %c0, %m0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %j = graph.range %c0, %n0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %i1 = graph.reshape %i shape [-1, 1] : (tensor<?xi64>) -> tensor<?x1xi64>
  %j1 = graph.unsqueeze %j axes [1, 2] : (tensor<?xi64>) -> tensor<?x1x1xi64>
  %i2 = graph.mul %i1, %n : (tensor<?x1xi64>, tensor<1xi64>) -> tensor<?x1xi64>
  %k = graph.add %i2, %j1 : (tensor<?x1xi64>, tensor<?x1x1xi64>) -> tensor<?x?x1xi64>
  %f = graph.reshape %x shape [-1, 3] : (tensor<?x?x3xi1>) -> tensor<?x3xi1>
  %y = graph.gather %f, %k : (tensor<?x3xi1>, tensor<?x?x1xi64>) -> tensor<?x?x1x3xi1>
  func.return %y : tensor<?x?x1x3xi1>
}
// CHECK-LABEL: func.func @columns_first(
// CHECK:         graph.gather

// -----

// The target of an expansion, as exporters write it: -1 keeps the dimension.
func.func @expanded(%x: tensor<?x1x4xf32>, %y: tensor<?x3xf32>) -> tensor<3xi64> {
  %one = graph.constant dense<1> : tensor<3xi64>
  %keep = graph.constant dense<-1> : tensor<3xi64>
  %k = graph.constant dense<-1> : tensor<1xi64>
  %n = graph.shape_of %y end 1 : (tensor<?x3xf32>) -> tensor<1xi64>
  %t = graph.concat %k, %n, %k axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %e = graph.compare eq %t, %keep : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  %s = graph.select %e, %one, %t : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %0 = graph.broadcast_to %x shape %s : (tensor<?x1x4xf32>, tensor<3xi64>) -> tensor<?x?x4xf32>
  %1 = graph.shape_of %0 : (tensor<?x?x4xf32>) -> tensor<3xi64>
  func.return %1 : tensor<3xi64>
}
// CHECK-LABEL: func.func @expanded(
// CHECK-DAG:     %[[X:.*]] = graph.shape_of %x end 1 :
// CHECK-DAG:     %[[Y:.*]] = graph.shape_of %y end 1 :
// CHECK:         %[[S:.*]] = graph.concat %[[X]], %[[Y]], %{{.*}} axis 0 :
// CHECK-NEXT:    func.return %[[S]] :
// -----

// A dimension that is a number in every run stands in the types: of the op, of its users, of the
// function.
func.func @number(%x: tensor<?x?x64xf32>) -> tensor<?x?x?x16xf32> {
  %heads = graph.constant dense<[-1, 16]> : tensor<2xi64>
  %s = graph.shape_of %x start 0 end 2 : (tensor<?x?x64xf32>) -> tensor<2xi64>
  %t = graph.concat %s, %heads axis 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %0 = graph.reshape %x shape %t : (tensor<?x?x64xf32>, tensor<4xi64>) -> tensor<?x?x?x16xf32>
  %1 = graph.transpose %0 permutation [0, 2, 1, 3] : (tensor<?x?x?x16xf32>) -> tensor<?x?x?x16xf32>
  func.return %1 : tensor<?x?x?x16xf32>
}
// CHECK-LABEL: func.func @number(
// CHECK-SAME:    -> tensor<?x4x?x16xf32>
// CHECK:         %[[R:.*]] = graph.reshape %x {{.*}} -> tensor<?x?x4x16xf32>
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {{.*}} : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
// CHECK-NEXT:    func.return %[[T]] : tensor<?x4x?x16xf32>

// -----

// What is divided by a size that only the run knows stays unknown: n may be 2 or 4.
func.func @quotient(%x: tensor<?x64xf32>, %n: tensor<1xi64>) -> tensor<?x?x?xf32> {
  %rest = graph.constant dense<-1> : tensor<1xi64>
  %s = graph.shape_of %x start 0 end 1 : (tensor<?x64xf32>) -> tensor<1xi64>
  %t = graph.concat %s, %n, %rest axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %0 = graph.reshape %x shape %t : (tensor<?x64xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  func.return %0 : tensor<?x?x?xf32>
}
// CHECK-LABEL: func.func @quotient(
// CHECK:         graph.reshape %x {{.*}} -> tensor<?x?x?xf32>

// -----

// What a loop carries has the type of its start and of what comes around.
func.func @carried(%x: tensor<?x64xf32>, %y: tensor<?x?xf32>, %n: tensor<i64>) -> tensor<?x?xf32> {
  %heads = graph.constant dense<[-1, 16]> : tensor<2xi64>
  %c = graph.constant dense<true> : tensor<i1>
  %0 = graph.loop (%i, %going) trip %n : tensor<i64> carry (%z : tensor<?x?xf32> = %y : tensor<?x?xf32>) -> (tensor<?x?xf32>) {
    %s = graph.shape_of %x start 0 end 1 : (tensor<?x64xf32>) -> tensor<1xi64>
    %t = graph.concat %s, %heads axis 0 : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64>
    %r = graph.reshape %x shape %t : (tensor<?x64xf32>, tensor<3xi64>) -> tensor<?x?x16xf32>
    %sum = graph.reduce sum %r axes [1] keep_dims false : (tensor<?x?x16xf32>) -> tensor<?x?xf32>
    graph.yield %going, %sum : tensor<i1>, tensor<?x?xf32>
  }
  func.return %0 : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @carried(
// CHECK:         graph.loop {{.*}} -> (tensor<?x?xf32>)
// CHECK:           graph.reshape %x {{.*}} -> tensor<?x4x16xf32>
// CHECK-NEXT:      %[[SUM:.*]] = graph.reduce sum {{.*}} -> tensor<?x16xf32>
// CHECK-NEXT:      graph.yield %going, %[[SUM]] :
