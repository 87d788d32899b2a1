"""A plugin for tests: a dialect, and passes that fail in the ways that a pass can fail."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import ModuleOp, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException

from ge.dialects.support.diagnostics import remark, warning
from ge.dialects.support.errors import GeError
from ge.lowering.plugins.extensions import register_pass
from ge.transforms.rewriting.driver import rewrite


@irdl_op_definition
class TwiceOp(IRDLOperation):
    """x + x"""

    name = "plug.twice"
    input = operand_def(i32)
    result = result_def(i32)
    assembly_format = "$input attr-dict"


@irdl_op_definition
class FragileOp(IRDLOperation):
    """Its verifier has a bug."""

    name = "plug.fragile"
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        [][len(self.results)]


Plug = Dialect("plug", [TwiceOp, FragileOp])


class AddToTwice(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter, /) -> None:
        if op.lhs is op.rhs:
            rewriter.replace(op, TwiceOp.build(operands=[op.lhs], result_types=[i32]))


@dataclass(frozen=True)
class PlugTwicePass(ModulePass):
    """Turn x + x into plug.twice.

    The second paragraph is for the reader of the source.
    """

    name = "plug-twice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [AddToTwice()])


@dataclass(frozen=True)
class PlugOptionsPass(ModulePass):
    """Print its options."""

    name = "plug-options"
    size: int
    """How many bytes."""
    scale: float = 1.0
    mode: Literal["fast", "exact"] = "fast"
    tiles: tuple[int, ...] = ()
    dump: bool = False
    file: str | None = None
    """Where to."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        print(f"size={self.size} scale={self.scale} mode={self.mode} tiles={self.tiles}", end=" ")
        print(f"dump={self.dump} file={self.file}")


@register_pass
@dataclass(frozen=True)
class PlugFailPass(ModulePass):
    """Fail: `how` says in which way."""

    name = "plug-fail"
    how: str = "PassFailedException"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        add = next((o for o in op.walk() if isinstance(o, AddiOp)), None)
        match self.how:
            case "op" if add is not None:
                add.emit_error("", PassFailedException("this op cannot be done"))
            case "loop":
                rewrite(op, [Endless()])
            case "invalid":
                make_invalid(op)
            case "order" if add is not None:
                user = add.result.first_use.operation
                add.detach()
                user.parent_block().insert_op_after(add, user)
            case "bug":
                raise KeyError("an oversight")
            case "user":
                raise GeError("the target has no core", "target.toml", "see --target")
            case _:
                raise PassFailedException("nothing can be done")


class Endless(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConstantOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, op.clone())


def make_invalid(module: ModuleOp) -> None:
    """Return an i64 from a function of i32."""
    for op in module.walk():
        if isinstance(op, ReturnOp) and isinstance(op.parent_op(), FuncOp):
            wrong = ConstantOp.from_int_and_width(1, i64)
            op.parent_block().insert_op_before(wrong, op)
            op.operands = [wrong.result]
            return


@dataclass(frozen=True)
class PlugTalkPass(ModulePass):
    """Say something about each addition."""

    name = "plug-talk"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for o in op.walk():
            if isinstance(o, AddiOp):
                remark(o, "an addition")
                if o.lhs is o.rhs:
                    warning(o, "of a value to itself")
