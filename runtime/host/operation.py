"""The interface that the host calls: operations of one or more kernels, and graphs of operations.

    pack = VariantPack([x, w], [y])
    workspace = context.workspace(operation.setup(pack))
    operation.execute(pack, workspace, context)

`setup` checks the pack, finds the tilings of all kernels and tells how many bytes of workspace it
takes. It is skipped where types and shapes are those of the last call. `execute` first fills the
arguments of all launches (`prelaunch`), then launches (`launch`). A graph sets up all of its
operations before it executes the first one; tensors between them have their place in its workspace.

Launches of operations are recorded to be replayed as often as one likes:

    with ge.host.capture(context.stream(0)) as graph:
        operation.execute(pack, workspace, context)  # computes nothing yet
    graph.replay()
    graph.replay(other)     # with the values of another pack of the same types and shapes

While a stream is captured nobody may wait for the device, and the workspace may not grow."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from math import prod
from typing import Any

import numpy as np

from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed
from ge.runtime.data.arrays import Array
from ge.runtime.host.context import (
    ALIGNMENT,
    Context,
    KernelCaches,
    Lookup,
    Stream,
    Workspace,
)


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """The element type and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: Array) -> "TensorDesc":
        return cls(str(array.dtype), array.shape)

    @property
    def bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


Descs = tuple[tuple[TensorDesc, ...], tuple[TensorDesc, ...]]  # of inputs and outputs


@dataclass(slots=True)
class VariantPack:
    """The tensors of a call: arrays, or descriptions of them where nothing is computed."""

    inputs: Sequence[Array | TensorDesc]
    outputs: Sequence[Array | TensorDesc]

    @property
    def descs(self) -> Descs:
        return tuple(map(_desc, self.inputs)), tuple(map(_desc, self.outputs))


