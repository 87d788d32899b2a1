// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,verify-level{level=buffers}' | filecheck %s

// Values of unknown shape are results, of transfers at the borders and of launches between.
func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>) -> (tensor<?x32xf32>, tensor<?x64xf32>) {
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  func.return %0, %x : tensor<?x32xf32>, tensor<?x64xf32>
}
// CHECK:       func.func @main(%x: memref<?x64xf32, "host">, %w: memref<64x32xf32, "host">) -> (memref<?x32xf32, "host">, memref<?x64xf32, "host">)
// CHECK-NEXT:    %0 = npu_task.transfer %x : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
// CHECK-NEXT:    %1 = memref.alloc() {npu_task.io}
// CHECK-NEXT:    npu_task.copy %w to %1 :
// CHECK-NEXT:    %2 = npu_task.launch @matmul_0 ins(%0, %1 : memref<?x64xf32, "hbm">, memref<64x32xf32, "hbm">) -> memref<?x32xf32, "hbm">
// CHECK-NEXT:    %3 = npu_task.transfer %2 : memref<?x32xf32, "hbm"> to memref<?x32xf32, "host">
// CHECK-NEXT:    %4 = npu_task.transfer %0 : memref<?x64xf32, "hbm"> to memref<?x64xf32, "host">
// CHECK-NEXT:    func.return %3, %4 :

// -----

// Static and dynamic results of one launch.
func.func @main(%x: tensor<8xf32>) -> (tensor<?xf32>, tensor<?xi64>) {
  %0, %1, %2, %3 = graph.unique %x : (tensor<8xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<8xi64>, tensor<?xi64>)
  %4 = graph.neg %2 : (tensor<8xi64>) -> tensor<8xi64>
  func.return %0, %1 : tensor<?xf32>, tensor<?xi64>
}
// CHECK:         %1 = memref.alloc() : memref<8xi64, "hbm">
// CHECK-NEXT:    %2, %3, %4 = npu_task.launch @unique_0 ins(%0 : {{.*}}) outs(%1 : memref<8xi64, "hbm">) -> memref<?xf32, "hbm">, memref<?xi64, "hbm">, memref<?xi64, "hbm">
// CHECK:         npu_task.launch @neg_0 ins(%1 :
// CHECK:         npu_task.transfer %2 :
// CHECK:         npu_task.transfer %3 :
