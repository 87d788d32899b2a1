// What is wrong with a pipeline is said in one line that names pass, option and expected type.
// RUN: not ge-opt %s -p 'canonicalise' 2>&1 | filecheck %s --check-prefix=PASS
// PASS: <pass-pipeline>:1:1: error: unknown pass 'canonicalise'; did you mean 'canonicalize'?
// RUN: not ge-opt %s -p 'frobnicate' 2>&1 | filecheck %s --check-prefix=NOPASS
// NOPASS: <pass-pipeline>:1:1: error: unknown pass 'frobnicate'; --list-passes lists them
// RUN: not ge-opt %s --canonicalise 2>&1 | filecheck %s --check-prefix=FLAG
// FLAG: ge-opt: error: unknown option '--canonicalise'; did you mean '--canonicalize'?
// RUN: not ge-opt %s --verify-diagnostic 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: ge-opt: error: unknown option '--verify-diagnostic'; did you mean '--verify-diagnostics'?
// RUN: not ge-opt %s --zzzzzz=3 2>&1 | filecheck %s --check-prefix=NOOPTION
// NOOPTION: ge-opt: error: unknown option '--zzzzzz=3'; see ge-opt --help
// RUN: not ge-opt %s --cse -p cse 2>&1 | filecheck %s --check-prefix=MIX
// MIX: ge-opt: error: give the passes as flags or as --pass-pipeline, not both
// RUN: not ge-opt %s %s 2>&1 | filecheck %s --check-prefix=INPUTS
// INPUTS: ge-opt: error: one input file at most
// RUN: not ge-opt %s --verify-each=maybe 2>&1 | filecheck %s --check-prefix=BOOL
// BOOL: ge-opt: error: argument --verify-each: 0 or 1, not 'maybe'

// RUN: not ge-opt %s -p 'cse,canonicalize cse' 2>&1 | filecheck %s --check-prefix=COMMA --match-full-lines --strict-whitespace
//      COMMA:<pass-pipeline>:1:18: error: expected ',' or the end of the pass pipeline
// COMMA-NEXT:cse,canonicalize cse
// COMMA-NEXT:                 ^
// RUN: not ge-opt %s -p 'cse{=}' 2>&1 | filecheck %s --check-prefix=KEY
// KEY: <pass-pipeline>:1:5: error: expected an option
// RUN: not ge-opt %s -p 'cse{a=}' 2>&1 | filecheck %s --check-prefix=VALUE
// VALUE: <pass-pipeline>:1:7: error: expected a value for option 'a'
// RUN: not ge-opt %s -p ',' 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: <pass-pipeline>:1:1: error: expected a pass name

// RUN: not ge-opt %s -p 'canonicalize{x=1}' 2>&1 | filecheck %s --check-prefix=NONE
// NONE: <pass-pipeline>:1:1: error: pass 'canonicalize' has no option 'x' (it has: none)
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{syze=1}' 2>&1 | filecheck %s --check-prefix=NAME
// NAME: <pass-pipeline>:1:1: error: pass 'plug-options' has no option 'syze'; did you mean 'size'?
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options' 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: <pass-pipeline>:1:1: error: pass 'plug-options' needs option 'size' (int)
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=big}' 2>&1 | filecheck %s --check-prefix=TYPE
// TYPE: <pass-pipeline>:1:1: error: option 'size' of pass 'plug-options' expects int, got big
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=1.5}' 2>&1 | filecheck %s --check-prefix=FLOAT
// FLOAT: <pass-pipeline>:1:1: error: option 'size' of pass 'plug-options' expects int, got 1.5
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=1 mode=slow}' 2>&1 | filecheck %s --check-prefix=CHOICE
// CHOICE: <pass-pipeline>:1:1: error: option 'mode' of pass 'plug-options' expects fast|exact, got slow
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=1 tiles=1,x}' 2>&1 | filecheck %s --check-prefix=LIST
// LIST: <pass-pipeline>:1:1: error: option 'tiles' of pass 'plug-options' expects int,..., got 1,x
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size=1,2}' 2>&1 | filecheck %s --check-prefix=COUNT
// COUNT: <pass-pipeline>:1:1: error: option 'size' of pass 'plug-options' expects int, got 1,2
// RUN: not ge-opt %s --load-plugin=%S/Inputs/plugin.py -p 'plug-options{size}' 2>&1 | filecheck %s --check-prefix=BARE
// BARE: <pass-pipeline>:1:1: error: option 'size' of pass 'plug-options' expects int, got no value

builtin.module {}

// The format of the output.
// RUN: not ge-opt %s --output-format 'mlir{' 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: ge-opt: error: argument --output-format: NAME or NAME{key=value}, not 'mlir{'
// RUN: not ge-opt %s --output-format nope 2>&1 | filecheck %s --check-prefix=NOTARGET
// NOTARGET: ge-opt: error: argument --output-format: one of arm-asm, csl,
// RUN: not ge-opt %s -t 'mlir{x=1}' 2>&1 | filecheck %s --check-prefix=TARGETOPTION
// TARGETOPTION: pass_option_errors.mlir: error: output format 'mlir{x=1}': Provided arguments ["x"] not found
