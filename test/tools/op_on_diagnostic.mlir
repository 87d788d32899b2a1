// RUN: not ge-opt %s 2>&1 | filecheck %s --check-prefix=PLAIN
// RUN: not ge-opt %s --mlir-print-op-on-diagnostic 2>&1 | filecheck %s
// RUN: not ge-opt %s --mlir-print-op-on-diagnostic=false 2>&1 | filecheck %s --check-prefix=PLAIN
// RUN: not ge-opt %s --mlir-print-stacktrace-on-diagnostic 2>&1 | filecheck %s --check-prefix=TRACE
// RUN: not ge-opt %s --mlir-print-op-on-diagnostic=often 2>&1 | filecheck %s --check-prefix=WRONG

// PLAIN:     op_on_diagnostic.mlir:{{[0-9]+}}:3: error: 'func.return' op
// PLAIN-NOT: see current operation
// CHECK:     op_on_diagnostic.mlir:{{[0-9]+}}:3: error: 'func.return' op
// CHECK:     note: see current operation: "func.return"(%{{.*}}) : (i32) -> ()
// TRACE:     Traceback (most recent call last):
// WRONG:     ge-opt: error: argument --mlir-print-op-on-diagnostic: 0 or 1, not 'often'

func.func @f(%x: i32) -> i64 {
  func.return %x : i32
}
