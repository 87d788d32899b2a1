// RUN: %roundtrip | filecheck %s

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: memref<4xf32, "host">, %d: memref<?xf32, "host">, %c: memref<i1, "hbm">, %n: memref<i64, "hbm">) {
  %0 = npu_task.slot io 0 : memref<4xf32, "hbm">
  %1 = npu_task.slot arena 512 : memref<3x4xf32, "hbm">
  npu_task.copy %x to %0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  npu_task.copy %x to %0 on 2 : memref<4xf32, "host"> to memref<4xf32, "hbm">
  %2 = npu_task.transfer %d on 2 : memref<?xf32, "host"> to memref<?xf32, "hbm">
  %e0 = npu_task.record 0 on 2
  npu_task.wait %e0 on 1
  npu_task.launch @neg_0 on 1 ins(%0 : memref<4xf32, "hbm">) outs(%0 : memref<4xf32, "hbm">)
  %3 = npu_task.if %c : memref<i1, "hbm"> outs(%0 : memref<4xf32, "hbm">) -> memref<?xf32, "hbm"> order [1, 0] {
    npu_task.yield %0, %2 : memref<4xf32, "hbm">, memref<?xf32, "hbm">
  } else {
    npu_task.yield %0, %2 : memref<4xf32, "hbm">, memref<?xf32, "hbm">
  }
  npu_task.if %c : memref<i1, "hbm"> order [] {
    npu_task.yield
  } else {
    npu_task.yield
  }
  %4 = npu_task.loop trip %n : memref<i64, "hbm"> while %c : memref<i1, "hbm"> carried(%0 : memref<4xf32, "hbm">) inits(%2 : memref<?xf32, "hbm">) scans(%1 : memref<3x4xf32, "hbm">) -> memref<?xf32, "hbm"> order [1, 0] stacked [1] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %a: memref<4xf32, "hbm">, %b: memref<?xf32, "hbm">):
    npu_task.yield %go, %a, %b, %a : memref<i1, "hbm">, memref<4xf32, "hbm">, memref<?xf32, "hbm">, memref<4xf32, "hbm">
  }
  func.return
}
// CHECK:         npu_task.slot io 0 : memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.slot arena 512 : memref<3x4xf32, "hbm">
// CHECK-NEXT:    npu_task.copy %x to %0 : memref<4xf32, "host"> to memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.copy %x to %0 on 2 : memref<4xf32, "host"> to memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.transfer %d on 2 : memref<?xf32, "host"> to memref<?xf32, "hbm">
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 2{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:    npu_task.launch @neg_0 on 1 ins(%0 : memref<4xf32, "hbm">) outs(%0 : memref<4xf32, "hbm">)
// CHECK-NEXT:    npu_task.if %c : memref<i1, "hbm"> outs(%0 : memref<4xf32, "hbm">) -> memref<?xf32, "hbm"> order [1, 0] {
// CHECK-NEXT:      npu_task.yield %0, %2 : memref<4xf32, "hbm">, memref<?xf32, "hbm">
// CHECK-NEXT:    } else {
// CHECK:         npu_task.if %c : memref<i1, "hbm"> order [] {
// CHECK-NEXT:      npu_task.yield
// CHECK:         npu_task.loop trip %n : memref<i64, "hbm"> while %c : memref<i1, "hbm"> carried(%0 : {{.*}}) inits(%2 : {{.*}}) scans(%1 : {{.*}}) -> memref<?xf32, "hbm"> order [1, 0] stacked [1] {
// CHECK-NEXT:    ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %a: memref<4xf32, "hbm">, %b: memref<?xf32, "hbm">):
// CHECK-NEXT:      npu_task.yield %go, %a, %b, %a :
