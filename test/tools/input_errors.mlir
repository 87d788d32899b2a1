// What cannot be read at all.
// RUN: not ge-opt %t.none.mlir 2>&1 | filecheck %s --check-prefix=NONE
// NONE: ge-opt: error: cannot open '{{.*}}.none.mlir': No such file or directory
// RUN: not ge-opt %S 2>&1 | filecheck %s --check-prefix=FOLDER
// FOLDER: {{.*}}tools: error: this is not a file; - reads standard input
// RUN: not ge-opt %models/if_cond.tiny.onnx 2>&1 | filecheck %s --check-prefix=ONNX
// ONNX: if_cond.tiny.onnx:{{[0-9]+:[0-9]+}}: error: byte 0x{{..}} is not UTF-8 text; an ONNX model is read by ge-import
// RUN: printf '' | not ge-opt 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: <stdin>:1:1: error: there is no operation
// RUN: printf '// a comment\n' | not ge-opt - 2>&1 | filecheck %s --check-prefix=EMPTY
// RUN: printf 'ML\357R\007' | not ge-opt - 2>&1 | filecheck %s --check-prefix=BYTECODE
// BYTECODE: <stdin>: error: this is MLIR bytecode; convert it to text with mlir-opt
// RUN: printf 'func.func @f() {\n  "test.op"() {a = "\303\050"} : () -> ()\n' | not ge-opt - 2>&1 | filecheck %s --check-prefix=UTF8
// UTF8: <stdin>:2:21: error: byte 0xc3 is not UTF-8 text
// RUN: printf 'func.func private @f(memref<4xf32, #npu_task<space hbm>>)\n' | not ge-opt - 2>&1 | filecheck %s --check-prefix=SPACE
// SPACE: <stdin>:1:36: error: 'npu_task.space' is now written as a string: memref<4xf32, "hbm">
// RUN: printf 'npu_task.record 0 on 1\nnpu_task.wait 0 on 2\n' | not ge-opt - 2>&1 | filecheck %s --check-prefix=WAIT
// WAIT: <stdin>:2:15: error: an event is the result of its record: %event = npu_task.record 0 on 2, npu_task.wait %event on 1
