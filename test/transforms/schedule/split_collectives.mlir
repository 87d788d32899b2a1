// RUN: ge-opt %s --split-input-file -p 'split-launches{pieces=2 collectives=true}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'split-launches{pieces=2 collectives=true},acknowledge-collectives,assign-streams,plan-memory,verify-schedule,verify-plan' | filecheck %s --check-prefix=PROGRAM
// RUN: ge-opt %s --split-input-file -p 'split-launches{collectives=true}' | filecheck %s --check-prefix=SMALL

// The sum of the first rows is made beside the product of the last ones.

// CHECK: npu_task.kernel @all_reduce_0_of_2 on comm
// CHECK: graph.all_reduce sum {{.*}} -> tensor<4x16xf32>
// CHECK: func.func @main
// CHECK: launch @matmul_0_of_2
// CHECK: launch @matmul_0_of_2
// CHECK: launch @all_reduce_0_of_2 ins(%{{.*}} : memref<4x16xf32, "hbm">) outs(%{{.*}} : memref<4x16xf32, "hbm">)
// CHECK: launch @all_reduce_0_of_2
// CHECK-NOT: launch
// PROGRAM: launch @all_reduce_0_of_2 on 5
// PROGRAM: launch @acknowledge_0 on 5
// PROGRAM: launch @all_reduce_0_of_2 on 5
// SMALL-NOT: _of_2
graph.mesh @mesh ["tp"=4]
npu_task.kernel @matmul_0 on cube {
^bb0(%0: tensor<8x32xf32>, %1: tensor<32x16xf32>):
  %2 = graph.matmul %0, %1 : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  npu_task.return %2 : tensor<8x16xf32>
}
npu_task.kernel @all_reduce_0 on comm {
^bb0(%0: tensor<8x16xf32>):
  %1 = graph.all_reduce sum %0 over <"tp"=4> : (tensor<8x16xf32>) -> tensor<8x16xf32>
  npu_task.return %1 : tensor<8x16xf32>
}
func.func @main(%x: memref<8x32xf32, "hbm">) {
  %w = npu_task.constant #graph.weight<"w"> as memref<32x16xf32, "hbm">
  %0 = memref.alloc() : memref<8x16xf32, "hbm">
  npu_task.launch @matmul_0 ins(%x, %w : memref<8x32xf32, "hbm">, memref<32x16xf32, "hbm">) outs(%0 : memref<8x16xf32, "hbm">)
  %1 = memref.alloc() {npu_task.io} : memref<8x16xf32, "hbm">
  npu_task.launch @all_reduce_0 ins(%0 : memref<8x16xf32, "hbm">) outs(%1 : memref<8x16xf32, "hbm">)
  return
}

// -----

// Part i of what is gathered along rows is a part of the rows of each device.

// CHECK: graph.all_gather {{.*}} dim 0 over <"tp"=4> : (tensor<1x4x16xf32>) -> tensor<4x4x16xf32>
// CHECK: func.func @main
// CHECK: reinterpret_cast %{{.*}} to offset: [64], sizes: [4, 4, 16], strides: [128, 16, 1]
graph.mesh @mesh ["tp"=4]
npu_task.kernel @exp_0 on vector {
^bb0(%0: tensor<8x16xf32>):
  %1 = graph.exp %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  npu_task.return %1 : tensor<8x16xf32>
}
npu_task.kernel @all_gather_0 on comm {
^bb0(%0: tensor<8x16xf32>):
  %1 = graph.all_gather %0 dim 0 over <"tp"=4> : (tensor<8x16xf32>) -> tensor<32x16xf32>
  npu_task.return %1 : tensor<32x16xf32>
}
func.func @main(%x: memref<8x16xf32, "hbm">) {
  %0 = memref.alloc() : memref<8x16xf32, "hbm">
  npu_task.launch @exp_0 ins(%x : memref<8x16xf32, "hbm">) outs(%0 : memref<8x16xf32, "hbm">)
  %1 = memref.alloc() {npu_task.io} : memref<32x16xf32, "hbm">
  npu_task.launch @all_gather_0 ins(%0 : memref<8x16xf32, "hbm">) outs(%1 : memref<32x16xf32, "hbm">)
  return
}
