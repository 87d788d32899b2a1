// RUN: ge-opt --list-passes | filecheck %s --check-prefix=OWN
// RUN: ge-opt --list-passes=all | filecheck %s
// RUN: ge-opt --load-plugin=%S/Inputs/plugin.py --list-passes=plug-options,plug-twice | filecheck %s --check-prefix=PLUGIN --match-full-lines
// RUN: not ge-opt --list-passes=fuse-linaer 2>&1 | filecheck %s --check-prefix=UNKNOWN

// OWN:     {{^}}fuse-linear{{$}}
// OWN-NOT: canonicalize{{$}}
// OWN:     xDSL's own: --list-passes=all

// CHECK-DAG: {{^}}fuse-linear{{$}}
// CHECK-DAG: {{^}}infer-shapes{{$}}
// CHECK:     of xDSL (--list-passes=NAME says more):
// CHECK:     canonicalize

// PLUGIN:      plug-options
// PLUGIN-NEXT:     Print its options.
// PLUGIN-NEXT:       size=<int> (required): How many bytes.
// PLUGIN-NEXT:       scale=<float> (default 1.0)
// PLUGIN-NEXT:       mode=<fast|exact> (default fast)
// PLUGIN-NEXT:       tiles=<int,...> (default none)
// PLUGIN-NEXT:       dump=<bool> (default false)
// PLUGIN-NEXT:       file=<str> (default none): Where to.
// PLUGIN-EMPTY:
// PLUGIN-NEXT: plug-twice
// PLUGIN-NEXT:     Turn x + x into plug.twice.

// UNKNOWN: ge-opt: error: unknown pass 'fuse-linaer'; did you mean 'fuse-linear'?
