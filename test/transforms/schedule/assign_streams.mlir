// RUN: ge-opt %s --split-input-file -p 'assign-streams{in-order=true}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'assign-streams{in-order=true},assign-streams{in-order=true}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'assign-streams{single=true}' | filecheck %s --check-prefix=SINGLE

// Streams by engine. The second launch needs no event: the first one on its stream waited already.
npu_task.kernel @matmul_0 on cube {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.neg %0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  npu_task.return %1 : tensor<4x4xf32>
}
npu_task.kernel @shape_of_0 on host {
^bb0(%0: tensor<4x4xf32>):
  %1 = graph.shape_of %0 : (tensor<4x4xf32>) -> tensor<2xi64>
  npu_task.return %1 : tensor<2xi64>
}
func.func @main(%x: memref<4x4xf32, "host">) -> memref<4x4xf32, "host"> {
  %0 = memref.alloc() {npu_task.io} : memref<4x4xf32, "hbm">
  %1 = memref.alloc() : memref<4x4xf32, "hbm">
  %2 = memref.alloc() : memref<4x4xf32, "hbm">
  %3 = memref.alloc() : memref<4x4xf32, "hbm">
  %4 = memref.alloc() : memref<2xi64, "hbm">
  %5 = memref.alloc() : memref<4x4xf32, "host">
  npu_task.copy %x to %0 : memref<4x4xf32, "host"> to memref<4x4xf32, "hbm">
  npu_task.launch @matmul_0 ins(%0 : memref<4x4xf32, "hbm">) outs(%1 : memref<4x4xf32, "hbm">)
  npu_task.launch @neg_0 ins(%1 : memref<4x4xf32, "hbm">) outs(%2 : memref<4x4xf32, "hbm">)
  npu_task.launch @neg_0 ins(%0 : memref<4x4xf32, "hbm">) outs(%3 : memref<4x4xf32, "hbm">)
  npu_task.launch @shape_of_0 ins(%0 : memref<4x4xf32, "hbm">) outs(%4 : memref<2xi64, "hbm">)
  npu_task.copy %2 to %1 : memref<4x4xf32, "hbm"> to memref<4x4xf32, "hbm">
  npu_task.copy %1 to %5 : memref<4x4xf32, "hbm"> to memref<4x4xf32, "host">
  func.return %5 : memref<4x4xf32, "host">
}
// CHECK:       func.func @main({{.*}} attributes {npu_task.streams = 5 : i64, npu_task.events = 2 : i64} {
// CHECK:         npu_task.copy %x to %0 on 2 :
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 2{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 0{{$}}
// CHECK-NEXT:    npu_task.launch @matmul_0 on 0 ins
// CHECK-NEXT:    %[[E1:.*]] = npu_task.record 1 on 0{{$}}
// CHECK-NEXT:    npu_task.wait %[[E1]] on 1{{$}}
// CHECK-NEXT:    npu_task.launch @neg_0 on 1 ins(%1 :
// CHECK-NEXT:    npu_task.launch @neg_0 on 1 ins(%0 :
// CHECK-NEXT:    npu_task.wait %[[E0]] on 4{{$}}
// CHECK-NEXT:    npu_task.launch @shape_of_0 on 4 ins
// CHECK-NEXT:    npu_task.copy %2 to %1 on 1 :
// CHECK-NEXT:    %[[E1:.*]] = npu_task.record 1 on 1{{$}}
// CHECK-NEXT:    npu_task.wait %[[E1]] on 3{{$}}
// CHECK-NEXT:    npu_task.copy %1 to %5 on 3 :
// CHECK-NEXT:    func.return
// SINGLE:      func.func @main({{.*}} attributes {npu_task.streams = 1 : i64, npu_task.events = 0 : i64} {
// SINGLE-NOT:    npu_task.record
// SINGLE-NOT:    npu_task.wait
// SINGLE:        npu_task.copy %x to %0 on 0 :
// SINGLE-NEXT:   npu_task.launch @matmul_0 on 0 ins
// SINGLE-NEXT:   npu_task.launch @neg_0 on 0 ins

// -----

// Through views: a write to the buffer waits for the reader of its view (and the reader of a view
// for the writer of the buffer). Reads of one buffer are not ordered.
npu_task.kernel @matmul_0 on cube {
^bb0(%0: tensor<2x2xf32>):
  %1 = graph.matmul %0, %0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  npu_task.return %1 : tensor<2x2xf32>
}
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4x2xf32>):
  %1 = graph.neg %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  npu_task.return %1 : tensor<4x2xf32>
}
func.func @main(%x: memref<4x2xf32, "hbm">) {
  %0 = memref.alloc() : memref<4x2xf32, "hbm">
  %1 = memref.alloc() : memref<2x2xf32, "hbm">
  %2 = memref.alloc() : memref<4x2xf32, "hbm">
  npu_task.launch @neg_0 ins(%x : memref<4x2xf32, "hbm">) outs(%0 : memref<4x2xf32, "hbm">)
  %v = memref.reinterpret_cast %0 to offset: [4], sizes: [2, 2], strides: [2, 1] : memref<4x2xf32, "hbm"> to memref<2x2xf32, strided<[2, 1], offset: 4>, "hbm">
  npu_task.launch @matmul_0 ins(%v : memref<2x2xf32, strided<[2, 1], offset: 4>, "hbm">) outs(%1 : memref<2x2xf32, "hbm">)
  npu_task.launch @neg_0 ins(%0 : memref<4x2xf32, "hbm">) outs(%2 : memref<4x2xf32, "hbm">)
  npu_task.launch @neg_0 ins(%x : memref<4x2xf32, "hbm">) outs(%0 : memref<4x2xf32, "hbm">)
  func.return
}
// CHECK:         npu_task.launch @neg_0 on 1 ins
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 1{{$}}
// CHECK:         npu_task.wait %[[E0]] on 0{{$}}
// CHECK-NEXT:    npu_task.launch @matmul_0 on 0 ins
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 0{{$}}
// CHECK-NEXT:    npu_task.launch @neg_0 on 1 ins(%0 :
// CHECK-NEXT:    npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:    npu_task.launch @neg_0 on 1 ins(%x :

