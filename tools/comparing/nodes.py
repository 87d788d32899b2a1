"""The nodes of a model by which two programs are compared: their order, what each reads, and which
of them a value in a program is the result of.

An op that came from several nodes (a fused op, a launch, what a rewriting made of two ops) gives
the result of the last of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ge.dialects.fused_op import FusedOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size
from ge.lowering.onnx.order import domain_of, in_order, node_name, reads


@dataclass
class Nodes:
    """Names in order, each with its kind of op and the names of the nodes that it reads."""

    ops: dict[str, str] = field(default_factory=dict[str, str])
    reads: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    results: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # of ONNX nodes

    def __post_init__(self) -> None:
        self.places = {name: number for number, name in enumerate(self.ops)}

    @classmethod
    def of_onnx(cls, model: ModelProto) -> "Nodes":
        """The nodes of the graph itself; of two with one name, and of constants, there is none."""
        counts = Counter(map(node_name, model.graph.node))
        nodes = [n for n in in_order(model.graph.node)
                 if counts[node_name(n)] == 1 and n.op_type != "Constant"]  # fmt: skip
        makers = {value: node_name(n) for n in nodes for value in n.output if value}
        known = cls()
        for node in nodes:
            name = node_name(node)
            known.ops[name] = ".".join(filter(None, (domain_of(node), node.op_type)))
            known.reads[name] = {makers[v] for v in reads(node) if v in makers} - {name}
            known.results[name] = list(node.output)
        known.__post_init__()
        return known

    @classmethod
    def of_module(cls, module: ModuleOp) -> "Nodes":
        """The sources of the ops of @main that a run shows (see `shown`)."""
        ops, known = list(shown(module)), cls()
        for op in ops:
            known.ops |= {name: op.name for name in sources_of(op) if name not in known.ops}
        known.__post_init__()
        makers: dict[SSAValue, str] = {}
        same, origins = passed(module), Origins(module)
        for op in ops:
            operands = op.ins if isinstance(op, LaunchOp) else op.operands
            owners = (owner_of(same.get(o, o)) for o in operands)
            sources = {makers[v] for v in owners if v in makers}
            for value, names in zip(written(op), origins.of(op), strict=True):
                if (name := known.last(names)) is not None:
                    known.ops[name] = op.name
                    known.reads.setdefault(name, set()).update(sources - {name})
                    makers[owner_of(value)] = name
                    makers |= dict.fromkeys(same_results(value), name)
        return known

    def last(self, names: Iterable[str]) -> str | None:
        """Of some names the last node; None where there is no node of any."""
        known = [name for name in names if name in self.places]
        return max(known, key=self.places.__getitem__, default=None)


def shown(module: ModuleOp) -> Iterator[Operation]:
    """The ops of @main that give values in a run, as `runtime/device/function.py` shows them: not
    those in branches and loops."""
    main = main_function(module)
    yield from () if main is None else _shown(main.body.block)


def _shown(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        if isinstance(op, FusedOp):
            yield from _shown(op.block)
        elif isinstance(op, LaunchOp | TensorOp) and not op.regions and op.operands:
            yield op


def passed(module: ModuleOp) -> dict[SSAValue, SSAValue]:
    """Arguments of the bodies of fused ops, and what they stand for."""
    fused = [op for op in module.walk() if isinstance(op, FusedOp)]
    return {a: v for op in fused for a, v in zip(op.block.args, op.inputs, strict=True)}


def same_results(value: SSAValue) -> Iterator[SSAValue]:
    """The results of the fused op around a value that it is handed out as."""
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    fused = None if block is None else block.parent_op()
    if isinstance(fused, FusedOp):
        pairs = zip(fused.results, fused.yielded, strict=True)
        yield from (result for result, inner in pairs if inner is value)


def written(op: Operation) -> Sequence[SSAValue]:
    return op.outs if isinstance(op, LaunchOp) and op.on_buffers else op.results


@dataclass
class Origins:
    """Which nodes each result of an op came from. That of a launch follows from the op in the body
    of its kernel that makes it; a kernel is named after the first of its launches, whose nodes
    correspond one by one to those of the others."""

    module: ModuleOp
    kernels: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    first: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        for op in self.module.ops:
            if isinstance(op, KernelOp):
                end = op.body.block.last_op
                self.kernels[op.sym_name.data] = [made_by(v) for v in end.operands] if end else []
        for op in shown(self.module):
            if isinstance(op, LaunchOp):
                self.first.setdefault(op.callee, sources_of(op))

    def of(self, op: Operation) -> list[list[str]]:
        """The nodes of each result; none where they are not known."""
        own, count = sources_of(op), len(written(op))
        if not isinstance(op, LaunchOp):
            return [own] * count
        inside, first = self.kernels.get(op.callee, []), self.first.get(op.callee, [])
        if len(inside) != count or len(first) != len(own):
            return [[] for _ in range(count)]
        twin = dict(zip(first, own, strict=True))
        return [[twin[n] for n in names if n in twin] for names in inside]


def made_by(value: SSAValue) -> list[str]:
    """The nodes of the op that makes a value, within fused ops."""
    while isinstance(value, OpResult) and isinstance(value.op, FusedOp):
        value = value.op.yielded[value.index]
    return sources_of(value.owner) if isinstance(value.owner, Operation) else []


def leaves(op: Operation, value: SSAValue, name: str, nodes: Nodes) -> bool:
    """Whether a value of an op is read by ops of other nodes, or by none: not a step within its
    own node."""
    uses = [u.operation for u in value.uses if u.operation is not op]
    return not uses or any(nodes.last(sources_of(user)) != name for user in uses)


def result_bytes(op: Operation) -> int:
    """Bytes of what an op writes, as far as sizes are known."""
    known = (v.type for v in written(op) if min(data_type(v.type)[1], default=0) >= 0)
    return sum(byte_size(t) for t in known)
