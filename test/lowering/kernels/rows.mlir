// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Whole rows, 8 at a time; the last columns are no elements: they are written over before rows are
// reduced.
// CHECK:      tile.kernel @softmax_0_tiles(%in0: memref<192x70xf32>, %out0: memref<192x70xf32>) cores 24 {
// CHECK:        tile.load %{{.+}} to [[X:%.+]] pad 1.0{{$}}
// CHECK:        tile.index columns %{{.+}} to [[N:%.+]]{{$}}
// CHECK-NEXT:   [[P:%.+]] = tile.view [[X]][%{{.+}}, %{{.+}}] : !tile.tile<8x72xf32, ub> -> !tile.tile<8x8xf32, ub>
// CHECK-NEXT:   tile.map ins([[N]], [[P]]) outs([[P]]) {
// CHECK:          graph.compare lt
// CHECK:          graph.constant dense<{{.+}}> : tensor<1x1xf32>
// CHECK:          graph.select
// CHECK:        tile.reduce max [[X]] to [[T:%.+]]{{$}}
// CHECK:        tile.map ins([[X]], [[T]]) outs([[E:%.+]]) {
// CHECK:          graph.sub
// CHECK-NEXT:     graph.exp
// CHECK:        tile.view [[E]][
// CHECK:        tile.reduce sum [[E]] to
// CHECK:          graph.div
// CHECK:        tile.store
npu_task.kernel @softmax_0 on vector {
^bb0(%x: tensor<3x64x70xf32>):
  %0 = graph.softmax %x : (tensor<3x64x70xf32>) -> tensor<3x64x70xf32>
  npu_task.return %0 : tensor<3x64x70xf32>
}

// A row that does not fit comes in parts (channel by channel, each in four parts): once for its sum,
// once for that of the squares, and once for the result. Parts are added, and reduced at the end.
// CHECK:      tile.kernel @group_norm_0_tiles(%in0: memref<2x4x60000xf32>, %in1: memref<1x4x1xf32>, %in2: memref<1x4x1xf32>, %out0: memref<2x4x60000xf32>) cores 2 {
// CHECK-COUNT-2: scf.for
// CHECK:      graph.add
// CHECK:      tile.reduce sum
// CHECK-COUNT-2: scf.for
// CHECK:      graph.mul
// CHECK-NEXT: graph.add
// CHECK:      tile.reduce sum
// CHECK-COUNT-2: scf.for
// CHECK-NOT:  scf.for
npu_task.kernel @group_norm_0 on vector {
^bb0(%x: tensor<2x4x200x300xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>):
  %0 = graph.group_norm %x, %s, %b groups 1 : (tensor<2x4x200x300xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x200x300xf32>
  npu_task.return %0 : tensor<2x4x200x300xf32>
}
