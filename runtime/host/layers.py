"""The layers of a compiled program as operations on tensors of the caller's:

    layers = ge.host.layers(program)
    values = {**layers.constants, "x": x}
    for call in layers.calls:
        values |= {name: np.empty(desc.shape, desc.dtype) for name, desc in call.outputs.items()}
        pack = VariantPack([values[n] for n in call.inputs], [values[n] for n in call.outputs])
        call.operation.execute(pack, context.workspace(call.operation.setup(pack)), context)

Each layer has one operation: calls of the same kernels, wired the same way, share it. Inputs are
the values that its launches read and do not write before, weights among them; outputs are those
that others read. The contents of a buffer before and after a launch are two tensors:

    launch @add ins(%a, %b) outs(%a)
    launch @exp ins(%a) outs(%c)        ->  add [a, b] -> [t], exp [t] -> [c]

A launch that writes a part of a buffer takes what it held before and gives all of it. Copies from
and to the host are the caller's.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.constant import WeightAttr
from ge.dialects.npu_task.attributes import STATE, data_type
from ge.dialects.npu_task.control import CaseOp, IfOp, LoopOp
from ge.dialects.npu_task.memory import MemoryView, owner_of, view_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import yielded
from ge.dialects.support.types import is_dynamic, shape_of
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.weights import Payload
from ge.runtime.device.interpreter import KernelCode, Translator
from ge.runtime.device.ports import input_ports, output_ports
from ge.runtime.device.session import main_of
from ge.runtime.host.context import KernelCaches
from ge.runtime.host.host import HostProgram, epochs
from ge.runtime.host.operation import GraphOperation, Node, TensorDesc
from ge.runtime.host.program import KernelOperation, Leaf, Operations

Run = Callable[[Sequence[Array], Sequence[Array]], object]


@dataclass(slots=True)
class LayerCall:
    """A call of an operation in the program, with the tensors that it has there by name."""

    operation: GraphOperation
    inputs: dict[str, TensorDesc]
    outputs: dict[str, TensorDesc]


@dataclass(slots=True)
class Layers:
    """The calls in order, and the values of weights and other constants."""

    calls: list[LayerCall]
    constants: dict[str, Array]


def layers(program: HostProgram) -> Layers:
    """The layers of a program, without the copies from and to the host. Raises GeError for a
    program without a session, with branches or loops, or whose shapes are not known."""
    if program.session is None:
        raise GeError("layers of a program compute", hint="give HostProgram a session")
    if control := [op for op in program.block.ops if isinstance(op, IfOp | CaseOp | LoopOp)]:
        where = str(location_of(control[0]))
        raise GeError(f"layers are of programs without {control[0].name}", where)
    buffers = _Buffers(program)
    find, caches = Operations(KernelCaches()), KernelCaches()
    units = [u.launches for ops in epochs(program) for u in find.graphs(program.leaves.of(ops))]
    traces = [_Trace(launches, buffers) for launches in units if launches]
    live: dict[Hashable, set[int]] = {}
    for trace in traces:
        live.setdefault(trace.key, set()).update(trace.live)
    operations: dict[Hashable, GraphOperation] = {}
    calls: list[LayerCall] = []
    for trace in traces:
        outputs = sorted(live[trace.key])
        operation = operations.get(trace.key)
        if operation is None:
            operation = trace.operation(f"layer_{len(operations)}", outputs, caches)
            operations[trace.key] = operation
        calls.append(LayerCall(operation, *trace.named(outputs)))
    return Layers(calls, buffers.constants)


# ---- buffers ---------------------------------------------------------------------------------


class _Buffers:
    """The buffers of a program: their names, and their users."""

    def __init__(self, program: HostProgram) -> None:
        assert program.session is not None
        self.block = program.block
        self.order = {op: i for i, op in enumerate(self.block.ops)}
        self.constants: dict[str, Array] = {}
        self._names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._translator = Translator(program.session.weights)
        self._kernels = {k.sym_name.data: k for k in program.module.ops if isinstance(k, KernelOp)}
        self._known: dict[str, _Kernel] = {}
        main = main_of(program.module)
        arguments = zip(self.block.args, input_ports(main), strict=True)
        results = zip(map(owner_of, yielded(self.block)), output_ports(main), strict=True)
        self._ports = {value: p.name for value, p in (*results, *arguments)}

    def kernel(self, op: Operation) -> "_Kernel":
        if not isinstance(op, LaunchOp):
            return _COPY
        if op.callee not in self._known:
            self._known[op.callee] = _Kernel.of(self._kernels[op.callee], self._translator.payload)
        return self._known[op.callee]

    def users(self, owner: SSAValue) -> Iterator[Operation]:
        """Yield the program's ops that read or write a buffer; an op nested in one of these counts
        as that one."""
        for use in owner.uses:
            op: Operation | None = use.operation
            if isinstance(op, ReinterpretCastOp):
                yield from self.users(op.result)
            else:
                while op is not None and op.parent is not self.block:
                    op = op.parent_op()
                if op is not None:
                    yield op

    def name(self, owner: SSAValue) -> str:
        """A weight's key; a state's name; the input or output that it is copied from or to; else a
        number. No two buffers have the same."""
        known = self._names.get(owner)
        if known is None:
            text = self._text(owner)
            known = text if text and text not in self._taken else f"{text}#{len(self._names)}"
            self._names[owner] = known
            self._taken.add(known)
            if isinstance(op := owner.owner, ConstantOp | GraphConstantOp):
                self.constants[known] = self._translator.value_of(op.value, op.result.type)
        return known

    def _text(self, owner: SSAValue) -> str:
        op = owner.owner
        if isinstance(op, ConstantOp | GraphConstantOp):
            return op.value.data if isinstance(op.value, WeightAttr) else "constant"
        if isinstance(op, Operation) and isinstance(state := op.attributes.get(STATE), StringAttr):
            return state.data
        if owner in self._ports:
            return self._ports[owner]
        for user in self.users(owner):
            both = [view_of(v) for v in (*user.operands, *user.results)]
            if not isinstance(user, LaunchOp) and len(both) == 2:
                other = both[0].owner if both[1].owner is owner else both[1].owner
                if other in self._ports and prod(both[0].sizes) == prod(_shape(owner)):
                    return self._ports[other]
        return ""


def _shape(owner: SSAValue) -> tuple[int, ...]:
    return tuple(data_type(owner.type)[1])


def _desc(owner: SSAValue) -> TensorDesc:
    if is_dynamic(owner.type):
        hint = "compile it for one shape, with --dim or --shape"
        raise GeError("the layers of a program of unknown shapes are not known", hint=hint)
    return TensorDesc(str(dtype_of(data_type(owner.type)[0])), _shape(owner))


# ---- kernels ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kernel:
    """A kernel that takes its constants of more than one element as further inputs: kernels that
    differ in their values have one `text`."""

    text: str
    constants: list[SSAValue]
    run: Run

    @classmethod
    def of(cls, op: KernelOp, payload: Payload) -> "_Kernel":
        copy = op.clone()
        block, constants = copy.body.block, list[SSAValue]()
        for original, inner in zip(op.body.block.ops, [*block.ops], strict=True):
            if isinstance(inner, GraphConstantOp) and prod(shape_of(inner.result)) > 1:
                constants.append(original.results[0])
                argument = block.insert_arg(inner.result.type, len(block.args))
                inner.result.replace_all_uses_with(argument)
                inner.detach()
        copy.sym_name = StringAttr("kernel")
        return cls(str(copy), constants, KernelCode(copy, payload).run)


def _copied(ins: Sequence[Array], outs: Sequence[Array]) -> None:
    np.copyto(outs[0], ins[0])


_COPY = _Kernel("copy", [], _copied)


# ---- launches --------------------------------------------------------------------------------

Part = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Number of a tensor among those of a node, and offset, sizes and strides of the view."""