def _desc(value: Array | TensorDesc) -> TensorDesc:
    if isinstance(value, TensorDesc):
        return value
    if not isinstance(value, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GeError(f"tensors are arrays or descriptions, not of type {type(value).__name__}")
    return TensorDesc.of(value)


@dataclass(slots=True)
class SetupOutcome:
    """Counts of the work of a call of `setup`."""

    skipped: int = 0  # operations whose setup was skipped
    done: int = 0  # operations that were set up
    lookups: list[Lookup] = field(default_factory=list[Lookup])

    def add(self, other: "SetupOutcome") -> None:
        self.skipped += other.skipped
        self.done += other.done
        self.lookups += other.lookups


class Operation(ABC):
    """Own ones define `infer` and `compute` (one kernel), or override `prepare` and `launch`."""

    def __init__(self, name: str, caches: KernelCaches | None = None) -> None:
        self.name = name
        self.caches = KernelCaches() if caches is None else caches
        self.outcome = SetupOutcome()
        self._local = self.caches.local()
        self._known: Hashable = None
        self._bytes = 0

    @property
    def operations(self) -> int:
        """Number of operations of one kernel."""
        return 1

    def setup(self, pack: VariantPack) -> int:
        """The bytes of workspace that a call with such tensors takes. Raises GeError for tensors
        that the operation does not take."""
        descs = pack.descs
        if self._known == descs:
            self.outcome = SetupOutcome(skipped=self.operations)
            return self._bytes
        self._known, self.outcome = None, SetupOutcome()
        self._bytes = self.prepare(pack)
        self._known = descs
        return self._bytes

    def execute(self, pack: VariantPack, workspace: Workspace, context: Context) -> None:
        """Compute. Raises GeError where `setup` was not called with such tensors, and for a
        workspace that is too small."""
        if self._known != pack.descs:
            hint = "call setup(pack) before execute(pack, ...)"
            raise GeError(f"operation '{self.name}' is not set up for these tensors", hint=hint)
        if workspace.size < self._bytes:
            raise GeError(
                f"operation '{self.name}' takes {self._bytes} bytes of workspace, "
                f"there are {workspace.size}",
                hint="give it context.workspace(operation.setup(pack))",
            )
        self.prelaunch(pack, workspace, context)
        self.launch(pack, workspace, context)

    def prelaunch(self, pack: VariantPack, workspace: Workspace, context: Context) -> None:
        """Check the facts that only the arrays tell."""
        self.check_arrays(pack)
        if context.current.recorder is not None:
            context.current.recorder.called(pack)

    def check_arrays(self, pack: VariantPack) -> None:
        """Raises GeError for descriptions instead of arrays, and for outputs that are read-only."""
        for value in (*pack.inputs, *pack.outputs):
            if isinstance(value, TensorDesc):
                raise GeError(f"operation '{self.name}' has a description {value} for an array")
        for number, value in enumerate(pack.outputs):
            if not isinstance(value, TensorDesc) and not value.flags.writeable:
                raise GeError(f"operation '{self.name}': the array of output {number} is read-only")

    def prepare(self, pack: VariantPack) -> int:
        inputs, outputs = pack.descs
        inferred = self.infer(inputs)
        if tuple(inferred) != outputs:
            want, got = (", ".join(map(str, d)) or "nothing" for d in (inferred, outputs))
            raise GeError(f"operation '{self.name}' gives {want}, but the outputs are {got}")
        self.outcome.done += 1
        self.outcome.lookups.append(self.tiling(inputs, outputs))
        return 0

    def tiling(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> Lookup:
        sizes = (*inputs, *outputs)
        return self.caches.find(self._local, self.name, (self.name, sizes), sizes)

    def launch(self, pack: VariantPack, workspace: Workspace, context: Context) -> None:
        context.issue(self, pack, self._run)

    def _run(self, pack: VariantPack) -> None:
        arrays = [v for v in pack.inputs if not isinstance(v, TensorDesc)]
        results = self.compute(*arrays)
        values = (results,) if isinstance(results, np.ndarray) else tuple(results)
        if len(values) != len(pack.outputs):
            text = f"{len(values)} arrays for {len(pack.outputs)} outputs"
            raise GeError(f"operation '{self.name}' computed {text}")
        for place, value in zip(pack.outputs, values, strict=True):
            assert not isinstance(place, TensorDesc)
            if value.shape != place.shape or value.dtype != place.dtype:
                got, want = TensorDesc.of(value), TensorDesc.of(place)
                raise GeError(f"operation '{self.name}' computed {got} for an output {want}")
            np.copyto(place, value)

    @abstractmethod
    def infer(self, inputs: Sequence[TensorDesc]) -> Sequence[TensorDesc]:
        """The results' descriptions. Raises GeError for inputs that are not taken."""

    def compute(self, *inputs: Array) -> Array | Sequence[Array]:
        raise GeError(f"operation '{self.name}' has no kernel")


# ---- graphs ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """A call in a graph. Tensors have numbers: the graph's inputs, its outputs, then the others in
    the order in which nodes write them."""

    operation: Operation
    inputs: Sequence[int]
    outputs: Sequence[int]


Places = dict[int, tuple[TensorDesc, int]]
"""Of tensors by number: what is there, and the offset."""


class GraphOperation(Operation):
    """Operations that run in order; tensors between them are in the workspace."""

    def __init__(
        self,
        name: str,
        inputs: int,
        outputs: int,
        nodes: Sequence[Node],
        caches: KernelCaches | None = None,
    ) -> None:
        super().__init__(name, caches)
        self.counts, self.nodes = (inputs, outputs), nodes
        self._placed: tuple[Hashable, Places, int] = None, {}, 0  # of which descriptions
        self._check_nodes()

    def _check_nodes(self) -> None:
        """Raises GeError where tensors are not written once, before they are read."""
        inputs, end = self.counts[0], sum(self.counts)
        written = set(range(inputs))
        for node in self.nodes:
            text = f"graph '{self.name}': '{node.operation.name}'"
            if missing := [i for i in node.inputs if i not in written]:
                raise GeError(f"{text} reads tensor {missing[0]}, which no node before it writes")
            for i in node.outputs:
                if i in written:
                    what = "an input" if i < inputs else "written already"
                    hint = "give each result a number of its own"
                    raise GeError(f"{text} writes tensor {i}, which is {what}", hint=hint)
                written.add(i)
        if missing := [i for i in range(inputs, end) if i not in written]:
            raise GeError(f"graph '{self.name}': no node writes output {missing[0] - inputs}")

    @property
    def operations(self) -> int:
        return sum(node.operation.operations for node in self.nodes)

    def infer(self, inputs: Sequence[TensorDesc]) -> Sequence[TensorDesc]:
        known = self._infer_all(inputs)
        return [known[i] for i in range(self.counts[0], sum(self.counts))]

    def _infer_all(self, inputs: Sequence[TensorDesc]) -> dict[int, TensorDesc]:
        if len(inputs) != self.counts[0]:
            text = f"{self.counts[0]} inputs, {len(inputs)} were given"
            raise GeError(f"graph '{self.name}' takes {text}")
        known = dict(enumerate(inputs))
        for node in self.nodes:
            results = node.operation.infer([known[i] for i in node.inputs])
            if len(results) != len(node.outputs):
                text = f"gives {len(results)} tensors, its node has {len(node.outputs)} outputs"
                raise GeError(f"graph '{self.name}': '{node.operation.name}' {text}")
            known.update(zip(node.outputs, results, strict=True))
        return known

    def prepare(self, pack: VariantPack) -> int:
        inputs, outputs = pack.descs
        known = self._infer_all(inputs)
        first, last = self.counts[0], sum(self.counts)
        want = [known[i] for i in range(first, last)]
        if want != list(outputs):
            texts = (", ".join(map(str, d)) for d in (want, outputs))
            raise GeError("graph '{}' gives {}, but the outputs are {}".format(self.name, *texts))
        below = 0
        for node in self.nodes:
            ins, outs = ([known[i] for i in ids] for ids in (node.inputs, node.outputs))
            below = max(below, node.operation.setup(VariantPack(ins, outs)))
            self.outcome.add(node.operation.outcome)
        self._placed = pack.descs, *self._place({i: d for i, d in known.items() if i >= last})
        return self._placed[2] + below

    def _places(self, pack: VariantPack) -> "tuple[Places, int]":
        """Places of tensors in the workspace, and the bytes that they take. They are those of the
        last setup, unless another node calls the same graph with other shapes."""
        descs = pack.descs
        if self._placed[0] != descs:
            known = self._infer_all(descs[0])
            inner = {i: d for i, d in known.items() if i >= sum(self.counts)}
            self._placed = descs, *self._place(inner)
        return self._placed[1:]

    def _place(self, descs: dict[int, TensorDesc]) -> "tuple[Places, int]":
        """First fit by when tensors are live."""
        places: Places = {}
        size = 0
        uses: dict[int, tuple[int, int]] = {}
        for step, node in enumerate(self.nodes):
            for i in (*node.inputs, *node.outputs):
                if i in descs:
                    uses[i] = uses.get(i, (step, step))[0], step
        for i, (start, end) in sorted(uses.items(), key=lambda u: -descs[u[0]].bytes):
            taken = sorted(
                (offset, offset + other.bytes)
                for j, (other, offset) in places.items()
                if uses[j][0] <= end and start <= uses[j][1]
            )
            offset = 0
            for low, high in taken:
                if low - offset >= descs[i].bytes:
                    break
                offset = max(offset, -(-high // ALIGNMENT) * ALIGNMENT)
            places[i] = descs[i], offset
            size = max(size, offset + descs[i].bytes)
        return places, -(-size // ALIGNMENT) * ALIGNMENT

    def launch(self, pack: VariantPack, workspace: Workspace, context: Context) -> None:
        tensors: dict[int, Array | TensorDesc] = dict(enumerate((*pack.inputs, *pack.outputs)))
        places, own = self._places(pack)
        for i, (desc, offset) in places.items():
            tensors[i] = workspace.array(offset, desc.dtype, desc.shape)
        rest = workspace.after(own)
        for node in self.nodes:
            ins, outs = ([tensors[i] for i in ids] for ids in (node.inputs, node.outputs))
            node.operation.launch(VariantPack(ins, outs), rest, context)


# ---- users' operations -----------------------------------------------------------------------

_REGISTERED: dict[str, Callable[..., Operation]] = {}


class _UserOperation(Operation):
    def __init__(
        self,
        name: str,
        kernel: Callable[..., Array | Sequence[Array]],
        infer: Callable[..., TensorDesc | Sequence[TensorDesc]],
        parameters: dict[str, object],
    ) -> None:
        super().__init__(name)
        self._kernel, self._infer, self._parameters = kernel, infer, parameters

    def infer(self, inputs: Sequence[TensorDesc]) -> Sequence[TensorDesc]:
        self._require(self._infer, inputs, {})
        self._require(self._kernel, inputs, self._parameters)
        results = self._infer(*inputs)
        several = [results] if isinstance(results, TensorDesc) else results
        is_list = isinstance(several, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_list or any(type(d) is not TensorDesc for d in several):
            raise GeError(f"operation '{self.name}': infer gives {results!r}, not descriptions")
        return several

    def compute(self, *inputs: Array) -> Array | Sequence[Array]:
        return self._kernel(*inputs, **self._parameters)

    def _require(
        self, function: Callable[..., Any], inputs: Sequence[object], parameters: dict[str, object]
    ) -> None:
        """Raises GeError where a function of the user's does not take these."""
        try:
            taken = signature(function)
        except ValueError:  # it is not written in Python
            return
        try:
            taken.bind(*inputs, **parameters)
        except TypeError as e:
            text = "".join(f", {name}={value!r}" for name, value in parameters.items())
            given = f"{len(inputs)} inputs{text}"
            raise GeError(f"operation '{self.name}' does not take {given}: {e}") from None

    def tiling(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> Lookup:
        sizes = (*inputs, *outputs)
        key = (self.name, tuple(map(str, self._parameters.items())), sizes)
        return self.caches.find(self._local, self.name, key, sizes)


def register_operation(
    name: str,
    kernel: Callable[..., Array | Sequence[Array]],
    infer: Callable[..., TensorDesc | Sequence[TensorDesc]],
) -> None:
    """Make an operation known: `kernel` computes arrays from arrays and the parameters that
    `create_operation` is given, `infer` descriptions from descriptions. Raises GeError for a name
    that is taken."""
    if name in _REGISTERED:
        raise GeError(f"there is an operation '{name}' already", hint="choose another name")
    for what, function in (("kernel", kernel), ("infer", infer)):
        if not callable(function):
            raise GeError(f"operation '{name}': {what} is no function, but {function!r}")

    def make(**parameters: object) -> Operation:
        return _UserOperation(name, kernel, infer, parameters)

    _REGISTERED[name] = make


def create_operation(name: str, **parameters: object) -> Operation:
    """An operation that is registered, here or by an installed package. Raises GeError for an
    unknown name."""
    providers = {n: (p, m) for p in installed() for n, m in p.adds.operations.items()}
    if name not in _REGISTERED and name in providers:
        package, module = providers[name]
        package.load(module)
    if name not in _REGISTERED:
        known = ", ".join(sorted({*_REGISTERED, *providers})) or "none"
        hint = f"registered: {known}; see ge.host.register_operation"
        raise GeError(f"there is no operation '{name}'", hint=hint)
    return _REGISTERED[name](**parameters)


class CapturedGraph:
    """Tasks, with the arrays that they were recorded with."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Operation, VariantPack, Callable[[VariantPack], None]]] = []
        self.calls: list[VariantPack] = []
        self.open = True

    def called(self, pack: VariantPack) -> None:
        self.calls.append(pack)

    def record(
        self, operation: Operation, pack: VariantPack, run: Callable[[VariantPack], None]
    ) -> None:
        self.tasks.append((operation, pack, run))

    def replay(self, pack: VariantPack | None = None) -> None:
        """Run the tasks on the arrays that they were recorded with; those of a pack are copied
        there before, and results back. Raises GeError for a pack of other shapes."""
        if self.open:
            raise GeError("the graph is replayed while it is captured", hint="leave the block")
        if pack is not None:
            self._check(pack)
            _copy(pack.inputs, self.calls[0].inputs)
        for _, recorded, run in self.tasks:
            run(recorded)
        if pack is not None:
            _copy(self.calls[0].outputs, pack.outputs)

    def update(self, number: int, pack: VariantPack) -> None:
        """Have one task work on other arrays, also of other shapes that its operation takes. Raises
        GeError where there is no such task."""
        if type(number) is not int or not 0 <= number < len(self.tasks):
            raise GeError(f"there is no task {number!r}, the graph has {len(self.tasks)}")
        operation, _, run = self.tasks[number]
        operation.setup(pack)
        operation.check_arrays(pack)
        self.tasks[number] = operation, pack, run

    def _check(self, pack: VariantPack) -> None:
        if len(self.calls) != 1:
            raise GeError(f"{len(self.calls)} calls were captured: a pack is for one")
        want, got = self.calls[0].descs, pack.descs
        if want != got:
            texts = (", ".join(map(str, (*ins, *outs))) for ins, outs in (want, got))
            raise GeError(
                "the graph was captured with {}, it cannot be replayed with {}".format(*texts),
                hint="capture again",
            )


def _copy(sources: Sequence[Array | TensorDesc], targets: Sequence[Array | TensorDesc]) -> None:
    for source, target in zip(sources, targets, strict=True):
        if not isinstance(target, TensorDesc) and not isinstance(source, TensorDesc):
            np.copyto(target, source)


@contextmanager
def capture(stream: Stream) -> Generator[CapturedGraph]:
    """Record the work that is issued to a stream. Raises GeError when it is captured already."""
    if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "give it one of a context: context.stream(0)"
        raise GeError(f"{stream!r} is no stream", hint=hint)
    if stream.recorder is not None:
        raise GeError(f"stream {stream.number} is captured already")
    graph = CapturedGraph()
    stream.recorder = graph
    try:
        yield graph
    finally:
        stream.recorder = None
        graph.open = False
