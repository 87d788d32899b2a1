"""Wrong rewrites planted in random graphs: how many does the comparison of `random_noise.py` catch?

    python test/bench/planted_rewrites.py [--cases N] [--seed N] [--only REGEX] [--show]

What is put down to rounding must not be what a wrong rule makes. So random graphs, and the groups
of ops that rules look for (`random_motifs.py`), get one fault each: a residual is dropped, a slice
is off by one, a mask is lost. The graph with the fault is compared with the graph as it was, just
as what a compiler makes of it is. A fault is

- beyond the relation, when an element differs by more than the mode's relation allows (a relu that
  is lost from positive numbers does not make it so), and does in float64 too (a mean that becomes a
  sum before a norm without epsilon changes but the rounding of what follows),
- visible, when float64 shows more, too, than roundings of the graph's own types make of that
  element (a gelu in 16 bits whose 1 + tanh cancels hides four percent of a factor), and
- caught, when the comparison then says so, for all its excuses.

All that is visible is to be caught. Of what lies beyond the relation, roundings may hide a share of
`HIDDEN` (and, as that is few of few cases, `FEW`): more would tell that the noise is too great.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from numpy.typing import NDArray
from random_builder import Builder, Unsuitable
from random_graphs import RELATIONS, Graphs, Reference, op_classes
from random_motifs import MOTIFS
from random_noise import ROUNDS, Rounding, explained
from random_rounding import in_float64
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, ModuleOp, f64, i64
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp, attribute
from ge.dialects.support.types import array_ints, constant_value, element_type, shape_of
from ge.dialects.text.printing import op_text
from ge.runtime.data.arrays import Array, array_of, dense, dtype_of
from ge.runtime.device.trials import Outcome
from ge.transforms.analysis.polynomials import number_of
from ge.transforms.rewriting.passes import Relation, Ulps, last_place
from ge.transforms.rewriting.passes import is_float as has_floats

e, n = g.elementwise, g.normalization

# ---- faults ------------------------------------------------------------------------------------

Fault = Callable[[Any], SSAValue | None]
"""Makes an op wrong: in place, where it returns None, or by a value that is used for its result."""

FAULTS: dict[str, tuple[tuple[type[TensorOp], ...], Fault]] = {}


class NotHere(Exception):
    """The fault changes nothing at this op."""


def fault(*kinds: type[TensorOp]) -> Callable[[Fault], Fault]:
    """The function below, by its name, is a fault of ops of these classes."""

    def register(function: Fault) -> Fault:
        FAULTS[function.__name__.replace("_", " ")] = kinds, function
        return function

    return register


def need(condition: object) -> None:
    if not condition:
        raise NotHere


@fault(e.AddOp)
def residual_dropped(op: e.AddOp) -> SSAValue:
    need(op.lhs.type == op.result.type == op.rhs.type)
    return op.lhs


@fault(e.AddOp)
def bias_dropped(op: e.AddOp) -> SSAValue:
    need(op.lhs.type == op.result.type != op.rhs.type)
    return op.lhs


@fault(e.SubOp, e.DivOp)
def operands_swapped(op: e.SubOp | e.DivOp) -> None:
    op.operands = [op.rhs, op.lhs]


@fault(g.slicing.SliceOp)
def slice_off_by_one(op: g.slicing.SliceOp) -> None:
    need(op.starts is not None and op.ends is not None)
    for name in ("starts", "ends"):
        op.properties[name] = attribute([i - 1 for i in array_ints(op.properties[name])])


@fault(n.LayerNormOp, n.RmsNormOp, n.GroupNormOp, n.BatchNormOp)
def epsilon_of_a_thousandth(op: n.LayerNormOp) -> None:
    op.epsilon = FloatAttr(op.epsilon.value.data + 1e-3, op.epsilon.type)


@fault(n.LayerNormOp, n.RmsNormOp, n.GroupNormOp, n.BatchNormOp)
def epsilon_lost(op: n.LayerNormOp) -> None:
    op.epsilon = FloatAttr(0.0, op.epsilon.type)


@fault(e.SelectOp)
def guard_of_nan_lost(op: e.SelectOp) -> SSAValue:
    need(isinstance(op.condition.owner, e.IsNanOp))
    return op.on_false


@fault(e.SelectOp)
def mask_not_infinite(op: e.SelectOp) -> None:
    attr = constant_value(op.on_false)
    need(attr is not None and number_of(op.on_false) == float("-inf"))
    assert attr is not None
    op.operands[2] = constant(op.on_false, np.full_like(array_of(attr), -1e4))


@fault(g.attention.AttentionOp)
def masks_lost(op: g.attention.AttentionOp) -> SSAValue:
    need(op.masks and op.parent)
    params = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"}
    new = type(op).of(op.query, op.key, op.value, [], op.key_lengths, op.offset_value, **params)
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new.result


@fault(e.SelectOp)
def mask_lost(op: e.SelectOp) -> SSAValue:
    need(op.on_true.type == op.result.type)
    return op.on_true


@fault(g.activation.ReluOp, e.AbsOp, e.ClampOp, e.NegOp)
def limit_lost(op: Any) -> SSAValue:
    return op.operands[0]


@fault(n.SoftmaxOp, n.LogSoftmaxOp, g.reduction.CumulativeOp, g.slicing.ConcatOp)
def another_axis(op: Any) -> None:
    shape = shape_of(op.operands[0])
    need(len(shape) > 1 and op.axis is not None)
    axis = op.axis.value.data % len(shape)
    others = [i for i, d in enumerate(shape) if i != axis and d == shape[axis] > 1]
    if isinstance(op, n.SoftmaxOp | n.LogSoftmaxOp) and not op.flatten.value.data:
        others = [i for i, d in enumerate(shape) if i != axis and d > 1]
    need(others)
    op.axis = IntegerAttr(others[0], i64)


@fault(g.linear.MatmulOp)
def weight_transposed(op: g.linear.MatmulOp) -> None:
    shape = shape_of(op.rhs)
    need(len(shape) > 1 and shape[-1] == shape[-2] > 1)
    op.transpose_rhs = BoolAttr.from_bool(not op.transpose_rhs.value.data)


@fault(e.MulOp, e.DivOp)
def factor_off_by_four_percent(op: e.MulOp) -> None:
    op.operands[1] = constant_times(op.rhs, 0.96)


@fault(e.AddOp, e.MulOp, e.PowOp, e.MaximumOp, e.MinimumOp)
def constant_off_by_two_thousandths(op: e.AddOp) -> None:
    op.operands[1] = constant_times(op.rhs, 1.002)


def constant_times(value: SSAValue, factor: float) -> SSAValue:
    """A constant like another one but for a factor."""
    attr = constant_value(value)
    need(attr is not None and is_float(element_type(value)))
    assert attr is not None
    array = array_of(attr)
    return constant(value, (array * factor).astype(array.dtype))


def constant(value: SSAValue, elements: Array) -> SSAValue:
    """A constant of other elements beside another one."""
    new = ConstantOp.make(dense(elements), value.type)
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    assert block is not None
    block.insert_op_after(new, value.owner)
    return new.result


@fault(g.attention.AttentionOp, g.attention.AttentionScoresOp)
def scale_off_by_four_percent(op: g.attention.AttentionOp) -> None:
    scale = shape_of(op.query)[-1] ** -0.5 if op.scale is None else op.scale.value.data
    op.scale = FloatAttr(scale * 0.96, f64)


@fault(g.attention.AttentionOp)
def causal_mask_lost(op: g.attention.AttentionOp) -> None:
    op.causal = BoolAttr.from_bool(not op.causal.value.data)


@fault(g.slicing.ConcatOp)
def parts_swapped(op: g.slicing.ConcatOp) -> None:
    need(op.inputs[0].type == op.inputs[-1].type)
    op.operands = op.operands[::-1]


@fault(g.slicing.SplitOp)
def results_swapped(op: g.slicing.SplitOp) -> None:
    first, last = op.parts[0], op.parts[-1]
    need(first is not last and first.type == last.type)
    uses = list(first.uses)
    last.replace_all_uses_with(first)
    for use in uses:
        use.operation.operands[use.index] = last


@fault(g.shape.TransposeOp)
def not_transposed(op: g.shape.TransposeOp) -> SSAValue:
    need(op.input.type == op.result.type)
    return op.input


@fault(g.convolution.ConvOp)
def bias_of_convolution_dropped(op: g.convolution.ConvOp) -> None:
    need(op.bias)
    op.operands = [op.input, op.weight]


@fault(g.convolution.ConvOp, g.pooling.PoolOp)
def pads_shifted(op: g.convolution.ConvOp) -> None:
    need(op.pads)
    pads = array_ints(op.properties["pads"])
    need(pads != pads[::-1])
    op.properties["pads"] = attribute(pads[::-1])


@fault(g.activation.GeluOp)
def gelu_of_the_other_kind(op: g.activation.GeluOp) -> None:
    op.approximate = op.approximate.of("tanh" if op.approximate.data == "none" else "none")


@fault(g.reduction.ReduceOp)
def sum_for_mean(op: g.reduction.ReduceOp) -> None:
    need(op.kind.data in ("mean", "sum_square", "sum"))
    op.kind = op.kind.of({"mean": "sum", "sum": "mean", "sum_square": "sum"}[op.kind.data])


@fault(e.SqrtOp, e.ReciprocalOp, e.TanhOp, e.ErfOp, g.activation.SigmoidOp, e.ExpOp)
def function_lost(op: Any) -> SSAValue:
    return op.operands[0]


HIDDEN, FEW = 0.02, 2
"""The share of faults beyond the relation that roundings may hide, and how many at least."""

# ---- the measurement ---------------------------------------------------------------------------


@dataclass
class Power:
    """Counts by fault."""

    planted: Counter[str] = field(default_factory=Counter[str])
    beyond: Counter[str] = field(default_factory=Counter[str])
    """The relation."""
    visible: Counter[str] = field(default_factory=Counter[str])
    caught: Counter[str] = field(default_factory=Counter[str])

    def share(self) -> float:
        """Of the visible faults, those that were caught."""
        return self.caught.total() / max(self.visible.total(), 1)

    def hidden(self) -> int:
        """Faults beyond the relation that are not visible."""
        return self.beyond.total() - self.visible.total()

    def __str__(self) -> str:
        columns = {k: getattr(self, k) for k in ("planted", "beyond", "visible", "caught")}
        lines = [f"{'fault':34}" + "".join(f"{k:>8}" for k in columns)]
        for name in sorted(self.planted):
            lines.append(f"{name:34}" + "".join(f"{c[name]:8}" for c in columns.values()))
        total = "".join(f"{c.total():8}" for c in columns.values())
        return "\n".join([*lines, f"{'all':34}{total}"])


def places(module: ModuleOp, name: str) -> list[int]:
    """Where the ops are that a fault may be planted in, by their number in the module."""
    kinds, _ = FAULTS[name]
    return [i for i, op in enumerate(module.walk()) if isinstance(op, kinds)]


def planted(module: ModuleOp, name: str, place: int) -> ModuleOp | None:
    """The module with a fault; None where it changes nothing or does not fit."""
    module = module.clone()
    op = next(op for i, op in enumerate(module.walk()) if i == place)
    try:
        value = FAULTS[name][1](op)
        if value is not None:
            need(value.type == op.results[0].type and value is not op.results[0])
            op.results[0].replace_all_uses_with(value)
        module.verify()
    except (NotHere, VerifyException):
        return None
    return module


class Effect(IntEnum):
    """What a fault changes: nothing beyond the relation; that, but no more than roundings do; or
    more."""

    NONE = 0
    HIDDEN = 1
    VISIBLE = 2


def effect_of(reference: Reference, wrong: ModuleOp, relation: Relation) -> Effect:
    """The greatest effect of a fault on an element. If rounding is allowed, what the module gives
    as it is computed and what it gives in float64 both count."""
    before, after = reference.runner.first, reference.runner.run(wrong)
    changed = [wrong_elements(relation, a, b) for a, b in zip(before, after, strict=True)]
    if not any(map(any_element, changed)):
        return Effect.NONE
    if not isinstance(relation, Ulps):
        return Effect.VISIBLE
    runs, exact = reference.rounding.wide[0]
    wide, most = runs.of(in_float64(wrong, throughout=True)), Effect.NONE
    for trial, masks in enumerate(changed):
        for name, mask in masks.items():
            a, x, y = before[trial], exact[trial], wide[trial]
            if isinstance(a, GeError) or isinstance(x, GeError) or isinstance(y, GeError):
                return Effect.VISIBLE
            first, second = x[name], y[name]
            found = mask & exact_effect(reference.rounding, name, relation, a[name], first, second)
            if not found.any():
                continue
            others = runs.again(ROUNDS[-1], trial, name)
            others = [o for o in others if o.shape == first.shape]
            if first.shape != second.shape or (found & ~explained(first, second, others)).any():
                return Effect.VISIBLE
            most = Effect.HIDDEN
    return most


def any_element(masks: Mapping[str, NDArray[np.bool_]]) -> bool:
    return any(mask.any() for mask in masks.values())


def wrong_elements(
    relation: Relation, before: Outcome, after: Outcome
) -> dict[str, NDArray[np.bool_]]:
    """The elements of each output that break the relation; all if types differ, or if there are
    no results any more."""
    if isinstance(before, GeError):
        return {}
    every = np.ones((), np.bool_)
    if isinstance(after, GeError):
        return dict.fromkeys(before, every)
    return {
        name: relation.wrong(a, b, ())
        if ((b := after[name]).dtype, b.shape) == (a.dtype, a.shape)
        else every
        for name, a in before.items()
    }


def exact_effect(
    rounding: Rounding, name: str, relation: Ulps, before: Array, first: Array, second: Array
) -> NDArray[np.bool_]:
    """The elements of an output that would break the relation if they moved from `before` as far as
    float64 results do, from `first` to `second`, in units of the narrowest type on the way. The end
    of the type's range is no bound: the greatest number is as far from the next one as from the one
    before."""
    if first.shape != second.shape or first.shape != before.shape:
        return np.ones((), np.bool_)
    if not has_floats(before):
        return first != second
    with np.errstate(all="ignore"):
        own = np.abs(before[np.isfinite(before)]).max(initial=0)
        finite = np.isfinite(before) & np.isfinite(first) & np.isfinite(second)
        scale = allowed(relation, before.dtype) / allowed(relation, narrowest(rounding, name))
        most = relation.limit(before) * last_place(float(own), before.dtype)
        moved = np.abs(second - first) * min(scale, 1.0) > most
        cast = first.astype(before.dtype), second.astype(before.dtype)
        return np.where(finite, moved, relation.wrong(*cast, ()))


def allowed(relation: Ulps, dtype: np.dtype[Any]) -> float:
    """What numbers near 1 may be off."""
    return relation.limit(np.empty((), dtype)) * last_place(1.0, dtype)


def narrowest(rounding: Rounding, name: str) -> np.dtype[Any]:
    """The float type of the greatest steps among those of the values that an output depends on."""
    types = {r.type: element_type(r) for op in rounding.sources(name) for r in op.results}
    floats = [dtype_of(t) for t in types.values() if is_float(t)]
    return max(floats, key=lambda t: last_place(1.0, t), default=np.dtype(np.float64))


def graphs(seeds: Iterable[int]) -> Iterator[tuple[int, ModuleOp]]:
    """Random graphs for odd seeds, single motifs in turn for even ones."""
    random_graphs = Graphs(op_classes())
    for i in seeds:
        if i % 2:
            module = random_graphs.make(i)
        else:
            b = Builder(i)
            try:
                MOTIFS[i // 2 % len(MOTIFS)](b)
            except (Unsuitable, VerifyException):
                continue
            ends = [r for op in b.block.ops for r in op.results if r.first_use is None]
            module = b.module(ends)
        if module is not None:
            yield i, module


def measure(
    seeds: Iterable[int],
    only: str = "",
    mode: str = "default",
    missed: Callable[[str, int, ModuleOp, ModuleOp], None] | None = None,
) -> Power:
    """Plant each fault that fits once in each graph."""
    power, relation = Power(), RELATIONS[mode]
    for number, module in graphs(seeds):
        rng = random.Random(number)
        try:
            reference = Reference(module)
        except GeError:
            continue
        for name in FAULTS:
            found = places(module, name) if re.search(only, name) else []
            wrong = planted(module, name, rng.choice(found)) if found else None
            if wrong is None:
                continue
            power.planted[name] += 1
            effect = effect_of(reference, wrong, relation)
            power.beyond[name] += effect > Effect.NONE
            if effect < Effect.VISIBLE:
                continue
            power.visible[name] += 1
            if reference.difference(wrong, relation) is not None:
                power.caught[name] += 1
            elif missed is not None:
                missed(name, number, module, wrong)
    return power


def show(name: str, seed: int, module: ModuleOp, wrong: ModuleOp) -> None:
    print(f"// {name}, seed {seed}\n{op_text(module)}\n{op_text(wrong)}", flush=True)


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--cases", type=int, default=1000)
    add("--seed", type=int, default=0, help="the first seed")
    add("--mode", default="default", choices=[m for m in RELATIONS if m != "off"])
    add("--only", default="", metavar="REGEX", help="names of faults")
    add("--show", action="store_true", help="print what was visible and not caught")
    given = parser.parse_args(args)
    seeds = range(given.seed, given.seed + given.cases)
    power = measure(seeds, given.only, given.mode, show if given.show else None)
    print(power)
    print(f"caught {power.share():.1%} of the visible; hidden by rounding: {power.hidden()}")
    sys.exit(power.share() < 1 or power.hidden() > max(FEW, HIDDEN * power.beyond.total()))


if __name__ == "__main__":
    main()
