// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,overwrite-operands,verify-level{level=buffers}' | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,overwrite-operands,assign-streams,plan-memory,verify-level{level=program},verify-plan' | filecheck %s --check-prefix=PLAN
// RUN: ge-opt %s --split-input-file -p 'lower-to-tasks,bufferize-tasks,overwrite-operands{inputs=true},assign-streams,plan-memory,verify-plan' | filecheck %s --check-prefix=INPUTS

// A residual chain stays in the first buffer; the chain that ends in an output is in the output's.
// An input of the model is kept, unless it may be overwritten: then it is the output.
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.tanh %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = graph.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %3 = graph.softmax %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %3 : tensor<8x64xf32>
}
// CHECK:       %0 = memref.alloc() {npu_task.io}
// CHECK:       %1 = memref.alloc() {npu_task.io} : memref<8x64xf32, "hbm">
// CHECK-NEXT:  npu_task.launch @exp_0 ins(%0 : {{.*}}) outs(%1 :
// CHECK-NEXT:  %2 = memref.alloc() : memref<8x64xf32, "hbm">
// CHECK-NEXT:  npu_task.launch @tanh_0 ins(%1 : {{.*}}) outs(%2 :
// CHECK-NEXT:  npu_task.launch @add_0 ins(%1, %2 : {{.*}}) outs(%1 :
// CHECK-NEXT:  npu_task.launch @softmax_0 ins(%1 : {{.*}}) outs(%1 :
// CHECK-NEXT:  %3 = memref.alloc() : memref<8x64xf32, "host">
// CHECK-NEXT:  npu_task.copy %1 to %3 :
// PLAN:        npu_task.arena_bytes = 2048 : i64, {{.*}}npu_task.io_bytes = 4096 : i64,
// INPUTS:      npu_task.arena_bytes = 2048 : i64, {{.*}}npu_task.io_bytes = 2048 : i64,

// -----

// Not in place: another shape of the same bytes that moves (transpose); operands that are used
// later, that are broadcast, that have narrower elements, that are constants.
func.func @main(%x: tensor<8x8xf32>, %r: tensor<1x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf16>) {
  %w = graph.constant #graph.weight<"w"> : tensor<8x8xf32>
  %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.tanh %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.exp %r : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %4 = graph.add %1, %3 : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
  %5 = graph.matmul %4, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = graph.mul %w, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = graph.cast %6 to f16 : (tensor<8x8xf32>) -> tensor<8x8xf16>
  func.return %5, %7 : tensor<8x8xf32>, tensor<8x8xf16>
}
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[A:%.*]] :
// CHECK:       npu_task.launch @transpose_0 ins([[A]] : {{.*}}) outs([[B:%[0-9]*]] :
// CHECK:       [[C:%.*]] = memref.alloc()
// CHECK-NEXT:  npu_task.launch @tanh_0 ins([[B]] : {{.*}}) outs([[C]] :
// CHECK:       [[D:%.*]] = memref.alloc() : memref<1x8xf32,
// CHECK-NEXT:  npu_task.launch @exp_1 ins({{.*}}) outs([[D]] :
// CHECK-NEXT:  npu_task.launch @add_0 ins([[B]], [[D]] : {{.*}}) outs([[B]] :
// CHECK-NEXT:  [[E:%.*]] = memref.alloc() {npu_task.io}
// CHECK-NEXT:  npu_task.launch @matmul_0 ins([[B]], [[C]] : {{.*}}) outs([[E]] :
// CHECK-NEXT:  [[F:%.*]] = memref.alloc()
// CHECK-NEXT:  npu_task.launch @mul_0 ins(%w : {{.*}}) outs([[F]] :
// CHECK-NEXT:  [[G:%.*]] = memref.alloc() {npu_task.io} : memref<8x8xf16,
// CHECK-NEXT:  npu_task.launch @cast_0 ins([[F]] : {{.*}}) outs([[G]] :

// -----

