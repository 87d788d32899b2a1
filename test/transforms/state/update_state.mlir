// RUN: ge-opt %s --split-input-file -p fuse-linear,lower-to-tasks,bufferize-tasks,update-state | filecheck %s

// What is appended to a state is written behind it, by the kernel that computes it.

// CHECK-LABEL: func.func @main(
// CHECK:       %[[S:.*]] = memref.alloc() {npu_task.state = "past", npu_task.valid = array<i64: 7, 16>} : memref<8x16xf32,
// CHECK-NEXT:  %[[N:.*]] = memref.reinterpret_cast %[[S]] to offset: [112], sizes: [1, 16]
// CHECK-NEXT:  npu_task.launch @exp_0 {{.*}} outs(%[[N]] :
// CHECK-NEXT:  memref.alloc() {npu_task.io}
// CHECK-NEXT:  npu_task.launch @tanh_0 ins(%[[S]] :
// CHECK-NOT:   npu_task.copy %[[S]]
func.func @main(%x: tensor<1x16xf32>, %past: tensor<7x16xf32> {graph.name = "past", graph.state = "new"})
    -> (tensor<8x16xf32> {graph.name = "y"}, tensor<8x16xf32> {graph.name = "new"}) {
  %0 = graph.exp %x : (tensor<1x16xf32>) -> tensor<1x16xf32>
  %1 = graph.concat %past, %0 axis 0 : (tensor<7x16xf32>, tensor<1x16xf32>) -> tensor<8x16xf32>
  %2 = graph.tanh %1 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  func.return %2, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Rows before those of the state are not appended: the state is copied before it is written.

// CHECK-LABEL: func.func @main(
// CHECK:       %[[S:.*]] = memref.alloc() {npu_task.state = "past"
// CHECK:       %[[V:.*]] = memref.reinterpret_cast %[[S]] to offset: [0], sizes: [7, 16]
// CHECK:       npu_task.copy %[[V]] to %[[O:.*]] :
// CHECK-NEXT:  npu_task.launch @concat_0 ins(%{{.*}}, %[[O]] {{.*}} outs(%[[S]] :
// CHECK-NEXT:  func.return
func.func @main(%x: tensor<1x16xf32>, %past: tensor<7x16xf32> {graph.name = "past", graph.state = "new"})
    -> (tensor<8x16xf32> {graph.name = "new"}) {
  %1 = graph.concat %x, %past axis 0 : (tensor<1x16xf32>, tensor<7x16xf32>) -> tensor<8x16xf32>
  func.return %1 : tensor<8x16xf32>
}

// -----

// A value that takes the place of a state is computed there once the state has been read...

// CHECK-LABEL: func.func @main(
// CHECK:       %[[S:.*]] = memref.alloc() {npu_task.state = "h"
// CHECK:       npu_task.launch @exp_0 ins(%[[S]] {{.*}} outs(%[[T:.*]] :
// CHECK-NEXT:  npu_task.launch @tanh_0 ins(%[[T]] {{.*}} outs(%[[S]] :
// CHECK-NEXT:  func.return
func.func @main(%h: tensor<8xf32> {graph.name = "h", graph.state = "g"})
    -> (tensor<8xf32> {graph.name = "g"}) {
  %0 = graph.exp %h : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.tanh %0 : (tensor<8xf32>) -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}

// -----

// ... and not where it is read again.

// CHECK-LABEL: func.func @main(
// CHECK:       %[[S:.*]] = memref.alloc() {npu_task.state = "h"
// CHECK:       npu_task.launch @tanh_0 {{.*}} outs(%[[T:.*]] :
// CHECK:       npu_task.launch @add_0 ins(%[[S]], %[[T]] :
// CHECK:       npu_task.copy %[[T]] to %[[S]] :
// CHECK-NEXT:  func.return
func.func @main(%h: tensor<8xf32> {graph.name = "h", graph.state = "g"})
    -> (tensor<8xf32> {graph.name = "g"}, tensor<8xf32> {graph.name = "y"}) {
  %0 = graph.exp %h : (tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.tanh %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.add %h, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Two states that change places: what is overwritten first is read before.

// CHECK-LABEL: func.func @main(
// CHECK:       npu_task.copy %[[A:.*]] to %[[T:.*]] :
// CHECK-NEXT:  npu_task.copy %[[B:.*]] to %[[A]] :
// CHECK-NEXT:  npu_task.copy %[[T]] to %[[B]] :
func.func @main(%a: tensor<8xf32> {graph.name = "a", graph.state = "d"},
                %b: tensor<8xf32> {graph.name = "b", graph.state = "c"})
    -> (tensor<8xf32> {graph.name = "c"}, tensor<8xf32> {graph.name = "d"}) {
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// What a state was is read behind the kernel that appends to it: that one waits, and writes there.

// CHECK-LABEL: func.func @main(
// CHECK:       %[[S:.*]] = memref.alloc() {npu_task.state = "c"
// CHECK:       npu_task.launch @exp_0 ins(%[[S]] :
// CHECK:       npu_task.launch @append_0 ins(%[[S]], {{.*}} outs(%[[S]] :
// CHECK-NEXT:  func.return
func.func @main(%c: tensor<8x64xf32> {graph.name = "c", graph.state = "n"}, %r: tensor<1x64xf32>, %k: tensor<i64>)
    -> (tensor<8x64xf32> {graph.name = "n"}, tensor<8x64xf32>) {
  %0 = graph.append %c, %r at %k axis 0 : (tensor<8x64xf32>, tensor<1x64xf32>, tensor<i64>) -> tensor<8x64xf32>
  %1 = graph.exp %c : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
}
