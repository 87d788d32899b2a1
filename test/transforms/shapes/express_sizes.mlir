// RUN: ge-opt %s -p express-sizes | filecheck %s

// CHECK:      npu_task.transfer %x {npu_task.bytes = ["256 * batch"]}
// CHECK-NEXT: npu_task.launch @join_0 ins(%0, %0 {{.*}}) {npu_task.bytes = ["512 * batch"]}
// CHECK-NEXT: npu_task.launch @find_0 ins(%1 {{.*}}) {npu_task.bytes = ["at most 2048 * batch"]}

// What is of a known size, or on the host, states nothing; "" is what nothing is known of.

// CHECK-NEXT: memref.alloc
// CHECK-NEXT: npu_task.launch @known_0 ins(%k : {{[^{]*$}}
// CHECK-NEXT: npu_task.if
// CHECK-NEXT: npu_task.launch @join_0 ins(%0, %1 : {{[^{]*$}}
// CHECK:      npu_task.launch @join_0 ins(%4, %4 : {{.*}}) {npu_task.bytes = [""]}
// CHECK-NEXT: npu_task.transfer %6 : {{[^{]*$}}

npu_task.kernel @join_0 on vector {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x64xf32>):
  %0 = graph.concat %a, %b axis 0 : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  npu_task.return %0 : tensor<?x64xf32>
}
npu_task.kernel @find_0 on vector {
^bb0(%a: tensor<?x64xf32>):
  %0 = graph.nonzero %a : (tensor<?x64xf32>) -> tensor<2x?xi64>
  npu_task.return %0 : tensor<2x?xi64>
}
npu_task.kernel @known_0 on vector {
^bb0(%a: tensor<4xf32>):
  %0 = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %0 : tensor<4xf32>
}
func.func @main(
    %x: memref<?x64xf32, "host"> {graph.name = "x", graph.dims = ["batch", ""]},
    %k: memref<4xf32, "hbm">, %c: memref<i1, "hbm">)
    -> memref<?x64xf32, "host"> {
  %0 = npu_task.transfer %x : memref<?x64xf32, "host"> to memref<?x64xf32, "hbm">
  %1 = npu_task.launch @join_0 ins(%0, %0 : memref<?x64xf32, "hbm">, memref<?x64xf32, "hbm">) -> memref<?x64xf32, "hbm">
  %2 = npu_task.launch @find_0 ins(%1 : memref<?x64xf32, "hbm">) -> memref<2x?xi64, "hbm">
  %3 = memref.alloc() : memref<4xf32, "hbm">
  npu_task.launch @known_0 ins(%k : memref<4xf32, "hbm">) outs(%3 : memref<4xf32, "hbm">)
  %4 = npu_task.if %c : memref<i1, "hbm"> -> memref<?x64xf32, "hbm"> order [0] {
    %6 = npu_task.launch @join_0 ins(%0, %1 : memref<?x64xf32, "hbm">, memref<?x64xf32, "hbm">) -> memref<?x64xf32, "hbm">
    npu_task.yield %6 : memref<?x64xf32, "hbm">
  } else {
    npu_task.yield %0 : memref<?x64xf32, "hbm">
  }
  %5 = npu_task.launch @join_0 ins(%4, %4 : memref<?x64xf32, "hbm">, memref<?x64xf32, "hbm">) -> memref<?x64xf32, "hbm">
  %7 = npu_task.transfer %5 : memref<?x64xf32, "hbm"> to memref<?x64xf32, "host">
  func.return %7 : memref<?x64xf32, "host">
}
