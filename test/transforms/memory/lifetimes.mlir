// Lifetimes are bounded by happens-before: asynchronous copies, branches on streams, ifs and loops.
// RUN: ge-opt %s --split-input-file -p 'plan-memory{print-liveness=true},verify-plan' -o %t.mlir 2>&1 | filecheck %s
// RUN: cat %t.mlir | filecheck %s --check-prefix=PROG

// The copy of %b to the host runs beside stream 0, which does not wait for it: %b lives until the copy is
// done, so %d has the bytes of %a.
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %a 512 0 0  {{.*}}  1 copy {{.*}}  2 @softmax {{.*}}
// CHECK-NEXT:  %b 512 512 0  {{.*}}  2 @softmax {{.*}}  4 @softmax {{.*}}
// CHECK-NEXT:  %d 512 0 0  {{.*}}  4 @softmax {{.*}}  5 copy {{.*}}
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 2 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %a = memref.alloc() : memref<128xf32, "hbm">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %d = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.launch @softmax on 0 ins(%a : memref<128xf32, "hbm">) outs(%b : memref<128xf32, "hbm">)
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.copy %b to %y on 1 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  npu_task.launch @softmax on 0 ins(%b : memref<128xf32, "hbm">) outs(%d : memref<128xf32, "hbm">)
  npu_task.copy %d to %z on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}

// -----

// Behind the event that the copy is done, its bytes are free.
// PROG-LABEL:  {{^}}// -----
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %b 512 0 0  {{.*}}  1 copy {{.*}}  2 copy {{.*}}
// CHECK-NEXT:  %c 512 0 0  {{.*}}  3 copy {{.*}}  4 @softmax {{.*}}
// CHECK-NEXT:  %d 512 512 0  {{.*}}  4 @softmax {{.*}}  5 copy {{.*}}
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 2 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %c = memref.alloc() : memref<128xf32, "hbm">
  %d = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %b on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.copy %b to %y on 1 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  %e1 = npu_task.record 1 on 1
  npu_task.wait %e1 on 0
  npu_task.copy %x to %c on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.launch @softmax on 0 ins(%c : memref<128xf32, "hbm">) outs(%d : memref<128xf32, "hbm">)
  npu_task.copy %d to %z on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}

// -----

// Without one, only the order of the program keeps %b and %c apart: that they have the same bytes takes an
// event more, for which the writer of %c waits.
// PROG-LABEL:  {{^}}// -----
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %b 512 0 0  {{.*}}  1 copy {{.*}}  2 copy {{.*}}
// CHECK-NEXT:  %c 512 0 0  {{.*}}  3 copy {{.*}}  4 copy {{.*}}
// PROG:      npu_task.copy %b to %y on 1 :
// PROG-NEXT: [[DONE:%.*]] = npu_task.record {{[0-9]+}} on 1{{$}}
// PROG-NEXT: npu_task.wait [[DONE]] on 0{{$}}
// PROG-NEXT: npu_task.copy %x to %c on 0 :
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 2 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %c = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %b on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.copy %b to %y on 1 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  npu_task.copy %x to %c on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %c to %z on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}

// -----

// Two branches read %a, each on a stream of its own: %d has its bytes when both are done.
// PROG-LABEL:  {{^}}// -----
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %a 512 0 0  {{.*}}  1 copy {{.*}}  3 @softmax {{.*}}
// CHECK-NEXT:  %b 512 512 1  {{.*}}  2 @softmax {{.*}}  5 copy {{.*}}
// CHECK-NEXT:  %c 512 1024 2  {{.*}}  3 @softmax {{.*}}  6 copy {{.*}}
// CHECK-NEXT:  %d 512 0 0  {{.*}}  4 copy {{.*}}  7 @softmax {{.*}}
// CHECK-NEXT:  %e 512 512 0  {{.*}}  7 @softmax {{.*}}  8 copy {{.*}}
// PROG:      npu_task.launch @softmax on 2 ins
// PROG:      npu_task.wait %event{{.*}} on 0{{$}}
// PROG:      npu_task.wait %event{{.*}} on 0{{$}}
// PROG:      npu_task.copy %x to %d on 0 :
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">) attributes {npu_task.streams = 3 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %a = memref.alloc() : memref<128xf32, "hbm">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %c = memref.alloc() : memref<128xf32, "hbm">
  %d = memref.alloc() : memref<128xf32, "hbm">
  %e = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  %e0 = npu_task.record 0 on 0
  npu_task.wait %e0 on 1
  npu_task.wait %e0 on 2
  npu_task.launch @softmax on 1 ins(%a : memref<128xf32, "hbm">) outs(%b : memref<128xf32, "hbm">)
  npu_task.launch @softmax on 2 ins(%a : memref<128xf32, "hbm">) outs(%c : memref<128xf32, "hbm">)
  %e1 = npu_task.record 1 on 1
  %e2 = npu_task.record 2 on 2
  npu_task.copy %x to %d on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.wait %e1 on 0
  npu_task.wait %e2 on 0
  npu_task.copy %b to %y on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  npu_task.copy %c to %z on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  npu_task.launch @softmax on 0 ins(%d : memref<128xf32, "hbm">) outs(%e : memref<128xf32, "hbm">)
  npu_task.copy %e to %z on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}

