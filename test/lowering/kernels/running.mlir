// RUN: ge-opt %s --split-input-file -p lower-kernels{target=910b2} --remarks --verify-diagnostics | filecheck %s

// Row after row, in the order of the kernel's body.
// CHECK-LABEL: tile.kernel @rows_tiles(%in0: memref<40x16xf32>, %out0: memref<40x16xf32>)
// CHECK:         tile.load
// CHECK:         scf.for
// CHECK:           tile.map ins({{.+}}, {{.+}}) outs({{.+}}) {
// CHECK:             graph.add
// CHECK:         tile.store
npu_task.kernel @rows on vector {
^bb0(%x: tensor<40x16xf32>):
  %r = graph.cumulative sum %x axis 0 : (tensor<40x16xf32>) -> tensor<40x16xf32>
  npu_task.return %r : tensor<40x16xf32>
}

// -----

// Columns become rows, and rows columns at the end.
// CHECK-LABEL: tile.kernel @columns_tiles(
// CHECK:         tile.move {{.*}} transposed
// CHECK:         scf.for
// CHECK:             graph.mul
// CHECK:         tile.move {{.*}} transposed
// CHECK:         tile.store
npu_task.kernel @columns on vector {
^bb0(%x: tensor<8x40xf32>):
  %r = graph.cumulative prod %x axis 1 : (tensor<8x40xf32>) -> tensor<8x40xf32>
  npu_task.return %r : tensor<8x40xf32>
}

// -----

// The position of an extreme is the least number of an element that equals it; a nan is one.
// CHECK-LABEL: tile.kernel @largest_tiles(
// CHECK:         tile.reduce max [[X:%.+]] to [[PEAK:%.+]]
// CHECK:         tile.index columns
// CHECK:         tile.map
// CHECK-DAG:       graph.compare eq
// CHECK-DAG:       graph.compare ne
// CHECK:           graph.select
// CHECK:         tile.reduce min
// CHECK:           graph.cast {{.+}} to i64 :
// CHECK:         tile.store
npu_task.kernel @largest on vector {
^bb0(%x: tensor<40x32xf32>):
  %r = graph.arg_reduce max %x axis 1 : (tensor<40x32xf32>) -> tensor<40x1xi64>
  npu_task.return %r : tensor<40x1xi64>
}

// -----

// From the end, all of a row is there before the first sum.
// CHECK-NOT:  tile.kernel
// expected-remark@+1 {{@backwards has no tile program: running sums of 100000 elements are in parts}}
npu_task.kernel @backwards on vector {
^bb0(%x: tensor<1x100000xf32>):
  %r = graph.cumulative sum %x axis 1 reverse true : (tensor<1x100000xf32>) -> tensor<1x100000xf32>
  npu_task.return %r : tensor<1x100000xf32>
}

// -----

// The next one is the largest of those that are left, and has the least number of its equals.
// CHECK-LABEL: tile.kernel @first_tiles(
// CHECK:         scf.for
// CHECK:           tile.reduce max
// CHECK:           tile.reduce min
// CHECK:           tile.view %out1[{{.+}}]
npu_task.kernel @first on vector {
^bb0(%x: tensor<40x64xf32>):
  %v, %i = graph.top_k %x k 8 : (tensor<40x64xf32>) -> (tensor<40x8xf32>, tensor<40x8xi64>)
  npu_task.return %v, %i : tensor<40x8xf32>, tensor<40x8xi64>
}

// -----

// Each of many would pass over the whole row.
// CHECK-NOT:  tile.kernel
// expected-remark@+1 {{@many has no tile program: 1025 elements of 2000 would each pass over the whole row}}
npu_task.kernel @many on vector {
^bb0(%x: tensor<4x2000xf32>):
  %v, %i = graph.top_k %x k 1025 : (tensor<4x2000xf32>) -> (tensor<4x1025xf32>, tensor<4x1025xi64>)
  npu_task.return %v, %i : tensor<4x1025xf32>, tensor<4x1025xi64>
}
