// The ways to write the options of a pass.
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=3}' | filecheck %s --check-prefix=ONE
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=3 scale=2 mode=exact tiles=4,8 dump file="a b.txt"}' | filecheck %s --check-prefix=ALL
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'builtin.module(plug-options{size=3,scale=2.0,mode=exact,tiles=4,8,dump=true,file="a b.txt"},cse)' | filecheck %s --check-prefix=ALL
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-options=size=3,scale=2e0,tiles=4,8,mode=exact,dump=1,file='"a b.txt"' | filecheck %s --check-prefix=ALL
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-options="size=3 scale=2 tiles=4,8 mode=exact dump file='a b.txt'" | filecheck %s --check-prefix=ALL
// RUN: ge-opt %s --load-plugin=%S/Inputs/plugin.py --plug-options=size=1 --plug-options=size=2 | filecheck %s --check-prefix=TWICE

// ONE: size=3 scale=1.0 mode=fast tiles=() dump=False file=None
// ALL: size=3 scale=2.0 mode=exact tiles=(4, 8) dump=True file=a b.txt
// TWICE: size=1{{ }}
// TWICE: size=2{{ }}

builtin.module {}
