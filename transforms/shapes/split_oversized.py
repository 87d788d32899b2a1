"""Fused ops that no tile program fits on a core for, in parts that have one.

    %y = fused_op.linear(%q, %k, %m) {          with more scores in a row than a core holds, of
      graph.matmul, graph.add, graph.softmax     which softmax needs all
    }
becomes
    %s = fused_op.linear(%q, %k, %m) { graph.matmul, graph.add }
    %y = graph.softmax %s

What is fused while sizes are unknown may turn out too large at the sizes of a gear, or of a run
(see `specialize.py`). A part has as many members, in their order, as fit; what has no program on
its own stays without one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import Body, CustomOp, FusedOp, RegionOp, YieldOp, worker
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.editing import detach, fuse_locations, set_operands
from ge.dialects.support.operation import (
    NOTHING,
    block_of,
    created,
    operands_of,
    put_before,
    put_last,
)
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import Target
from ge.runtime.library.asking import refused
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.graph.control_flow import unfuse

Fused = TypeVar("Fused", bound=FusedOp)


def fits_core(op: TensorOp, target: Target) -> bool:
    """Return whether an op has a program on the cores; true for ops of unknown sizes, of which that
    is not known."""
    body = Body.of(op)
    on_core = choose_engine(op, body.ops) in (Engine.CUBE, Engine.VECTOR) and body.is_static
    return not on_core or refused(body, target) is None


def split_oversized(
    block: Block, target: Target, is_cut: Callable[[TensorOp], bool] = lambda op: False
) -> None:
    """Split the fused ops of a block that have no program. `is_cut`: whether an op is known to have
    one, which is not asked for then."""
    for op in list(block.ops):
        if isinstance(op, FusedOp) and not isinstance(op, CustomOp):
            if not is_cut(op) and not fits_core(op, target):
                split(block, op, lambda part: fits_core(part, target))


def wrap(block: Block, group: Sequence[TensorOp], kind: type[TensorOp]) -> None:
    """Make one fused op of ops that stand side by side, before another one."""
    results, location = results_of(group), fuse_locations((worker(group), *group))
    after = group[-1].next_op
    assert after is not None
    fused = gathered(kind_of(group, kind), group, results)
    fused.location = location
    put_before(block, fused, after)
    for old, new in zip(results, fused.results, strict=True):
        old.replace_uses_with_if(new, lambda use: use.operation.parent is not fused.block)


def gathered(
    kind: type[Fused],
    members: Sequence[Operation],
    results: Sequence[SSAValue],
    properties: Mapping[str, Attribute] = NOTHING,
) -> Fused:
    """A fused op (not inserted yet) into which ops move, in their order; values from outside become
    its inputs. Other ops go on using `results` of the members."""
    inside = {r for member in members for r in member.results}
    outside = [v for m in members for v in operands_of(m) if v not in inside]
    inputs = list(dict.fromkeys(outside))
    block = block_of([v.type for v in inputs])
    argument: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for member in members:
        if member.parent is not None:
            detach(member, member.parent)
        put_last(block, member)
        set_operands(member, [argument.get(v, v) for v in operands_of(member)])
    put_last(block, created(YieldOp, results))
    types = [v.type for v in results]
    return created(kind, inputs, types, dict(properties), [Region(block)])


def results_of(group: Sequence[TensorOp]) -> list[SSAValue]:
    """Return the results of some ops that the other ops of the block take."""
    inside = set[Operation](group)
    return [r for op in group for r in op.results if any(u.operation not in inside for u in r.uses)]


def kind_of(group: Sequence[TensorOp], kind: type[TensorOp]) -> type[FusedOp]:
    """The class of a fused op of some members of one of a class."""
    assert issubclass(kind, FusedOp)
    return kind if any(map(kind.computes, group)) else RegionOp


def split(block: Block, op: FusedOp, fits: Callable[[TensorOp], bool]) -> None:
    """Replace a fused op by its parts that fit."""
    for group in parts(unfuse(op), type(op), fits):
        if len(group) > 1:
            wrap(block, group, type(op))


def parts(
    members: Sequence[TensorOp], kind: type[FusedOp], fits: Callable[[TensorOp], bool]
) -> list[list[TensorOp]]:
    """The members of a fused op in runs that fit, each as long as may be."""
    runs: list[list[TensorOp]] = []
    for member in members:
        if runs:
            longer = [*runs[-1], member]
            trial = kind_of(longer, kind).wrap(longer, results_of(longer))
            taken = fits(trial)
            trial.erase()
            if taken:
                runs[-1] = longer
                continue
        runs.append([member])
    return runs


@dataclass(frozen=True)
class SplitOversizedPass(ModulePass):
    """Split fused ops whose tiles do not fit on a core of the target."""

    name = "split-oversized"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.load(self.target)
        blocks = {o.parent: None for o in op.walk() if isinstance(o, FusedOp)}
        for block in blocks:
            if block is not None:
                split_oversized(block, target)
