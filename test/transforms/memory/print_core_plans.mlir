// RUN: ge-opt %s -p 'fuse-region,lower-to-tasks,plan-core-memory{print-plans=true}' -o %t.mlir 2>&1 | filecheck %s

// CHECK:      @region_0 on vector, tiles of 1824, double-buffered: ub 37504 of 196608 bytes
// CHECK-NEXT: memory  buffer  bytes  offsets       steps
// CHECK-NEXT: ub      in0      7296  0, 7296       all
// CHECK-NEXT: ub      in1      1024  29184         all
// CHECK-NEXT: ub      op0      7296  30208         1 to 2
// CHECK-NEXT: ub      op1      7296  14592, 21888  all
func.func @main(%x: tensor<4096x256xf32>, %b: tensor<256xf32>) -> tensor<4096x256xf32> {
  %0 = graph.add %x, %b : (tensor<4096x256xf32>, tensor<256xf32>) -> tensor<4096x256xf32>
  %1 = graph.exp %0 : (tensor<4096x256xf32>) -> tensor<4096x256xf32>
  func.return %1 : tensor<4096x256xf32>
}