def _part(number: int, view: MemoryView) -> Part:
    return number, view.offset, tuple(view.sizes), tuple(view.strides)


@dataclass(slots=True)
class _Step:
    """A launch: tensors that it takes and gives, the views of them that its kernel has, and which
    of the taken ones the given ones continue (None: they are written as a whole)."""

    leaf: Leaf
    kernel: _Kernel
    takes: list[int] = field(default_factory=list[int])
    gives: list[int] = field(default_factory=list[int])
    views: tuple[list[Part], list[Part]] = field(default_factory=lambda: ([], []))
    continues: list[int | None] = field(default_factory=list[int | None])

    @property
    def key(self) -> Hashable:
        lists = (self.takes, self.gives, self.continues, *self.views)
        return self.kernel.text, *map(tuple, lists)


class _LaunchOperation(KernelOperation):
    """A launch on whole buffers."""

    def __init__(
        self,
        step: _Step,
        descs: tuple[tuple[TensorDesc, ...], tuple[TensorDesc, ...]],
        caches: KernelCaches,
    ) -> None:
        assert step.leaf.signature is not None
        super().__init__(step.leaf.signature, caches)
        self.variants[descs] = step.leaf.signature
        self.step, self.gives = step, descs[1]

    def compute(self, *inputs: Array) -> Sequence[Array]:
        outs = [
            np.empty(desc.shape, desc.dtype) if before is None else inputs[before].copy()
            for before, desc in zip(self.step.continues, self.gives, strict=True)
        ]
        ins = [np.ascontiguousarray(x) for x in inputs]
        self.step.kernel.run(
            [_viewed(ins, part) for part in self.step.views[0]],
            [_viewed(outs, part) for part in self.step.views[1]],
        )
        return outs


