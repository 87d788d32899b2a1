// RUN: ge-opt %s --split-input-file -p partition-spmd,eliminate-dead-code | filecheck %s

// Columns, then rows: one sum.
graph.mesh @mesh ["dp"=2, "tp"=4]
func.func @main(%x: tensor<8x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}, %up: tensor<16x32xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}, %down: tensor<32x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}) {
  %0 = graph.matmul %x, %up : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = graph.gelu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %2 = graph.matmul %1, %down : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.matmul %{{.*}}, %{{.*}} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: = graph.gelu %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: = graph.matmul %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: = graph.all_reduce sum %{{.*}} over <"tp"=4> : (tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<4x16xf32>

// -----

// A sum that is wanted in parts.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<8x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}, %w: tensor<16x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) {
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.matmul %{{.*}}, %{{.*}} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: = graph.reduce_scatter sum %{{.*}} dim 0 over <"tp"=4> : (tensor<8x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<2x8xf32>

// -----

// A row of each neighbor, zeros at the ends; the padding of rows is gone.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<1x2x16x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}, {"tp"}, {}]>}, %k: tensor<2x2x3x3xf32>) -> (tensor<1x2x16x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}, {"tp"}, {}]>}) {
  %0 = graph.conv %x, %k pads [1, 1, 1, 1] : (tensor<1x2x16x8xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x16x8xf32>
  return %0 : tensor<1x2x16x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.exchange %{{.*}} shape [1, 2, 16, 8] has <@mesh, [{}, {}, {"tp":(1)4}, {}]> needs <[0 : 1], [0 : 2], ["tp"=4 * 4 + -1 : 6], [0 : 8]> fill 0.000000e+00 : f32 : (tensor<1x2x4x8xf32>) -> tensor<1x2x6x8xf32>
// CHECK-NEXT: = graph.conv %{{.*}}, %{{.*}} pads [0, 1, 0, 1] : (tensor<1x2x6x8xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x8xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<1x2x4x8xf32>

// -----

// The greatest and the sum of a row, not the row.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<4x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}) -> (tensor<4x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}) {
  %0 = graph.softmax %x axis 1 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.reduce max %{{.*}} axes [1] : (tensor<4x4xf32>) -> tensor<4x1xf32>
// CHECK:      = graph.all_reduce max %{{.*}} over <"tp"=4> : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK:      = graph.reduce sum %{{.*}} axes [1] : (tensor<4x4xf32>) -> tensor<4x1xf32>
// CHECK:      = graph.all_reduce sum %{{.*}} over <"tp"=4> : (tensor<4x1xf32>) -> tensor<4x1xf32>

// -----

// Totals of parts are sent.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<4x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}) -> (tensor<4x16xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}) {
  %0 = graph.cumulative sum %x axis 1 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.cumulative sum %{{.*}} axis 2 : (tensor<4x1x4xf32>) -> tensor<4x1x4xf32>
// CHECK:      = graph.reduce sum %{{.*}} axes [2] : (tensor<4x1x4xf32>) -> tensor<4x1x1xf32>
// CHECK:      = graph.all_gather %{{.*}} dim 1 over <"tp"=4> : (tensor<4x1x1xf32>) -> tensor<4x4x1xf32>
// CHECK:      = graph.cumulative sum %{{.*}} axis 1 exclusive true : (tensor<4x4x1xf32>) -> tensor<4x4x1xf32>

// -----

// The last device has one row of two: the other one is the lowest number.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<7x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<4xf32> {graph.sharding = #graph.sharding<@mesh, [{}]>}) {
  %0 = graph.reduce max %x axes [0] keep_dims false : (tensor<7x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x1xi1>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK:      = graph.reduce max %{{.*}} axes [0] keep_dims false : (tensor<2x4xf32>) -> tensor<4xf32>
// CHECK:      = graph.all_reduce max %{{.*}} over <"tp"=4> : (tensor<4xf32>) -> tensor<4xf32>

// -----

// Along another dimension.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<8x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8x8xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {"tp"}]>}) {
  %0 = graph.relu %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.relu %{{.*}} : (tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: = graph.all_to_all %{{.*}} shape [8, 8] has <@mesh, [{"tp":(1)4}, {}]> to <@mesh, [{}, {"tp":(1)4}]> : (tensor<2x8xf32>) -> tensor<8x2xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<8x2xf32>

// -----

// Pieces are taken of what slices are of.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<16x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<16x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) {
  %0 = graph.slice %x starts [13] ends [16] axes [0] : (tensor<16x4xf32>) -> tensor<3x4xf32>
  %1 = graph.slice %x starts [0] ends [13] axes [0] : (tensor<16x4xf32>) -> tensor<13x4xf32>
  %2 = graph.concat %0, %1 axis 0 : (tensor<3x4xf32>, tensor<13x4xf32>) -> tensor<16x4xf32>
  return %2 : tensor<16x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.exchange %{{.*}} shape [16, 4] has <@mesh, [{"tp":(1)4}, {}]> needs <["tp"=4 * 4 + 13 : 4], [0 : 4]> : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: = graph.exchange %{{.*}} shape [16, 4] has <@mesh, [{"tp":(1)4}, {}]> needs <["tp"=4 * 4 + -3 : 4], [0 : 4]> onto %{{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<4x4xf32>

// -----

// Two dimensions of a reshape take digits of one axis: nothing is sent.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<16x12xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<2x8x12xf32>) {
  %0 = graph.reshape %x shape [2, 8, 12] : (tensor<16x12xf32>) -> tensor<2x8x12xf32>
  %1 = graph.tanh %0 : (tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  return %1 : tensor<2x8x12xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.reshape %{{.*}} shape [1, 4, 12] allow_zero true : (tensor<4x12xf32>) -> tensor<1x4x12xf32>
// CHECK-NEXT: = graph.tanh %{{.*}} : (tensor<1x4x12xf32>) -> tensor<1x4x12xf32>
// CHECK-NEXT: {{.*}}func.return %{{.*}} : tensor<1x4x12xf32>

// -----

// Each device gives the rows that it has.
graph.mesh @mesh ["tp"=4]
func.func @main(%t: tensor<64x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}, %at: tensor<5xi64>) -> (tensor<5x4xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>}) {
  %0 = graph.gather %t, %at : (tensor<64x4xf32>, tensor<5xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
// CHECK:      = graph.gather_nd %{{.*}}, %{{.*}} batch_dims 1 : (tensor<1x16x4xf32>, tensor<1x5x1xi64>) -> tensor<1x5x4xf32>
// CHECK:      = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<1x5x1xi1>, tensor<1x5x4xf32>, tensor<f32>) -> tensor<1x5x4xf32>
// CHECK:      = graph.reduce sum %{{.*}} axes [0] keep_dims false : (tensor<1x5x4xf32>) -> tensor<5x4xf32>
// CHECK:      = graph.all_reduce sum %{{.*}} over <"tp"=4> : (tensor<5x4xf32>) -> tensor<5x4xf32>

// -----

// Rows of others go behind the own ones, and are dropped.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<16x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}, %at: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> (tensor<16x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) {
  %0 = graph.scatter_nd %x, %at, %u : (tensor<16x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x1xi1>, tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi64>
// CHECK:      = graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x1xi1>, tensor<2x1xi64>, tensor<i64>) -> tensor<2x1xi64>
// CHECK:      = graph.pad %{{.*}} pads [0, 1] axes [0] : (tensor<4x4xf32>) -> tensor<5x4xf32>
// CHECK:      = graph.scatter_nd %{{.*}}, %{{.*}}, %{{.*}} : (tensor<5x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>) -> tensor<5x4xf32>
// CHECK:      = graph.slice %{{.*}} starts [0] ends [4] axes [0] : (tensor<5x4xf32>) -> tensor<4x4xf32>

// -----

// What a loop carries stays in parts.
graph.mesh @mesh ["tp"=4]
func.func @main(%w: tensor<8x8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}, %v: tensor<8x1xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8x1xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) {
  %n = graph.constant dense<3> : tensor<i64>
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%c = %v : tensor<8x1xf32>) -> (tensor<8x1xf32>) {
    %1 = graph.matmul %w, %c : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    graph.yield %go, %1 : tensor<i1>, tensor<8x1xf32>
  }
  return %0 : tensor<8x1xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      = graph.constant dense<{{.*}}> : tensor<i64>
// CHECK-NEXT: = graph.loop (%{{.*}}, %{{.*}}) trip %{{.*}} : tensor<i64> carry (%{{.*}} = %{{.*}} : tensor<2x1xf32>) -> (tensor<2x1xf32>) {
// CHECK-NEXT: = graph.all_gather %{{.*}} dim 0 over <"tp"=4> : (tensor<2x1xf32>) -> tensor<8x1xf32>
// CHECK-NEXT: = graph.matmul %{{.*}}, %{{.*}} : (tensor<2x8xf32>, tensor<8x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT: graph.yield %{{.*}}, %{{.*}} : tensor<i1>, tensor<2x1xf32>
// CHECK:      {{.*}}func.return %{{.*}} : tensor<2x1xf32>

// -----

// Scales of the columns of a weight are those of the whole weight, of which a device keeps its rows.
// Axes of one device cut nothing.
graph.mesh @mesh ["dp"=1, "tp"=4]
func.func @main(%x: tensor<2x32xf32> {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<2x4xf32> {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}) {
  %w = graph.constant #graph.weight<"w"> : tensor<32x4xf32>
  %0 = graph.shard %w sharding <@mesh, [{"tp"}, {"dp"}]> : (tensor<32x4xf32>) -> tensor<32x4xf32>
  %1 = graph.abs %0 : (tensor<32x4xf32>) -> tensor<32x4xf32>
  %2 = graph.reduce max %1 axes [0] keep_dims 0 : (tensor<32x4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %0, %2 to i8 axis 1 : (tensor<32x4xf32>, tensor<4xf32>) -> tensor<32x4xi8>
  %4 = graph.dequantize %3, %2 axis 1 : (tensor<32x4xi8>, tensor<4xf32>) -> tensor<32x4xf32>
  %5 = graph.matmul %x, %4 : (tensor<2x32xf32>, tensor<32x4xf32>) -> tensor<2x4xf32>
  return %5 : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:      [[ALL:%.*]] = graph.constant #graph.weight<"w"> : tensor<32x4xf32>
// CHECK-NEXT: [[ABS:%.*]] = graph.abs [[ALL]] : (tensor<32x4xf32>) -> tensor<32x4xf32>
// CHECK-NEXT: = graph.reduce max [[ABS]] axes [0] keep_dims false
// CHECK-NOT:  dp
// CHECK:      [[PART:%.*]] = graph.constant #graph.weight<"w {{.*}}"> : tensor<8x4xf32>
// CHECK:      = graph.quantize [[PART]], %{{.*}} to i8 axis 1 : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xi8>
// CHECK-NOT:  all_reduce max
// CHECK:      = graph.all_reduce sum %{{.*}} over <"tp"=4> : (tensor<2x4xf32>) -> tensor<2x4xf32>
