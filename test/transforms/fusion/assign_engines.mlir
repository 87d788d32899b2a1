// RUN: ge-opt %s --split-input-file -p 'assign-engines{choices="act=vector"},fuse-linear{target=910_merged},fuse-region{target=910_merged}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'assign-engines{choices="act=AI_VECTOR_CORE"},fuse-linear{target=910_merged},lower-to-tasks{target=910_merged}' | filecheck %s --check-prefix=TASKS

// An op for the vector cores is in no launch of the cube; the matmul keeps what comes before it.
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("fc")
  %1 = graph.add %0, %b : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32> loc("bias")
  %2 = graph.relu %1 : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("act.1")
  func.return %2 : tensor<8x8xf32>
}
// CHECK:      fused_op.linear
// CHECK-NEXT: ^bb0(
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.add
// CHECK-NEXT:   fused_op.yield
// CHECK:      graph.relu {{.*}} {fused_op.engine = "vector"}

// TASKS:      npu_task.kernel @linear_0 on cube
// TASKS:      npu_task.kernel @relu_0 on vector

// -----

// What has no name that fits fuses as before, and a vector op joins other vector ops.
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("fc")
  %1 = graph.relu %0 : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("other")
  %2 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("first")
  %3 = graph.tanh %2 : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("act.2")
  func.return %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}
// CHECK:      fused_op.linear
// CHECK-NEXT: ^bb0(
// CHECK-NEXT:   graph.matmul
// CHECK-NEXT:   graph.relu
// CHECK:      fused_op.region
// CHECK-NEXT: ^bb0(
// CHECK-NEXT:   graph.exp
// CHECK-NEXT:   graph.tanh {{.*}} {fused_op.engine = "vector"}

// -----

// Shape arithmetic leaves the host; equal ops on two engines are two kernels.
func.func @main(%x: tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
  %0 = graph.add %x, %x : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64> loc("act.3")
  %1 = graph.mul %0, %x : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64> loc("size")
  %2 = graph.add %1, %1 : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64> loc("size 2")
  func.return %2, %0 : tensor<2xi64>, tensor<2xi64>
}
// CHECK: graph.add {{.*}} {fused_op.engine = "vector"}
// TASKS: npu_task.kernel @add_0 on vector
// TASKS: npu_task.kernel @mul_0 on host
// TASKS: npu_task.kernel @add_1 on host
