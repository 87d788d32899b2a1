// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,verify-level{level=buffers}' | filecheck %s

// A branch computes its result where the `if` wants it; what it did not compute is copied there.
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0, %1 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
    %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %2, %2 : tensor<4xf32>, tensor<4xf32>
  } else {
    %2 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    %3 = graph.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %x, %3 : tensor<4xf32>, tensor<4xf32>
  }
  %4 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
// CHECK:         npu_task.copy %c to %0 :
// CHECK:         npu_task.copy %x to %1 :
// CHECK-NEXT:    %2 = memref.alloc() : memref<4xf32, "hbm">
// CHECK-NEXT:    %3 = memref.alloc() : memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.if %0 : memref<i1, "hbm"> outs(%2, %3 : {{.*}}) order [1, 1] {
// CHECK-NEXT:      npu_task.launch @neg_0 ins(%1 : {{.*}}) outs(%2 :
// CHECK-NEXT:      npu_task.yield %2, %2 :
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %4 = memref.alloc() : memref<4xf32, "hbm">
// CHECK-NEXT:      npu_task.launch @exp_0 ins(%1 : {{.*}}) outs(%4 :
// CHECK-NEXT:      npu_task.launch @neg_0 ins(%4 : {{.*}}) outs(%3 :
// CHECK-NEXT:      npu_task.yield %1, %3 :
// CHECK-NEXT:    }
// CHECK-NEXT:    %5 = memref.alloc() {npu_task.io}
// CHECK-NEXT:    npu_task.launch @add_0 ins(%2, %3 :

// -----

// Nested branches hand the place down; a result of the model is computed where it is sent from.
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    %1 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
      %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    } else {
      graph.yield %x : tensor<4xf32>
    }
    graph.yield %1 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
// CHECK:         %2 = memref.alloc() {npu_task.io}
// CHECK-NEXT:    npu_task.if %0 : {{.*}} outs(%2 : {{.*}}) order [1] {
// CHECK-NEXT:      npu_task.if %0 : {{.*}} outs(%2 : {{.*}}) order [1] {
// CHECK-NEXT:        npu_task.launch @neg_0 ins(%1 : {{.*}}) outs(%2 :
// CHECK-NEXT:        npu_task.yield %2 :
// CHECK-NEXT:      } else {
// CHECK-NEXT:        npu_task.yield %1 :
// CHECK-NEXT:      }
// CHECK-NEXT:      npu_task.yield %2 :
// CHECK:         npu_task.copy %2 to

// -----

// A branch whose shape differs: a dynamic result, for which static buffers are moved.
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<?xf32> {
    graph.yield %x : tensor<4xf32>
  } else {
    graph.yield %y : tensor<?xf32>
  }
  func.return %0 : tensor<?xf32>
}
// CHECK:         %[[R:.*]] = npu_task.if %0 : memref<i1, "hbm"> -> memref<?xf32, "hbm"> order [0] {
// CHECK-NEXT:      %[[M:.*]] = npu_task.transfer %1 : memref<4xf32, "hbm"> to memref<?xf32, "hbm">
// CHECK-NEXT:      npu_task.yield %[[M]] : memref<?xf32, "hbm">
// CHECK-NEXT:    } else {
// CHECK-NEXT:      npu_task.yield %2 : memref<?xf32, "hbm">
// CHECK:         npu_task.transfer %[[R]] :

// -----

