// RUN: ge-opt --list-passes | filecheck %s
// RUN: ge-opt --list-passes=all | filecheck %s --check-prefix=ALL
// RUN: ge-opt --load-plugin=%S/Inputs/plugin.py --list-passes=plug-options,plug-twice | filecheck %s --check-prefix=PLUGIN --match-full-lines
// RUN: not ge-opt --list-passes=fuse-linaer 2>&1 | filecheck %s --check-prefix=UNKNOWN

// CHECK-DAG: {{^}}fuse-linear{{$}}
// CHECK-DAG: {{^}}infer-shapes{{$}}
// CHECK-NOT: {{^}}canonicalize
// CHECK:     xDSL's own passes and output formats: --list-passes=all

// ALL-DAG: {{^}}infer-shapes{{$}}
// ALL:     of xDSL (--list-passes=NAME says more):
// ALL:     canonicalize
// ALL:     output formats (--output-format): {{.*}}mlir

// PLUGIN:      plug-options (of plug-in)
// PLUGIN-NEXT:     Print its options.
// PLUGIN-NEXT:       size=<int> (required): How many bytes.
// PLUGIN-NEXT:       scale=<float> (default 1.0)
// PLUGIN-NEXT:       mode=<fast|exact> (default fast)
// PLUGIN-NEXT:       tiles=<int,...> (default none)
// PLUGIN-NEXT:       dump=<bool> (default false)
// PLUGIN-NEXT:       file=<str> (default none): Where to.
// PLUGIN-EMPTY:
// PLUGIN-NEXT: plug-twice (of plug-in)
// PLUGIN-NEXT:     Turn x + x into plug.twice.

// UNKNOWN: ge-opt: error: unknown pass 'fuse-linaer'; did you mean 'fuse-linear'?
