// What generic passes may do with launches and copies.
// RUN: ge-opt %s -p cse,dce | filecheck %s

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}

// On tensors a launch has no effects: equal ones are one, one that is not used goes.
func.func @tensors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  %b = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  %c = npu_task.launch @neg_0 ins(%y : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}
// CHECK:      func.func @tensors(
// CHECK-NEXT:   %a = npu_task.launch @neg_0 ins(%x :
// CHECK-NEXT:   func.return %a, %a :

// On buffers it writes memory, as copies do. A slot that nobody uses goes.
func.func @buffers(%x: memref<4xf32, "hbm">, %y: memref<4xf32, "hbm">, %h: memref<4xf32, "host">) {
  npu_task.launch @neg_0 ins(%x : memref<4xf32, "hbm">) outs(%y : memref<4xf32, "hbm">)
  npu_task.launch @neg_0 ins(%x : memref<4xf32, "hbm">) outs(%y : memref<4xf32, "hbm">)
  npu_task.copy %y to %h : memref<4xf32, "hbm"> to memref<4xf32, "host">
  npu_task.copy %y to %h : memref<4xf32, "hbm"> to memref<4xf32, "host">
  npu_task.batch_copy %y to %h : memref<4xf32, "hbm"> to memref<4xf32, "host">
  %0 = npu_task.slot arena 0 : memref<4xf32, "hbm">
  func.return
}
// CHECK:      func.func @buffers(
// CHECK-NEXT:   npu_task.launch @neg_0
// CHECK-NEXT:   npu_task.launch @neg_0
// CHECK-NEXT:   npu_task.copy %y to %h
// CHECK-NEXT:   npu_task.copy %y to %h
// CHECK-NEXT:   npu_task.batch_copy %y to %h
// CHECK-NEXT:   func.return