// A loop: a static carried value in a buffer of its own that starts with a copy, a dynamic one that
// is passed on, scans into a buffer where their number is known.
func.func @main(%x: tensor<4xf32>, %d: tensor<?xf32>) -> (tensor<4xf32>, tensor<?xf32>, tensor<3x4xf32>) {
  %n = graph.constant dense<3> : tensor<i64>
  %r, %e, %s = graph.loop (%i, %go) trip %n : tensor<i64> carry (%y = %x : tensor<4xf32>, %z = %d : tensor<?xf32>) -> (tensor<4xf32>, tensor<?xf32>, tensor<3x4xf32>) {
    %1 = graph.neg %y : (tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.concat %z, %y axis 0 : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
    graph.yield %go, %1, %2, %y : tensor<i1>, tensor<4xf32>, tensor<?xf32>, tensor<4xf32>
  }
  func.return %r, %e, %s : tensor<4xf32>, tensor<?xf32>, tensor<3x4xf32>
}
// CHECK:         %n = npu_task.constant dense<3> : tensor<i64> as memref<i64, "hbm">
// CHECK-NEXT:    %r = memref.alloc() {npu_task.io} : memref<4xf32, "hbm">
// CHECK-NEXT:    npu_task.copy %0 to %r :
// CHECK-NEXT:    %s = memref.alloc() {npu_task.io} : memref<3x4xf32, "hbm">
// CHECK-NEXT:    %2 = npu_task.loop trip %n : memref<i64, "hbm"> carried(%r : {{.*}}) inits(%1 : memref<?xf32, "hbm">) scans(%s : {{.*}}) -> memref<?xf32, "hbm"> order [1, 0] stacked [1] {
// CHECK-NEXT:    ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %y: memref<4xf32, "hbm">, %z: memref<?xf32, "hbm">):
// CHECK-NEXT:      %3 = memref.alloc() : memref<4xf32, "hbm">
// CHECK-NEXT:      npu_task.launch @neg_0 ins(%y : {{.*}}) outs(%3 :
// CHECK-NEXT:      %4 = npu_task.launch @concat_0 ins(%z, %y : {{.*}}) -> memref<?xf32, "hbm">
// CHECK-NEXT:      npu_task.yield %go, %3, %4, %y :

// -----

// A carried value that changes its shape starts from a buffer that is not bound to a slot; views
// of the body's arguments; the number of rounds is not known.
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<?xf32>, tensor<?x2xf32>) {
  %r, %t, %s = graph.loop (%i, %go) while %c : tensor<i1> carry (%y : tensor<?xf32> = %x : tensor<4xf32>, %z = %x : tensor<4xf32>) -> (tensor<?xf32>, tensor<4xf32>, tensor<?x2xf32>) {
    %1 = graph.concat %y, %z axis 0 : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
    %2 = graph.slice %z starts [2] ends [4] axes [0] : (tensor<4xf32>) -> tensor<2xf32>
    graph.yield %go, %1, %z, %2 : tensor<i1>, tensor<?xf32>, tensor<4xf32>, tensor<2xf32>
  }
  func.return %r, %s : tensor<?xf32>, tensor<?x2xf32>
}
// CHECK:         %[[M:.*]] = npu_task.transfer %0 : memref<4xf32, "hbm"> to memref<?xf32, "hbm">
// CHECK:         npu_task.copy %0 to %[[Z:.*]] :
// CHECK:         npu_task.loop while %1 : {{.*}} carried(%[[Z]] : {{.*}}) inits(%[[M]] : {{.*}}) -> memref<?xf32, "hbm">, memref<?x2xf32, "hbm"> order [0, 1] stacked [0] {
// CHECK:           memref.reinterpret_cast %z to offset: [2], sizes: [2], strides: [1] : memref<4xf32, "hbm"> to memref<2xf32, strided<[1], offset: 2>, "hbm">

// -----

// The host keeps the number of a gear; the device gets it where others than cases read it.
func.func @main(%x: tensor<4xf32>) -> tensor<i64> {
  %i = graph.map_index %x axes [0] table [array<i64: 4>] : (tensor<4xf32>) -> tensor<i64>
  func.return %i : tensor<i64>
}
// CHECK:         %[[I:.*]] = npu_task.map_index %{{.*}} axes [0] table [array<i64: 4>] : ({{.*}}) -> memref<i64, "host">
// CHECK-NEXT:    %[[D:.*]] = memref.alloc() {npu_task.io} : memref<i64, "hbm">
// CHECK-NEXT:    npu_task.copy %[[I]] to %[[D]] :
