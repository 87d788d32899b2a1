// What is not a model, and outputs that cannot be written: one line, status 1.
// RUN: not ge-import %t.none.onnx 2>&1 | filecheck %s --check-prefix=NONE
// NONE: .none.onnx: error: cannot read the model: No such file or directory
// RUN: not ge-import %S 2>&1 | filecheck %s --check-prefix=FOLDER
// FOLDER: error: this is not a file
// RUN: not ge-import %s 2>&1 | filecheck %s --check-prefix=TEXT
// TEXT: input_errors.mlir: error: this is not an ONNX model, or it is damaged: it does not parse as protobuf
// RUN: not ge-import /dev/null 2>&1 | filecheck %s --check-prefix=DEVICE
// DEVICE: /dev/null: error: this is not a file
// RUN: not ge-import %models/if_ts.tiny.onnx -o %t.none/x.mlir 2>&1 | filecheck %s --check-prefix=OUTPUT
// OUTPUT: error: cannot write '{{.*}}x.mlir': No such file or directory
// RUN: not ge-import %models/if_ts.tiny.onnx -o %S 2>&1 | filecheck %s --check-prefix=OUTFOLDER
// OUTFOLDER: error: cannot write '{{.*}}': it is a folder
// RUN: not ge-import %models/if_ts.tiny.onnx -o /dev/full 2>&1 | filecheck %s --check-prefix=FULL
// FULL: error: cannot write '/dev/full': No space left on device
