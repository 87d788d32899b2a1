// RUN: ge-opt %s --split-input-file -p assign-streams,verify-schedule | filecheck %s
// RUN: ge-opt %s --split-input-file -p 'assign-streams{memory-limit=1000000000},verify-schedule' | filecheck %s --check-prefix=MORE

// The second product is computed while the vector cores work on the first one: it is issued before
// the first reduction. What is read last comes last to the host.
npu_task.kernel @matmul on cube tiling <[256, 128, 64] blocks 24 buffers 2> {
^bb0(%0: tensor<2048x2048xf16>):
  %1 = graph.matmul %0, %0 : (tensor<2048x2048xf16>, tensor<2048x2048xf16>) -> tensor<2048x2048xf16>
  npu_task.return %1 : tensor<2048x2048xf16>
}
npu_task.kernel @exp on vector tiling <[4096] blocks 48 buffers 2> {
^bb0(%0: tensor<2048x2048xf16>):
  %1 = graph.exp %0 : (tensor<2048x2048xf16>) -> tensor<2048x2048xf16>
  npu_task.return %1 : tensor<2048x2048xf16>
}
npu_task.kernel @add on vector tiling <[4096] blocks 48 buffers 2> {
^bb0(%0: tensor<2048x2048xf16>, %1: tensor<2048x2048xf16>):
  %2 = graph.add %0, %1 : (tensor<2048x2048xf16>, tensor<2048x2048xf16>) -> tensor<2048x2048xf16>
  npu_task.return %2 : tensor<2048x2048xf16>
}
func.func @main(%x: memref<2048x2048xf16, "hbm">) -> (memref<2048x2048xf16, "host">, memref<2048x2048xf16, "host">) {
  %a = memref.alloc() : memref<2048x2048xf16, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<2048x2048xf16, "hbm">
  %c = memref.alloc() : memref<2048x2048xf16, "hbm">
  %d = memref.alloc() : memref<2048x2048xf16, "hbm">
  %e = memref.alloc() {npu_task.io} : memref<2048x2048xf16, "hbm">
  npu_task.launch @matmul ins(%x : memref<2048x2048xf16, "hbm">) outs(%a : memref<2048x2048xf16, "hbm">)
  npu_task.launch @exp ins(%a : memref<2048x2048xf16, "hbm">) outs(%b : memref<2048x2048xf16, "hbm">)
  npu_task.launch @matmul ins(%x : memref<2048x2048xf16, "hbm">) outs(%c : memref<2048x2048xf16, "hbm">)
  npu_task.launch @exp ins(%c : memref<2048x2048xf16, "hbm">) outs(%d : memref<2048x2048xf16, "hbm">)
  npu_task.launch @add ins(%b, %d : memref<2048x2048xf16, "hbm">, memref<2048x2048xf16, "hbm">) outs(%e : memref<2048x2048xf16, "hbm">)
  %f = memref.alloc() : memref<2048x2048xf16, "host">
  npu_task.copy %e to %f : memref<2048x2048xf16, "hbm"> to memref<2048x2048xf16, "host">
  %g = memref.alloc() : memref<2048x2048xf16, "host">
  npu_task.copy %b to %g : memref<2048x2048xf16, "hbm"> to memref<2048x2048xf16, "host">
  func.return %f, %g : memref<2048x2048xf16, "host">, memref<2048x2048xf16, "host">
}
// CHECK-LABEL: func.func @main(
// CHECK:         npu_task.launch @matmul on 0 ins
// CHECK:         npu_task.launch @matmul on 5 ins
// CHECK:         npu_task.launch @exp on 1 ins(%a :
// CHECK:         npu_task.copy %b to %g on 3 :
// CHECK:         npu_task.launch @exp on 1 ins(%c :
// CHECK-NEXT:    %e = memref.alloc
// CHECK-NEXT:    npu_task.launch @add on 1 ins
// CHECK:         npu_task.copy %e to %f on

// -----

// Under the program's own peak (one product and its sum) the second product has to wait until the
// first one is not needed any more; with more memory it does not.
npu_task.kernel @matmul on cube tiling <[256, 128, 64] blocks 24 buffers 2> {
^bb0(%0: tensor<2048x2048xf16>):
  %1 = graph.matmul %0, %0 : (tensor<2048x2048xf16>, tensor<2048x2048xf16>) -> tensor<2048x2048xf16>
  npu_task.return %1 : tensor<2048x2048xf16>
}
npu_task.kernel @sum on vector tiling <[4096] blocks 48 buffers 2> {
^bb0(%0: tensor<2048x2048xf16>):
  %1 = graph.reduce sum %0 axes [1] : (tensor<2048x2048xf16>) -> tensor<2048x1xf16>
  npu_task.return %1 : tensor<2048x1xf16>
}
func.func @main(%x: memref<2048x2048xf16, "hbm">) {
  %a = memref.alloc() : memref<2048x2048xf16, "hbm">
  %b = memref.alloc() {npu_task.io} : memref<2048x1xf16, "hbm">
  %c = memref.alloc() : memref<2048x2048xf16, "hbm">
  %d = memref.alloc() {npu_task.io} : memref<2048x1xf16, "hbm">
  npu_task.launch @matmul ins(%x : memref<2048x2048xf16, "hbm">) outs(%a : memref<2048x2048xf16, "hbm">)
  npu_task.launch @sum ins(%a : memref<2048x2048xf16, "hbm">) outs(%b : memref<2048x1xf16, "hbm">)
  npu_task.launch @matmul ins(%x : memref<2048x2048xf16, "hbm">) outs(%c : memref<2048x2048xf16, "hbm">)
  npu_task.launch @sum ins(%c : memref<2048x2048xf16, "hbm">) outs(%d : memref<2048x1xf16, "hbm">)
  func.return
}
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    npu_task.cap_bytes = 8388608 :
// CHECK:         npu_task.launch @matmul on 0 ins
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 0{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 1{{$}}
// CHECK-NEXT:    npu_task.launch @sum on 1 ins
// CHECK-NEXT:    %[[E0:.*]] = npu_task.record 0 on 1{{$}}
// CHECK-NEXT:    npu_task.wait %[[E0]] on 0{{$}}
// CHECK-NEXT:    npu_task.launch @matmul on 0 ins
// MORE-LABEL:  func.func @main(
// MORE-LABEL:  func.func @main(
// MORE-SAME:     npu_task.cap_bytes = 1000000000 :
// MORE:          npu_task.launch @matmul on 0 ins
// MORE:          npu_task.launch @matmul on 5 ins
// MORE:          npu_task.launch @sum on 1 ins(%a :
// MORE:          npu_task.launch @sum on 1 ins(%c :
