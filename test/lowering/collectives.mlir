// RUN: ge-opt %s -p 'lower-to-tasks{target=910b2},bufferize-tasks,acknowledge-collectives,verify-level{level=buffers}' | filecheck %s --check-prefix=BUFFERS
// RUN: ge-compile %s --no-tiles --fusion off -o - 2>%t | filecheck %s

// A collective runs on a stream of its own. Its users wait until its result is ready, as the matmul
// does; what takes the memory of its operand or its result waits until the other devices have
// acknowledged that they have read it, as the sum does, which overwrites what it takes.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<64x64xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>, graph.whole = array<i64: 256, 64>})
    -> (tensor<64x64xf32> {graph.sharding = #graph.sharding<@mesh, [{}, {}]>, graph.whole = array<i64: 64, 64>}) {
  %0 = graph.relu %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.all_reduce sum %0 over <"tp"=4> : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.matmul %1, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = graph.add %0, %2 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
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
// CHECK-NEXT: npu_task.launch @matmul_0 on 0 ins(%[[y]] : {{.*}}) outs(%[[z:.*]] : {{.*}})
// CHECK:      npu_task.wait %[[free]] on 1
// CHECK-NEXT: npu_task.launch @add_0 on 1 ins(%[[x]], %[[z]] : {{.*}}) outs(%[[x]] : {{.*}})
