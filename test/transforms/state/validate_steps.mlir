// RUN: ge-opt %s --validate -p 'grow-state{capacity="past=8" layout="paged:2"},lower-to-tasks,bufferize-tasks,update-state,assign-streams,plan-memory' | filecheck %s
// RUN: ge-opt %s --validate -p 'quantize-cache,grow-state{capacity="past=8" layout="paged:2"},lower-to-tasks,bufferize-tasks,update-state,assign-streams,plan-memory' | filecheck %s --check-prefix INTEGERS

// States that grow are compared run by run, before they have a capacity and at every level.

// CHECK:      npu_task.slot state 0 {npu_task.state = "k"
// CHECK-SAME: npu_task.grows = 2 :

// Once caches are integers, these are what is compared.

// INTEGERS: npu_task.slot state {{.*}}npu_task.state = "k"{{.*}}i8,
func.func @main(%q: tensor<1x2x1x4xf32> {graph.name = "q"}, %new: tensor<1x2x1x4xf32> {graph.name = "new"},
                %k: tensor<1x2x?x4xf32> {graph.name = "k", graph.dims = ["", "", "past", ""], graph.state = "a"},
                %m: tensor<1x?xf32> {graph.name = "m", graph.dims = ["", "past + 1"]})
    -> (tensor<1x2x1x4xf32> {graph.name = "y"}, tensor<1x2x?x4xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 2 : (tensor<1x2x?x4xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x?x4xf32>
  %1 = graph.attention %q, %0, %0 mask %m : (tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x?xf32>) -> tensor<1x2x1x4xf32>
  func.return %1, %0 : tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>
}