// The buffer of a view is overwritten through the view if that is all of it; a part is not.
func.func @main(%x: tensor<4x6xf32>) -> (tensor<24xf32>, tensor<12xf32>) {
  %0 = graph.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.reshape %0 shape [24] : (tensor<4x6xf32>) -> tensor<24xf32>
  %2 = graph.tanh %1 : (tensor<24xf32>) -> tensor<24xf32>
  %3 = graph.neg %2 : (tensor<24xf32>) -> tensor<24xf32>
  %4 = graph.slice %2 starts [6] ends [18] axes [0] : (tensor<24xf32>) -> tensor<12xf32>
  %5 = graph.neg %4 : (tensor<12xf32>) -> tensor<12xf32>
  func.return %3, %5 : tensor<24xf32>, tensor<12xf32>
}
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[A:%.*]] : memref<4x6xf32,
// CHECK-NEXT:  [[B:%.*]] = memref.reinterpret_cast [[A]] to offset: [0], sizes: [24]
// CHECK-NEXT:  npu_task.launch @tanh_0 ins([[B]] : {{.*}}) outs([[B]] :
// CHECK-NEXT:  [[D:%.*]] = memref.alloc() {npu_task.io} : memref<24xf32,
// CHECK-NEXT:  npu_task.launch @neg_0 ins([[B]] : {{.*}}) outs([[D]] :
// CHECK-NEXT:  [[E:%.*]] = memref.reinterpret_cast [[A]] to offset: [6], sizes: [12]
// CHECK-NEXT:  [[F:%.*]] = memref.alloc() {npu_task.io} : memref<12xf32,
// CHECK-NEXT:  npu_task.launch @neg_1 ins([[E]] : {{.*}}) outs([[F]] :

// -----

// A loop: the initial value is made in the carried buffer, and each round overwrites it. Where the
// old value is read after the new one was computed, the new one is copied.
func.func @main(%x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %2, %3 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %0 : tensor<4xf32>, %b = %1 : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %4 = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    %5 = graph.exp %b : (tensor<4xf32>) -> tensor<4xf32>
    %6 = graph.add %5, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = graph.sinh %6 : (tensor<4xf32>) -> tensor<4xf32>
    %8 = graph.mul %4, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %8, %5 : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
// CHECK:       npu_task.launch @exp_0 ins({{.*}}) outs([[P:%.*]] :
// CHECK:       npu_task.launch @tanh_0 ins({{.*}}) outs([[Q:%.*]] :
// CHECK-NEXT:  npu_task.loop {{.*}} carried([[P]], [[Q]] :
// CHECK-NEXT:  ^bb0(%i: {{.*}}, %go: {{.*}}, %a: {{.*}}, %b:
// CHECK:       npu_task.launch @exp_0 ins(%b : {{.*}}) outs([[E:%.*]] :
// CHECK:       npu_task.launch @mul_0 ins({{.*}}) outs(%a :
// CHECK-NEXT:  npu_task.yield %go, %a, [[E]] :

// -----

// Rows are appended where the cache was; a cache that is needed later is copied, as programs write
// the rows alone.
func.func @main(%c: tensor<8x64xf32>, %r: tensor<1x64xf32>, %n: tensor<i64>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %0 = graph.exp %c : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.append %0, %r at %n axis 0 : (tensor<8x64xf32>, tensor<1x64xf32>, tensor<i64>) -> tensor<8x64xf32>
  %2 = graph.append %c, %r at %n axis 0 : (tensor<8x64xf32>, tensor<1x64xf32>, tensor<i64>) -> tensor<8x64xf32>
  func.return %1, %2 : tensor<8x64xf32>, tensor<8x64xf32>
}
// CHECK:       %[[C:.*]] = memref.alloc() {npu_task.io} : memref<8x64xf32,
// CHECK:       npu_task.launch @append_0 ins(%[[E:.*]], %{{.*}}, %{{.*}} : {{.*}}) outs(%[[E]] :
// CHECK:       npu_task.copy %[[C]] to %[[A:.*]] : memref<8x64xf32, "hbm">
// CHECK-NEXT:  npu_task.launch @append_0 ins(%[[A]], %{{.*}}, %{{.*}} : {{.*}}) outs(%[[A]] :
