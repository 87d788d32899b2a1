// RUN: ge-opt %s --print-op-stats -o /dev/null 2>&1 | filecheck %s
// RUN: ge-opt %s --fuse-linear=target=910_merged --print-op-stats=json=true -o /dev/null 2>&1 | filecheck %s --check-prefix=JSON

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = graph.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.matmul %1, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %2 : tensor<4x8xf32>
}
// CHECK:      Operations encountered:
// CHECK-NEXT: -----------------------
// CHECK-NEXT:   builtin.module , 1{{$}}
// CHECK-NEXT:      func.func   , 1{{$}}
// CHECK-NEXT:      func.return , 1{{$}}
// CHECK-NEXT:     graph.matmul , 2{{$}}
// CHECK-NEXT:     graph.relu   , 1{{$}}

// JSON:      "builtin.module": 1,
// JSON-NEXT: "func.func": 1,
// JSON-NEXT: "func.return": 1,
// JSON-NEXT: "fused_op.linear": 1,
// JSON-NEXT: "fused_op.yield": 1,
// JSON-NEXT: "graph.matmul": 2,
// JSON-NEXT: "graph.relu": 1{{$}}
