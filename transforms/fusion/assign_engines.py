"""Engines that users choose for ops by name (`--engine 'act.*=vector'`, "Core Type" by hand).

    graph.matmul        loc("fc")                graph.matmul
    graph.relu          loc("act")       ->      graph.relu {fused_op.engine = "vector"}

    fuse-linear         without                  with the mark
    cube                matmul and relu          matmul
    vector                                       relu, in a launch of its own

An op for the vector cores shares no launch with what multiplies on the cube; shape arithmetic may
move between host and vector cores. What no other engine can run stays an error: the cube alone
multiplies, and the host computes shapes only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ge.dialects.fused_op import ENGINE, FusedOp, multiplies
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.editing import names_in
from ge.dialects.support.errors import GeError
from ge.dialects.support.patterns import UserPattern, user_pattern
from ge.dialects.support.tensor_op import TensorOp
from ge.transforms.analysis.views import view_offsets
from ge.transforms.fusion.groups import blocks_of
from ge.transforms.rewriting import remarks

# Names in small letters without underscores, Ascend's among them
ENGINES = {
    **dict.fromkeys(("cube", "aicore", "aic"), Engine.CUBE),
    **dict.fromkeys(("vector", "aivectorcore", "vectorcore", "aiv"), Engine.VECTOR),
    **dict.fromkeys(("host", "aicpu", "cpu"), Engine.HOST),
}


def choice(text: str) -> tuple[UserPattern, Engine]:
    """A choice, NAME=ENGINE. Raises ValueError that says what is expected, and GeError for a text
    that is no regular expression."""
    name, equals, engine = text.rpartition("=")
    plain = engine.strip().lower().replace("_", "")
    if not equals or not name:
        raise ValueError("NAME=ENGINE, where NAME is a regular expression")
    if plain not in ENGINES:
        near = get_close_matches(plain, ENGINES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"NAME=cube, =vector or =host, and no engine is '{engine}'{hint}")
    return user_pattern(name, "engine"), ENGINES[plain]


def computing(module: ModuleOp) -> Iterator[TensorOp]:
    """The ops of the program that become launches, or parts of them."""
    for block in blocks_of(module):
        for op in block.ops:
            if not isinstance(op, TensorOp) or isinstance(op, ConstantOp):
                continue
            if view_offsets(op) is None and (isinstance(op, FusedOp) or not op.regions):
                yield op


def why_not(op: TensorOp, engine: Engine) -> str:
    """Return why an engine cannot run an op; "" if it can."""
    if multiplies(op) and engine is not Engine.CUBE:
        return "it multiplies matrices, which the cube alone does"
    if engine is Engine.CUBE and not multiplies(op):
        return "the cube multiplies matrices, and this has none (it may join the launch of one)"
    if engine is Engine.HOST and not is_shape_arithmetic(op):
        return "the host computes shapes only"
    return ""


@dataclass(frozen=True)
class AssignEnginesPass(ModulePass):
    """Mark ops with the engine that they shall run on (see the top of this file)."""

    name = "assign-engines"

    choices: tuple[str, ...] = ()
    """NAME=ENGINE: a regular expression that matches the name of a node of the model or of an op
    (graph.relu), and cube, vector or host. The first one that fits an op counts."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops, matched = list(computing(op)), set[str]()
        for text in self.choices:
            try:
                pattern, engine = choice(text)
            except ValueError as e:
                raise GeError(f"engine is {e}, not '{text}'") from None
            for inner in ops:
                if any(pattern.search(name) for name in (*names_in(inner.location), inner.name)):
                    matched.add(text)
                    mark(inner, engine, text)
        for text in self.choices:
            if text not in matched:
                raise nothing_named(text, ops)


def mark(op: TensorOp, engine: Engine, choice: str) -> None:
    """Raises GeError where the engine cannot run the op."""
    if ENGINE in op.attributes:
        return
    if isinstance(op, FusedOp):
        raise error_at(op, "engines are chosen before ops are fused", "for a module of graph ops")
    if why := why_not(op, engine):
        raise error_at(op, f"'{choice}': {op.name} cannot run there: {why}")
    op.attributes[ENGINE] = StringAttr(engine)
    remarks.applied("assign-engines", op, f"{engine}, by '{choice}'")


def nothing_named(text: str, ops: list[TensorOp]) -> GeError:
    names = [name for op in ops for name in (*names_in(op.location), op.name)]
    near = get_close_matches(text.rpartition("=")[0], dict.fromkeys(names), 1, 0.4)
    hint = f"did you mean '{near[0]}'?" if near else "ge-parser MODEL shows names of ops"
    return GeError(f"engine: no op has a name in which '{text.rpartition('=')[0]}' is", hint=hint)
