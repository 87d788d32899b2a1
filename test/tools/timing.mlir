// RUN: ge-opt %s --canonicalize --cse --mlir-timing 2>&1 >/dev/null | filecheck %s
// RUN: ge-opt %s --canonicalize --cse --mlir-timing 2>/dev/null | filecheck %s --check-prefix=STDOUT

// CHECK:      ... Execution time report ...
// CHECK:      Total Execution Time: {{[0-9.]+}} seconds
// CHECK:      ----Wall Time---- ---Ops--- ----Name----
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) 5 Parser
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) (verify)
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) 4 'canonicalize' Pass
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) (verify)
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) 4 'cse' Pass
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) (verify)
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) Output
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%) Rest
// CHECK-NEXT: {{[0-9.]+}} (100.0%) Total

// STDOUT-NOT: Execution
// STDOUT:     builtin.module
// STDOUT-NOT: Execution

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %0, %0 : i32
  func.return %1 : i32
}
