"""Passes that run on ops below the module, as a nested pipeline asks for.

    builtin.module(func.func(cse,canonicalize))     each function by itself
    builtin.module(any(cse))                        each op that is isolated from above

xDSL's passes take a module. One that is nested gets each op in a module of its own, with the
attributes of the module around. That is right for passes that change a function by what stands in
it alone: those that say so (`LOCAL`), and those of xDSL that are listed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean

if TYPE_CHECKING:
    from ge.transforms.rewriting.passes import Relation

MODULE, FUNCTION, ANY = "builtin.module", "func.func", "any"

# Of xDSL's passes those that change an op by what stands in it alone
UPSTREAM = frozenset(
    """approximate-math-with-bitcast arith-add-fastmath canonicalize constant-fold-interp
    control-flow-hoist convert-arith-to-varith convert-linalg-to-loops convert-scf-to-cf
    convert-varith-to-arith cse dce empty-tensor-to-alloc-tensor expand-math-to-polynomials licm
    lift-arith-to-linalg linalg-fuse-multiply-add linalg-generalize-named-ops loop-hoist-memref
    lower-affine reconcile-unrealized-casts scf-for-loop-flatten scf-for-loop-range-folding
    scf-for-loop-unroll scf-parallel-loop-tiling shape-inference varith-fuse-repeated-operands
    vector-split-load-extract""".split()
)


def innermost(p: ModulePass) -> ModulePass:
    """The pass itself, of one that is nested."""
    return p.inner if isinstance(p, NestedPass) else p


def is_local(p: ModulePass) -> bool:
    """Whether a pass changes a function by what stands in it alone."""
    if type(p).__module__.startswith("xdsl."):
        return p.name in UPSTREAM
    return bool(getattr(p, "LOCAL", False))


@dataclass(frozen=True)
class NestedPass(ModulePass):
    """A pass on the ops of one name (`any`: of any name) in those of the anchor before it, in the
    module. Its name and relation are those of the pass."""

    inner: ModulePass
    anchors: tuple[str, ...]

    @classmethod
    def of(cls, inner: ModulePass, anchors: tuple[str, ...]) -> "NestedPass":
        """Raises GeError for a pass that cannot run on the innermost of the anchors."""
        from ge.transforms.rewriting.passes import FunctionPass  # with the dialect of functions

        anchor, name = anchors[-1], inner.name
        if anchor != MODULE and not is_local(inner):
            each = "any op" if anchor == ANY else f"each '{anchor}'"
            raise GeError(
                f"pass '{name}' runs on a whole '{MODULE}', it cannot run on {each} by itself",
                hint=f"write it outside of '{anchor}(...)'",
            )
        if isinstance(inner, FunctionPass) and anchor not in (MODULE, FUNCTION, ANY):
            raise GeError(
                f"pass '{name}' runs on '{FUNCTION}', it cannot run on '{anchor}'",
                hint=f"write '{FUNCTION}({name})'",
            )
        return cls(inner, anchors)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.name

    @property
    def RELATION(self) -> "Relation":
        from ge.transforms.rewriting.passes import relation_of  # with numpy

        return relation_of(self.inner)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises GeError where an anchor is no op that passes can run on."""
        for anchor in self.anchors:
            check_anchor(ctx, anchor)
        for target in list(ops_at(op, self.anchors)):
            if isinstance(target, ModuleOp):
                self.inner.apply(ctx, target)
            else:
                run_alone(self.inner, ctx, op, target)


def targets(p: ModulePass, module: ModuleOp) -> list[Operation]:
    """The ops that a pass runs on."""
    return [*ops_at(module, p.anchors)] if isinstance(p, NestedPass) else [module]


def check_anchor(ctx: Context, name: str) -> None:
    if name == ANY:
        return
    kind = ctx.get_optional_op(name)
    if kind is None:
        known = sorted(o.name for o in ctx.loaded_ops if o.has_trait(IsolatedFromAbove))
        hint = did_you_mean(name, known)
        raise GeError(f"passes cannot run on '{name}': there is no such op{hint}")
    if not kind.has_trait(IsolatedFromAbove):
        raise GeError(f"passes cannot run on '{name}': it is not isolated from above")


def ops_at(op: Operation, anchors: tuple[str, ...]) -> Iterator[Operation]:
    """The ops that a path of anchors leads to: each of them stands right in one of those before."""
    if not anchors:
        yield op
        return
    for inner in (o for region in op.regions for block in region.blocks for o in block.ops):
        chosen = inner.has_trait(IsolatedFromAbove, value_if_unregistered=False)
        if inner.name == anchors[0] or (anchors[0] == ANY and chosen):
            yield from ops_at(inner, anchors[1:])


def run_alone(p: ModulePass, ctx: Context, module: ModuleOp, op: Operation) -> None:
    """Run a pass on one op of a module. Raises GeError where it leaves something else than one op
    of that name."""
    block, following = op.parent, op.next_op
    assert block is not None
    op.detach()
    attributes: dict[str, Any] = dict(module.attributes)
    alone = ModuleOp([op], attributes)
    left = [op]
    try:
        p.apply(ctx, alone)
        left = list(alone.ops)
    finally:
        for part in left:  # also where the pass failed: a report shows the module
            part.detach()
            if following is None:
                block.add_op(part)
            else:
                block.insert_op_before(part, following)
    if len(left) != 1 or left[0].name != op.name or dict(alone.attributes) != attributes:
        raise GeError(
            f"pass '{p.name}' changed more than the '{op.name}' that it was run on",
            hint=f"run it on '{MODULE}'",
        )
