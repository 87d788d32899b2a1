// What cannot be nested, and texts that are no pipeline.
// RUN: not ge-opt %s -p 'builtin.module(func.func(lower-kernels))' 2>&1 | filecheck %s --check-prefix=MODULE
// MODULE: pass 'lower-kernels' runs on a whole 'builtin.module', it cannot run on each 'func.func' by itself; write it outside of 'func.func(...)'
// RUN: not ge-opt %s -p 'builtin.module(any(convert-riscv-to-llvm))' 2>&1 | filecheck %s --check-prefix=ANY
// ANY: pass 'convert-riscv-to-llvm' runs on a whole 'builtin.module', it cannot run on any op by itself
// RUN: not ge-opt %s -p 'builtin.module(npu_task.kernel(infer-shapes))' 2>&1 | filecheck %s --check-prefix=FUNC
// FUNC: pass 'infer-shapes' runs on 'func.func', it cannot run on 'npu_task.kernel'; write 'func.func(infer-shapes)'
// RUN: not ge-opt %s -p 'builtin.module(func.fun(cse))' 2>&1 | filecheck %s --check-prefix=NONE
// NONE: passes cannot run on 'func.fun': there is no such op; did you mean 'func.func'? (in pass 'cse')
// RUN: not ge-opt %s -p 'builtin.module(func.return(cse))' 2>&1 | filecheck %s --check-prefix=ISOLATED
// ISOLATED: passes cannot run on 'func.return': it is not isolated from above

// RUN: not ge-opt %s -p 'builtin.module(cse' 2>&1 | filecheck %s --check-prefix=OPEN
// OPEN: <pass-pipeline>:1:15: error: the '(' behind 'builtin.module' is not closed
// OPEN-NEXT: builtin.module(cse
// OPEN-NEXT: {{^}}              ^
// RUN: not ge-opt %s -p 'builtin.module(cse))' 2>&1 | filecheck %s --check-prefix=CLOSED
// CLOSED: <pass-pipeline>:1:20: error: this ')' closes nothing
// RUN: not ge-opt %s -p 'builtin.module(cse,,cse)' 2>&1 | filecheck %s --check-prefix=COMMA
// COMMA: <pass-pipeline>:1:20: error: expected a pass name after ','
// RUN: not ge-opt %s -p 'simplify-algebra{exact=true' 2>&1 | filecheck %s --check-prefix=BRACE
// BRACE: <pass-pipeline>:1:17: error: the '{' of these options is not closed
// RUN: not ge-opt %s -p 'cse{' 2>&1 | filecheck %s --check-prefix=OPTIONS
// OPTIONS: <pass-pipeline>:1:4: error: the '{' of these options is not closed
// RUN: not ge-opt %s -p 'builtin.module(cse),cse' 2>&1 | filecheck %s --check-prefix=MORE
// MORE: <pass-pipeline>:1:20: error: expected the end of the pass pipeline

func.func private @f() -> ()
