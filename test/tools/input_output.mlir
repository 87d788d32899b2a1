// RUN: ge-opt - < %s | filecheck %s
// RUN: cat %s | ge-opt | filecheck %s
// RUN: cp %s %t.txt
// RUN: ge-opt %t.txt | filecheck %s
// RUN: rm -rf %t.d
// RUN: mkdir %t.d
// RUN: ge-opt %s -o %t.d/out.mlir 2>&1 | filecheck %s --check-prefix=NOTHING --allow-empty
// RUN: filecheck %s < %t.d/out.mlir
// RUN: ls -A %t.d | filecheck %s --check-prefix=FILES

// An output is written completely or not at all.
// RUN: echo old > %t.d/out.mlir
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-fail -o %t.d/out.mlir
// RUN: filecheck %s --check-prefix=OLD < %t.d/out.mlir
// RUN: ls -A %t.d | filecheck %s --check-prefix=FILES
// RUN: not ge-opt %s -o %t.d/none/out.mlir 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: not ge-opt %s -o %t.d 2>&1 | filecheck %s --check-prefix=ISFOLDER

// NOTHING-NOT: {{.}}
// FILES:       out.mlir
// FILES-NOT:   out
// OLD:         old
// CHECK: func.func private @f()
// FOLDER: ge-opt: error: cannot write '{{.*}}none/out.mlir': No such file or directory
// ISFOLDER: ge-opt: error: cannot write '{{.*}}': it is a folder

func.func private @f() -> ()
