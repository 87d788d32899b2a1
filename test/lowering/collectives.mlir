// RUN: ge-opt %s -p 'lower-to-tasks{target=910b2},bufferize-tasks,acknowledge-collectives,verify-level{level=buffers}' | filecheck %s --check-prefix=BUFFERS
// RUN: ge-compile %s --no-tiles --fusion off -o - 2>%t | filecheck %s

// A collective runs on a stream of its own. Its users wait until its result is ready, as the matmul
// does; what takes the memory of its operand or its result waits until the other devices have
// acknowledged that they have read it, as the softmax does, which overwrites what it takes.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<4x64x64xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}, {}]>, graph.whole = array<i64: 16, 64, 64>})
    -> (tensor<64x128xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: 64, 128>},
        tensor<64x64xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: 64, 64>}) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x128xf32>
  %0 = graph.reduce sum %x axes [0] keep_dims false : (tensor<4x64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.all_reduce sum %0 over <"tp"=4> : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.matmul %1, %w : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  %3 = graph.softmax %1 axis 1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.tanh %2 : (tensor<64x128xf32>) -> tensor<64x128xf32>
  return %4, %3 : tensor<64x128xf32>, tensor<64x64xf32>
}
// BUFFERS:      npu_task.kernel @all_reduce_0 on comm {
// BUFFERS-NEXT: ^bb0(%0: tensor<64x64xf32>):
// BUFFERS-NEXT:   graph.all_reduce sum %0 over <"tp"=4>
// BUFFERS:      npu_task.kernel @acknowledge_0 on comm {
// BUFFERS-NEXT: ^bb0(%0: tensor<64x64xf32>, %1: tensor<64x64xf32>):
// BUFFERS-NEXT:   graph.acknowledge %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
// BUFFERS-NEXT:   npu_task.return
// BUFFERS:      npu_task.launch @all_reduce_0 ins(%[[x:.*]] : {{.*}}) outs(%[[y:.*]] : {{.*}})
// BUFFERS-NEXT: npu_task.launch @acknowledge_0 ins(%[[x]], %[[y]] : {{.*}})

// CHECK:      npu_task.launch @all_reduce_0 on 5 ins(%[[x:.*]] : {{.*}}) outs(%[[y:.*]] : {{.*}})
// CHECK-NEXT: %[[ready:.*]] = npu_task.record {{.*}} on 5
// CHECK-NEXT: npu_task.launch @acknowledge_0 on 5 ins(%[[x]], %[[y]] : {{.*}})
// CHECK-NEXT: %[[free:.*]] = npu_task.record {{.*}} on 5
// CHECK:      npu_task.wait %[[ready]] on 0
// CHECK-NEXT: npu_task.launch @matmul_0 on 0 ins(%[[y]], %{{.*}})
// CHECK:      npu_task.wait %[[free]] on 1
// CHECK-NEXT: npu_task.launch @softmax_0 on 1 ins(%[[y]] : {{.*}}) outs(%[[y]] : {{.*}})
