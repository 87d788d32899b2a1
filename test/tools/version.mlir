// RUN: ge-opt --version | filecheck %s
// RUN: ge-opt --help | filecheck %s --check-prefix=HELP
// CHECK: ge-opt {{[0-9.]+}} (xDSL {{[0-9.]+}})
// HELP:  usage: ge-opt
// HELP:  --mlir-print-ir-after-all
// HELP:  Each pass is a flag too
