"""The levels of the compiler: one table of names, meaning, and what is legal at each.

`@main` holds the ops of its level; kernels and other functions (`@prepare`) hold graph and fused
ops. The enumeration is cheap to import, `legality` imports the dialects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation

    from ge.lowering.levels.rules import Rules


class Level(StrEnum):
    """A stage of a module on its way down; the order is that of the pipeline."""

    _value_: str
    summary: str  # what an op is at this level
    step: str  # the pass of `lowering/steps` that leads here; none where passes of `transforms` do

    GRAPH = "graph", "mathematics on tensors"
    FUSED = "fused", "one op is one kernel launch"
    TASKS = "tasks", "kernels and launches, on tensors", "lower-to-tasks"
    BUFFERS = "buffers", "the same on buffers", "bufferize-tasks"
    PROGRAM = "program", "streams, events, one static memory pool"

    def __new__(cls, name: str, summary: str, step: str = "") -> "Level":
        level = str.__new__(cls, name)
        level._value_, level.summary, level.step = name, summary, step
        return level

    @classmethod
    def named(cls, name: str) -> "Level":
        if name not in list(cls):
            raise GeError(f"there is no level '{name}'", hint=f"use {', '.join(cls)}")
        return cls(name)

    @property
    def depth(self) -> int:
        return list(Level).index(self)

    def path_to(self, lower: "Level") -> list["Level"]:
        """The levels whose passes bring a module of this one to `lower`. Those of the graph level
        run on a graph, too."""
        return list(Level)[self.depth + (self is not Level.GRAPH) : lower.depth + 1]


@dataclass(frozen=True)
class Legality:
    """Ops, types and rules of modules at a level, beside what `verify-level` asks for at each."""

    main: "frozenset[type[Operation]]"  # the ops of @main
    values: "tuple[type[Attribute], ...]"  # the types of the values of @main
    rules: "Rules"
    # The ops of kernels; none where there are no kernels
    kernel: "frozenset[type[Operation]]" = frozenset()
    mark: str = ""  # an attribute of @main that no level above has


@cache
def legality() -> Mapping[Level, Legality]:
    """Return what is legal at each level."""
    from xdsl.dialects.builtin import MemRefType, TensorType, UnrankedTensorType
    from xdsl.dialects.func import ReturnOp
    from xdsl.dialects.memref import AllocOp, ReinterpretCastOp
    from xdsl.dialects.tensor import EmptyOp

    from ge.dialects.fused_op import FusedOps
    from ge.dialects.graph import Graph, control
    from ge.dialects.graph import control as graph
    from ge.dialects.graph.constant import ConstantOp
    from ge.dialects.npu_task import ops as npu
    from ge.dialects.npu_task.attributes import STREAMS
    from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp, MapIndexOp, PipelineOp, YieldOp
    from ge.lowering.levels import rules as r
    from ge.lowering.levels.rules import Rules
    from ge.transforms.analysis.views import may_be_view

    graph_ops = frozenset({*Graph.operations, ReturnOp})
    fused_ops = graph_ops.union(FusedOps.operations)
    sizes_alone = {control.MapIndexOp, control.AssumeShapeOp}  # what no launch computes
    control = {graph.IfOp, graph.CaseOp, graph.LoopOp, graph.YieldOp, *sizes_alone, ReturnOp}
    kernel = (fused_ops - control) | {npu.ReturnOp}
    views = set(filter(may_be_view, Graph.operations))
    tasks = control | views | {npu.LaunchOp, npu.ConstantOp, EmptyOp}
    copies = {npu.CopyOp, npu.BatchCopyOp, npu.TransferOp}
    buffers = {*copies, npu.LaunchOp, npu.ConstantOp, IfOp, CaseOp, LoopOp,
               MapIndexOp, YieldOp, AllocOp, ReinterpretCastOp, ReturnOp}  # fmt: skip
    tensors, values = (TensorType, UnrankedTensorType), (MemRefType, npu.EventType)
    sizes: Rules = {ConstantOp: (r.constant_size,)}
    of_kernel = (r.kernel_holds, r.tiles_match)
    kernels: Rules = {**sizes, npu.KernelOp: of_kernel, npu.ConstantOp: (r.constant_size,)}
    defining = IfOp, CaseOp, LoopOp, ReinterpretCastOp, AllocOp
    on_buffers: Rules = dict.fromkeys(defining, (r.on_buffers,))
    return {
        Level.GRAPH: Legality(graph_ops, tensors, sizes),
        Level.FUSED: Legality(fused_ops, tensors, sizes),
        Level.TASKS: Legality(frozenset(tasks), (TensorType,), {
            **kernels,
            npu.LaunchOp: (r.launch_matches, r.into_empty, r.on_no_stream),
            **dict.fromkeys(views, (r.is_view,)),
        }, kernel),
        Level.BUFFERS: Legality(frozenset(buffers), (MemRefType,), {
            **kernels,
            **on_buffers,
            npu.LaunchOp: (r.launch_matches, r.on_buffers, r.on_no_stream),
            **dict.fromkeys(copies, (r.on_buffers, r.on_no_stream)),
        }, kernel),
        Level.PROGRAM: Legality(
            frozenset(buffers | {PipelineOp, npu.SlotOp, npu.RecordOp, npu.WaitOp}), values, {
                **kernels,
                **on_buffers,
                npu.LaunchOp: (r.launch_matches, r.on_buffers, r.on_a_stream),
                **dict.fromkeys(copies, (r.on_buffers, r.on_a_stream)),
                npu.RecordOp: (r.on_a_stream, r.event_in_range), npu.WaitOp: (r.on_a_stream,),
                npu.SlotOp: (r.slot_inside,),
                AllocOp: (r.on_buffers, r.on_host),
            }, kernel, STREAMS,
        ),
    }  # fmt: skip


def level_of(module: "ModuleOp") -> Level:
    """The lowest level that something in @main is of: an op, the type of a value, or a mark."""
    from xdsl.dialects.func import FuncOp

    from ge.dialects.support.functions import main_function
    from ge.dialects.support.operation import all_ops

    main = main_function(module)
    if main is None:
        return Level.GRAPH
    ops = all_ops(main.body.blocks)
    kinds: set[type] = {FuncOp, *map(type, ops)}
    kinds |= {type(v.type) for op in ops for v in op.results}
    kinds |= {type(v.type) for v in main.args}
    level, above = Level.GRAPH, set[type]()
    for lower, legal in legality().items():
        own = {*legal.main, *legal.values} - above
        if kinds & own or legal.mark in main.attributes:
            level = lower
        above |= own
    return level
