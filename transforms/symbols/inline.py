"""Put the bodies of functions in the place of calls.

    func.func private @twice(%a: i32) -> i32 {
      %0 = arith.addi %a, %a : i32
      func.return %0 : i32
    }
    %1 = func.call @twice(%x) : (i32) -> i32
becomes
    %1 = arith.addi %x, %x : i32 loc(callsite(... at ...))

Functions of several blocks, without a body, or that call themselves stay calls. Private functions
that are no longer called are erased.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import CallSiteLoc, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ge.transforms.symbols.symbol_dce import erase_unused


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """Inline calls of functions of one block, as mlir-opt's pass of this name."""

    name = "inline"

    max_iterations: int = 4
    """How often calls are looked for again, in what was inlined."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inlined = False
        for _ in range(self.max_iterations):
            functions = {f.sym_name.data: f for f in op.ops if isinstance(f, FuncOp)}
            calls = [
                (call, functions[name])
                for call in op.walk()
                if isinstance(call, CallOp)
                if (name := call.callee.root_reference.data) in functions
            ]
            chosen = [(c, f) for c, f in calls if is_simple(f) and not calls_itself(f, functions)]
            for call, func in chosen:
                inline(call, func)
            inlined |= bool(chosen)
            if not chosen:
                break
        if inlined:
            erase_unused(op)


def is_simple(func: FuncOp) -> bool:
    """Return whether a function is one block that ends with a return."""
    blocks = func.body.blocks
    return len(blocks) == 1 and isinstance(func.body.block.last_op, ReturnOp)


def calls_itself(func: FuncOp, functions: dict[str, FuncOp]) -> bool:
    """Return whether a call in a function leads back to it."""
    seen, todo = set[FuncOp](), [func]
    while todo:
        calls = (op for op in todo.pop().walk() if isinstance(op, CallOp))
        for callee in (functions.get(call.callee.root_reference.data) for call in calls):
            if callee is func:
                return True
            if callee is not None and callee not in seen:
                seen.add(callee)
                todo.append(callee)
    return False


def inline(call: CallOp, func: FuncOp) -> None:
    """Put the ops of a function of one block in the place of a call of it."""
    values: dict[SSAValue, SSAValue] = dict(zip(func.body.block.args, call.arguments, strict=True))
    results: list[SSAValue] = []
    for op in func.body.block.ops:
        if isinstance(op, ReturnOp):
            results = [values.get(v, v) for v in op.arguments]
            break
        new = op.clone(values)
        for inner in new.walk():
            inner.location = CallSiteLoc(inner.location, call.location)
        Rewriter.insert_op(new, InsertPoint.before(call))
    Rewriter.replace_op(call, [], results)
