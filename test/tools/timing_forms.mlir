// RUN: ge-opt %s -p 'func.func(cse,canonicalize),cse' --mlir-timing 2>&1 >/dev/null | filecheck %s --strict-whitespace
// RUN: ge-opt %s -p 'func.func(cse,canonicalize),cse' --mlir-timing --mlir-timing-display=list 2>&1 >/dev/null | filecheck %s --check-prefix=LIST
// RUN: ge-opt %s -p 'func.func(cse)' -mlir-timing -mlir-output-format=json 2>&1 >/dev/null | filecheck %s --check-prefix=JSON
// RUN: ge-opt %s --cse --mlir-timing-display=list --mlir-disable-threading 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not ge-opt %s --mlir-timing --mlir-timing-display=table 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not ge-opt %s --mlir-timing --mlir-output-format=csv 2>&1 | filecheck %s --check-prefix=FORMAT

// CHECK:      %)             'func.func' Pipeline
// CHECK-NEXT: %)          5    'cse' Pass
// CHECK-NEXT: %)                 (verify)
// CHECK-NEXT: %)          4    'canonicalize' Pass
// CHECK-NEXT: %)                 (verify)
// CHECK-NEXT: %)          4  'cse' Pass
// CHECK-NEXT: %)               (verify)

// LIST-DAG: %) 'cse' Pass
// LIST-DAG: %) 'func.func' Pipeline
// LIST:     %) Rest
// LIST:     (100.0%) Total

// JSON:      [
// JSON-NEXT: {"wall": {"duration": {{.*}}, "percentage": {{.*}}}, "ops": 5, "name": "Parser"},
// JSON:      "name": "'func.func' Pipeline", "passes": [{{.*}}"name": "'cse' Pass", "passes": [{{.*}}"name": "(verify)"}]}]},
// JSON:      "name": "Total"}
// JSON-NEXT: ]

// NONE-NOT: Execution

// WRONG: ge-opt: error: argument --mlir-timing-display: invalid choice: 'table' (choose from {{.*}}list
// FORMAT: ge-opt: error: argument --mlir-output-format: invalid choice: 'csv'

func.func @f() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.addi %0, %0 : i32
  func.return %1 : i32
}