// -----

// What an if reads from outside lives through all of it (steps 3 to 7), as does its result; what is made
// in a branch lives there.
// PROG-LABEL:  {{^}}// -----
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %a 512 0 0  {{.*}}  1 copy {{.*}}  7 if {{.*}}
// CHECK-NEXT:  %b 512 512 0  {{.*}}  2 copy {{.*}}  7 if {{.*}}
// CHECK-NEXT:  %o 512 1024 all  {{.*}}  3 if {{.*}}  8 @softmax {{.*}}
// CHECK-NEXT:  %t 512 1536 0  {{.*}}  4 @softmax {{.*}}  5 yield {{.*}}
// CHECK-NEXT:  %e 512 {{[0-9]+}} 0  {{.*}}  8 @softmax {{.*}}  9 copy {{.*}}
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">, %p: memref<i1, "hbm">) attributes {npu_task.streams = 1 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %a = memref.alloc() : memref<128xf32, "hbm">
  %b = memref.alloc() : memref<128xf32, "hbm">
  %o = memref.alloc() : memref<128xf32, "hbm">
  %e = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %x to %b on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.if %p : memref<i1, "hbm"> outs(%o : memref<128xf32, "hbm">) order [1] {
    %t = memref.alloc() : memref<128xf32, "hbm">
    npu_task.launch @softmax on 0 ins(%a : memref<128xf32, "hbm">) outs(%t : memref<128xf32, "hbm">)
    npu_task.yield %t : memref<128xf32, "hbm">
  } else {
    npu_task.yield %b : memref<128xf32, "hbm">
  }
  npu_task.launch @softmax on 0 ins(%o : memref<128xf32, "hbm">) outs(%e : memref<128xf32, "hbm">)
  npu_task.copy %e to %y on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}

// -----

// A loop comes back to %k, which lives through all of it (steps 3 to 8), and to %a, which it carries; the
// values of one iteration share bytes.
// PROG-LABEL:  {{^}}// -----
// CHECK-LABEL: {{^}}buffer  bytes
// CHECK-NEXT:  %a 512 0 0  {{.*}}  1 copy {{.*}}  9 @softmax {{.*}}
// CHECK-NEXT:  %k 512 512 0  {{.*}}  2 copy {{.*}}  8 loop {{.*}}
// CHECK-NEXT:  %t 512 [[T:[0-9]+]] 0  {{.*}}  4 @softmax {{.*}}  5 @softmax {{.*}}
// CHECK-NEXT:  %u 512 {{[0-9]+}} 0  {{.*}}  5 @softmax {{.*}}  6 @softmax {{.*}}
// CHECK-NEXT:  %v 512 [[T]] 0  {{.*}}  6 @softmax {{.*}}  7 yield {{.*}}
// CHECK-NEXT:  %s 512 512 0  {{.*}}  9 @softmax {{.*}}  10 copy {{.*}}
npu_task.kernel @softmax on vector {
^bb0(%0: tensor<128xf32>):
  %1 = graph.softmax %0 : (tensor<128xf32>) -> tensor<128xf32>
  npu_task.return %1 : tensor<128xf32>
}
func.func @main(%x: memref<128xf32, "host">, %n: memref<i64, "hbm">) attributes {npu_task.streams = 1 : i64} {
  %y = memref.alloc() : memref<128xf32, "host">
  %z = memref.alloc() : memref<128xf32, "host">
  %a = memref.alloc() : memref<128xf32, "hbm">
  %k = memref.alloc() : memref<128xf32, "hbm">
  %s = memref.alloc() : memref<128xf32, "hbm">
  npu_task.copy %x to %a on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.copy %x to %k on 0 : memref<128xf32, "host"> to memref<128xf32, "hbm">
  npu_task.loop trip %n : memref<i64, "hbm"> carried(%a : memref<128xf32, "hbm">) order [1] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %go: memref<i1, "hbm">, %arg: memref<128xf32, "hbm">):
    %t = memref.alloc() : memref<128xf32, "hbm">
    %u = memref.alloc() : memref<128xf32, "hbm">
    %v = memref.alloc() : memref<128xf32, "hbm">
    npu_task.launch @softmax on 0 ins(%k : memref<128xf32, "hbm">) outs(%t : memref<128xf32, "hbm">)
    npu_task.launch @softmax on 0 ins(%t : memref<128xf32, "hbm">) outs(%u : memref<128xf32, "hbm">)
    npu_task.launch @softmax on 0 ins(%u : memref<128xf32, "hbm">) outs(%v : memref<128xf32, "hbm">)
    npu_task.yield %go, %v : memref<i1, "hbm">, memref<128xf32, "hbm">
  }
  npu_task.launch @softmax on 0 ins(%a : memref<128xf32, "hbm">) outs(%s : memref<128xf32, "hbm">)
  npu_task.copy %s to %y on 0 : memref<128xf32, "hbm"> to memref<128xf32, "host">
  func.return
}
