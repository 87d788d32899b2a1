// RUN: ge-compile %s --target 910_merged -o %t.mlir
// RUN: ge-opt %t.mlir -p 'bind-dims{dims="batch=6"},verify-level{level=buffers}' | filecheck %s
// RUN: ge-opt %t.mlir -p 'bind-dims{shapes="x=6x64"}' | filecheck %s
// RUN: ge-run %t.mlir --dim batch=6 --random-weights --poison --outputs %t.npz
// RUN: ge-run %t.mlir --no-static-shape --dim batch=6 --random-weights | filecheck %s --check-prefix=NUMBERS
// RUN: ge-run %t.mlir --dim batch=6 --random-weights --sanitize 2>/dev/null | filecheck %s --check-prefix=NUMBERS
// RUN: ge-run %t.mlir --dim batch=6 --timing-only 2>&1 | filecheck %s --check-prefix=TIME
// RUN: ge-check %t.mlir | filecheck %s --check-prefix=OPEN
// RUN: ge-check %t.mlir --dim batch=1..2 | filecheck %s --check-prefix=RANGE
// RUN: ge-check %t.mlir --dim batch=1..2000 | filecheck %s --check-prefix=MANY
// RUN: not ge-check %t.mlir --every-size 2>&1 | filecheck %s --check-prefix=WHICH
// RUN: not ge-check %t.mlir --dim rows=1 2>&1 | filecheck %s --check-prefix=NAME

// OPEN-NOT: optimal
// OPEN:     nothing is proved of the memory of {{[0-9]+}} tensors whose size is known at run time
// RANGE:    proved at all 2 sizes of batch=1..2: arena of at most {{[0-9]+}} bytes
// MANY:     proved unbound (--no-static-shape): {{[0-9]+}} tensors lie in {{[0-9]+}} bytes at all 2000 sizes of batch=1..2000; proved as bound programs at the ends of the ranges only: arena
// WHICH:    error: --every-size needs a range of sizes
// NAME:     error: there is no dimension 'rows'; the program has 'batch'

// A shape that is computed: its kernel goes, and views and matmul take static types. The batch is
// an output of the model too.

// CHECK-NOT:  on host
// CHECK:      npu_task.kernel @linear_0 on cube {
// CHECK:      ^bb0(%0: tensor<6x64xf32>, %1: tensor<64x32xf32>):
// CHECK:      func.func @main(%x: memref<6x64xf32, "host"> {graph.name = "x"})
// CHECK-SAME:   attributes {npu_task.target = "910_merged"}
// CHECK-NEXT:   [[X:%.*]] = memref.alloc() {npu_task.io} : memref<6x64xf32, "hbm">
// CHECK-NEXT:   npu_task.copy %x to [[X]] :
// CHECK:        [[Y:%.*]] = memref.alloc() {npu_task.io} : memref<6x32xf32, "hbm">
// CHECK:        npu_task.launch @linear_0 ins([[X]], {{.*}} outs([[Y]] :
// CHECK:        [[V:%.*]] = memref.reinterpret_cast [[Y]] to offset: [0], sizes: [6, 2, 16]
// CHECK:        npu_task.copy [[V]] to
// CHECK:        [[N:%.*]] = npu_task.constant dense<6> : tensor<1xi64>
// CHECK:        npu_task.copy [[N]] to

// NUMBERS:      y: float32[6, 2, 16]
// NUMBERS-NEXT: n: int64[1] = 6{{$}}
// TIME:     latency {{.*}} on 910_merged (idealised: no such chip), simulated

func.func @main(%x: tensor<?x64xf32> {graph.name = "x", graph.dims = ["batch", ""]})
    -> (tensor<?x2x16xf32> {graph.name = "y"}, tensor<1xi64> {graph.name = "n"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %two = graph.constant dense<[2, -1]> : tensor<2xi64>
  %n = graph.shape_of %x end 1 : (tensor<?x64xf32>) -> tensor<1xi64>
  %s = graph.concat %n, %two axis 0 : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64>
  %0 = graph.matmul %x, %w : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %1 = graph.relu %0 : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = graph.reshape %1 shape %s : (tensor<?x32xf32>, tensor<3xi64>) -> tensor<?x2x16xf32>
  func.return %y, %n : tensor<?x2x16xf32>, tensor<1xi64>
}
