"""By which steps devices send: the algorithm of each collective, by its time on the links of the
target (`runtime/library/costs/collectives.py`).

    %1 = graph.all_reduce sum %0 over <"tp"=8> : (tensor<64x64xf32>) -> tensor<64x64xf32>
becomes, where each device has a link to each other one
    %1 = graph.all_reduce sum %0 over <"tp"=8> algorithm mesh : ...

Numbers are the same by all of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.collectives import (
    ALGORITHMS,
    ALGORITHMS_OF,
    Collective,
    CollectiveAlgorithm,
)
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support.diagnostics import warning
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions
from ge.dialects.support.types import is_dynamic
from ge.dialects.targets.target import Target
from ge.dialects.text.values import did_you_mean
from ge.runtime.library.costs.collectives import cheapest, cluster_of, kind_of, times
from ge.transforms.rewriting import remarks


def forced(choices: tuple[str, ...]) -> dict[str, str]:
    """Collective -> the algorithm that it has by choice. Raises GeError for one that is not
    known."""
    found: dict[str, str] = {}
    for text in choices:
        kind, _, name = text.partition("=")
        if kind not in ALGORITHMS_OF:
            near = did_you_mean(kind, [*ALGORITHMS_OF])
            hint = f"collectives are {', '.join(ALGORITHMS_OF)}, as in all_reduce=ring"
            raise GeError(f"collective is KIND=ALGORITHM, not '{text}'{near}", hint=hint)
        if name not in (known := ALGORITHMS_OF[kind]):
            near = did_you_mean(name, known)
            raise GeError(f"{kind} has no algorithm '{name}'{near}", hint=f"it has {listed(known)}")
        if found.setdefault(kind, name) != name:
            raise GeError(f"collective: {kind} is {found[kind]}, and {name}", hint="drop one")
    return found


def listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class ChooseAlgorithmsPass(ModulePass):
    """Give each collective the algorithm that takes least on the target."""

    name = "choose-algorithms"

    target: str = ""
    """of the links; by default that of the package"""
    collective: tuple[str, ...] = ()
    """KIND=ALGORITHM (all_reduce=ring): by choice, where a group can take it"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target, by_choice = Target.load(*filter(None, [self.target])), forced(self.collective)
        mesh = mesh_of(op)
        if mesh is not None:
            cluster_of(target, mesh)
        for function in functions(op).values():
            for inner in function.walk():
                if isinstance(inner, Collective) and inner.algorithm is None:
                    choose(inner, target, by_choice)


def choose(op: Collective, target: Target, by_choice: Mapping[str, str]) -> None:
    if any(is_dynamic(v.type) for v in (*op.operands, *op.results)):
        return
    found, kind = times(op, target), kind_of(op)
    name = best = cheapest(found)
    if (chosen := by_choice.get(kind)) is not None:
        if chosen in found:
            name = chosen
        else:
            devices = " x ".join(str(a.size) for a in op.group())
            known = listed(tuple(a for a in ALGORITHMS if a in found))
            what = f"{kind} over {devices} devices cannot be {chosen}"
            warning(op, f"{what}: it is {best}; it can be {known}")
    op.algorithm = CollectiveAlgorithm.of(name)
    if remarks.wanted():
        others = sorted((us, a) for a, us in found.items() if a != name)
        told = ", ".join(f"{a} {us:,.1f}" for us, a in others)
        remarks.applied("choose-algorithms", op, f"{name}: {found[name]:,.1f} us ({told})")