def _viewed(arrays: Sequence[Array], part: Part) -> Array:
    number, offset, sizes, strides = part
    array = arrays[number]
    if sizes == array.shape and not offset:
        return array
    steps = [s * array.itemsize for s in strides]
    return np.ndarray(sizes, array.dtype, array, offset * array.itemsize, steps)


class _Trace:
    """Launches of a part of the program, with the contents of buffers as tensors, numbered as they
    come."""

    def __init__(self, launches: Sequence[Leaf], buffers: _Buffers) -> None:
        self.buffers = buffers
        self.owners: list[SSAValue] = []  # of tensors
        self.inputs: list[int] = []
        self._holds: dict[SSAValue, int] = {}
        self._own = {leaf.op for leaf in launches}
        self._first: dict[SSAValue, int] = {}  # where a buffer is written first
        self.steps = [self._step(leaf) for leaf in launches]
        self.key: Hashable = tuple(s.key for s in self.steps), tuple(map(_desc, self.owners))
        end = len(buffers.order)
        self.live = {self._holds[o] for o, at in self._first.items() if self._is_used(o, at, end)}

    def named(self, outputs: Sequence[int]) -> tuple[dict[str, TensorDesc], dict[str, TensorDesc]]:
        """The inputs and outputs of this call. A tensor that only another call of the operation
        needs has a name that no buffer has."""
        names = {t: self.buffers.name(self.owners[t]) for t in {*self.inputs, *self.live}}
        tables = (
            {names.get(t, f"unused#{t}"): _desc(self.owners[t]) for t in tensors}
            for tensors in (self.inputs, outputs)
        )
        return next(tables), next(tables)

    def operation(self, name: str, outputs: Sequence[int], caches: KernelCaches) -> GraphOperation:
        numbers = {t: i for i, t in enumerate((*self.inputs, *outputs))}
        for step in self.steps:
            for t in step.gives:
                numbers.setdefault(t, len(numbers))
        nodes: list[Node] = []
        for step in self.steps:
            takes, gives = ([_desc(self.owners[t]) for t in ts] for ts in (step.takes, step.gives))
            kernel = _LaunchOperation(step, (tuple(takes), tuple(gives)), caches)
            nodes.append(
                Node(kernel, [numbers[t] for t in step.takes], [numbers[t] for t in step.gives])
            )
        return GraphOperation(name, len(self.inputs), len(outputs), nodes, caches)

    def _step(self, leaf: Leaf) -> _Step:
        step = _Step(leaf, self.buffers.kernel(leaf.op))
        for value in (*leaf.ins, *step.kernel.constants):
            view = view_of(value)
            step.views[0].append(_part(self._take(step, self._read(view.owner)), view))
        written: dict[SSAValue, int] = {}
        for value in leaf.outs:
            view = view_of(value)
            written[view.owner] = written.get(view.owner, 0) + prod(view.sizes)
        places = {owner: i for i, owner in enumerate(written)}
        for owner, count in written.items():
            step.continues.append(None)
            if count < prod(_shape(owner)) and self._holds_values(owner, leaf):
                step.continues[-1] = self._take(step, self._read(owner))
        for owner in written:
            step.gives.append(self._new(owner))
            self._first.setdefault(owner, self.buffers.order[leaf.op])
        step.views[1].extend(_part(places[view.owner], view) for view in map(view_of, leaf.outs))
        return step

    def _take(self, step: _Step, tensor: int) -> int:
        if tensor not in step.takes:
            step.takes.append(tensor)
        return step.takes.index(tensor)

    def _read(self, owner: SSAValue) -> int:
        if owner not in self._holds:
            self.inputs.append(self._new(owner))
        return self._holds[owner]

    def _new(self, owner: SSAValue) -> int:
        self._holds[owner] = len(self.owners)
        self.owners.append(owner)
        return self._holds[owner]

    def _holds_values(self, owner: SSAValue, leaf: Leaf) -> bool:
        """True if somebody has written to a buffer before a launch."""
        at = self.buffers.order[leaf.op]
        return owner in self._holds or self._is_used(owner, -1, at)

    def _is_used(self, owner: SSAValue, after: int, before: int) -> bool:
        """True if others use a buffer in a part of the program's text."""
        order = self.buffers.order
        users = (op for op in self.buffers.users(owner) if op not in self._own)
        return any(after < order[op] < before for op in users)