// -----

// Branches and loops are barriers: no event crosses them, ids start again. A loop's argument is the
// carried buffer.
npu_task.kernel @matmul_0 on cube {
^bb0(%0: tensor<2x2xf32>):
  %1 = graph.matmul %0, %0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  npu_task.return %1 : tensor<2x2xf32>
}
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<2x2xf32>):
  %1 = graph.neg %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  npu_task.return %1 : tensor<2x2xf32>
}
func.func @main(%x: memref<2x2xf32, "hbm">, %c: memref<i1, "hbm">) {
  %0 = memref.alloc() : memref<2x2xf32, "hbm">
  %1 = memref.alloc() : memref<2x2xf32, "hbm">
  npu_task.launch @matmul_0 ins(%x : memref<2x2xf32, "hbm">) outs(%0 : memref<2x2xf32, "hbm">)
  npu_task.if %c : memref<i1, "hbm"> outs(%1 : memref<2x2xf32, "hbm">) order [1] {
    npu_task.launch @neg_0 ins(%0 : memref<2x2xf32, "hbm">) outs(%1 : memref<2x2xf32, "hbm">)
    npu_task.yield %1 : memref<2x2xf32, "hbm">
  } else {
    npu_task.yield %0 : memref<2x2xf32, "hbm">
  }
  npu_task.loop while %c : memref<i1, "hbm"> carried(%1 : memref<2x2xf32, "hbm">) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %y: memref<2x2xf32, "hbm">):
    %2 = memref.alloc() : memref<2x2xf32, "hbm">
    npu_task.launch @neg_0 ins(%y : memref<2x2xf32, "hbm">) outs(%2 : memref<2x2xf32, "hbm">)
    npu_task.launch @matmul_0 ins(%2 : memref<2x2xf32, "hbm">) outs(%1 : memref<2x2xf32, "hbm">)
    npu_task.launch @neg_0 ins(%y : memref<2x2xf32, "hbm">) outs(%2 : memref<2x2xf32, "hbm">)
    npu_task.yield %go, %2 : memref<i1, "hbm">, memref<2x2xf32, "hbm">
  }
  npu_task.launch @matmul_0 ins(%1 : memref<2x2xf32, "hbm">) outs(%0 : memref<2x2xf32, "hbm">)
  func.return
}
// CHECK:       func.func @main({{.*}} npu_task.events = 1 : i64}
// CHECK:         npu_task.launch @matmul_0 on 0 ins
// CHECK-NEXT:    npu_task.if
// CHECK-NEXT:      npu_task.launch @neg_0 on 1 ins
// CHECK-NEXT:      npu_task.yield
// CHECK:         npu_task.loop
// CHECK:           npu_task.launch @neg_0 on 1 ins(%y :
// CHECK-NEXT:      %[[E0:.*]] = npu_task.record 0 on 1{{$}}
// CHECK-NEXT:      npu_task.wait %[[E0]] on 0{{$}}
// CHECK-NEXT:      npu_task.launch @matmul_0 on 0 ins
// CHECK-NEXT:      %[[E0:.*]] = npu_task.record 0 on 0{{$}}
// CHECK-NEXT:      npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:      npu_task.launch @neg_0 on 1 ins(%y :
// CHECK-NEXT:      npu_task.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    npu_task.launch @matmul_0 on 0 ins

// -----

// Constants are never written; buffers of dynamic shape depend on what makes them.
npu_task.kernel @add_0 on vector {
^bb0(%0: tensor<?xf32>, %1: tensor<1xf32>):
  %2 = graph.add %0, %1 : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
  npu_task.return %2 : tensor<?xf32>
}
func.func @main(%x: memref<?xf32, "host">) -> memref<?xf32, "host"> {
  %0 = npu_task.transfer %x : memref<?xf32, "host"> to memref<?xf32, "hbm">
  %w = npu_task.constant #graph.weight<"w"> as memref<1xf32, "hbm">
  %1 = npu_task.launch @add_0 ins(%0, %w : memref<?xf32, "hbm">, memref<1xf32, "hbm">) -> memref<?xf32, "hbm">
  %2 = npu_task.transfer %1 : memref<?xf32, "hbm"> to memref<?xf32, "host">
  func.return %2 : memref<?xf32, "host">
}
// CHECK:         npu_task.transfer %x on 2 :
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 2{{$}}
// CHECK-NEXT:    npu_task.constant
// CHECK-NEXT:    npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:    npu_task.launch @add_0 on 1 ins
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 1{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 3{{$}}
// CHECK-NEXT:    npu_task.transfer {{.*}} on 3 :
