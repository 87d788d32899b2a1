"""A compiled program as operations: one for each launch, and a graph for each part of it.

Each layer has one graph: launches that repeat (the same kernels but for the values of constants and
for sizes, wired the same way) are calls of one graph.

    @norm @linear @attention @linear @norm @linear @attention @linear @head
    ->  layer(norm linear attention linear) twice, then part(head)
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.npu_task.attributes import HOST, data_type, space_of
from ge.dialects.npu_task.control import YieldOp
from ge.dialects.npu_task.memory import moves, owner_of
from ge.dialects.npu_task.ops import KernelOp, LaunchOp
from ge.dialects.support.element_types import type_name
from ge.dialects.support.errors import GeError
from ge.runtime.host import operation as host
from ge.runtime.host.context import KernelCaches, Lookup
from ge.runtime.host.operation import Descs, GraphOperation, Node, TensorDesc, VariantPack

MOST_PERIODS = 64  # lengths of layers that are tried


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel without the values of its constants: the part that stays when sizes change, the
    sizes, and its tiling."""

    kind: str
    structure: Hashable
    sizes: tuple[Hashable, ...]
    tiling: str = ""

    @classmethod
    def of(cls, kernel: KernelOp) -> "Signature":
        structure, sizes = list[Hashable](), list[Hashable]()
        numbers: dict[SSAValue, int] = {}

        def type_of(value: SSAValue) -> Hashable:
            element, shape = data_type(value.type) if _shaped(value.type) else (value.type, ())
            sizes.extend(shape)
            return element, len(shape), numbers.setdefault(value, len(numbers))

        for op in kernel.body.walk():
            stated = () if isinstance(op, ConstantOp) else (*op.properties, *op.attributes)
            sizes.extend(str(op.properties.get(n, op.attributes.get(n))) for n in stated)
            blocks = (b.args for region in op.regions for b in region.blocks)
            inner = tuple(type_of(a) for args in blocks for a in args)
            operands = tuple(numbers.get(v, -1) for v in op.operands)
            structure.append((op.name, stated, operands, inner, *map(type_of, op.results)))
        arguments = tuple(type_of(a) for a in kernel.body.block.args)
        tiling = str(kernel.engine.data)
        if kernel.tiling is not None:  # tiles and cores follow from sizes too
            sizes += [*kernel.tiling.sizes, kernel.tiling.blocks.data]
            tiling += f" {kernel.tiling.buffers.data}"
        return cls(kernel.main.name, (*structure, arguments), tuple(sizes), tiling)


def _shaped(t: Attribute) -> bool:
    return isinstance(t, TensorType)


class KernelOperation(host.Operation):
    """A launch of a program. Its kernel follows from the shapes: one that a call of another size
    brings along differs in `sizes`, of which those in `growing` are no part of its key."""

    def __init__(self, signature: Signature, caches: KernelCaches | None = None) -> None:
        super().__init__(signature.kind, caches)
        self.structure = signature.structure
        self.growing: set[int] = set()
        self.variants: dict[Descs, Signature] = {}

    def infer(self, inputs: Sequence[TensorDesc]) -> Sequence[TensorDesc]:
        for ins, outs in self.variants:
            if ins == tuple(inputs):
                return outs
        raise GeError(f"operation '{self.name}' has no kernel for {', '.join(map(str, inputs))}")

    def tiling(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> Lookup:
        found = self.variants[tuple(inputs), tuple(outputs)]
        fixed = tuple(None if i in self.growing else n for i, n in enumerate(found.sizes))
        key = self.structure, fixed, found.tiling
        return self.caches.find(self._local, self.name, key, found.sizes)


# ---- launches --------------------------------------------------------------------------------


@dataclass(slots=True)
class Leaf:
    """A task of the program; without a signature a copy between host and device."""

    number: int  # among the tasks between two barriers
    op: Operation
    signature: Signature | None
    ins: list[SSAValue] = field(default_factory=list[SSAValue])
    outs: list[SSAValue] = field(default_factory=list[SSAValue])

    @property
    def pack(self) -> VariantPack:
        return VariantPack([desc_of(v) for v in self.ins], [desc_of(v) for v in self.outs])


def desc_of(value: SSAValue) -> TensorDesc:
    element, shape = data_type(value.type)
    return TensorDesc(type_name(element), tuple(shape))


class Leaves:
    """The tasks of a module as leaves; the signature of a kernel is worked out once."""

    def __init__(self, module: ModuleOp) -> None:
        self._kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
        self._signatures: dict[str, Signature] = {}

    def of(self, ops: Iterable[Operation]) -> list[Leaf]:
        return [self._leaf(number, op) for number, op in enumerate(ops)]

    def _leaf(self, number: int, op: Operation) -> Leaf:
        if isinstance(op, LaunchOp):
            if op.callee not in self._signatures:
                self._signatures[op.callee] = Signature.of(self._kernels[op.callee])
            outs = [*op.outs, *op.results]
            return Leaf(number, op, self._signatures[op.callee], [*op.ins], outs)
        if isinstance(op, YieldOp):  # copies what it yields where the values go
            source, target = next(
                (m.value, t) for m in moves(op) if (t := m.target) is not None and t is not m.value
            )
        else:
            source, target = (*op.operands, *op.results)[:2]
        if HOST in (space_of(source.type), space_of(target.type)):
            return Leaf(number, op, None)
        element, shape = data_type(source.type)
        return Leaf(number, op, Signature("copy", element, tuple(shape)), [source], [target])


# ---- layers ----------------------------------------------------------------------------------


def repeats(keys: Sequence[int], first: int = 0) -> Iterator[tuple[int, int, int]]:
    """Start, length and number of the parts that repeat, one directly after the other: of those in
    reach the ones that cover most, then those before and after."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, key in enumerate(keys):
        if key in last:
            distances[i - last[key]] += 1
        last[key] = i
    best = (0, 0, 0, 0)  # covered, less the length, start, count
    for period, _ in distances.most_common(MOST_PERIODS):
        run = 0
        for i in range(len(keys) - period + 1):
            same = i + period < len(keys) and keys[i] == keys[i + period]
            if not same and run >= period > 1:
                count = run // period + 1
                best = max(best, (count * period, -period, run - i, count))
            run = run + 1 if same else 0
    covered, period, start, count = best[0], -best[1], -best[2], best[3]
    if not covered:
        return
    yield from repeats(keys[:start], first)
    yield first + start, period, count
    yield from repeats(keys[start + covered :], first + start + covered)


@dataclass(slots=True)
class HostUnit:
    """A part that is set up and executed in one go: an operation, and the tasks that are its
    launches, with the copies between host and device that come among them."""

    operation: host.Operation
    pack: VariantPack
    leaves: list[Leaf]

    @property
    def launches(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.signature is not None]


class Operations:
    """The operations of a host, kept from program to program."""

    def __init__(self, caches: KernelCaches) -> None:
        self.caches = caches
        self._graphs: dict[Hashable, ProgramGraph] = {}
        self._single: dict[Hashable, KernelOperation] = {}
        self._numbers: dict[Hashable, int] = {}

    def alone(self, leaves: Sequence[Leaf], fresh: bool = False) -> list[HostUnit]:
        """A unit for each launch, with an operation of its own; `fresh`: a new one."""
        if all(leaf.signature is None for leaf in leaves):
            return [self._graph("part", [], [*leaves])]
        groups = _with_copies(leaves, [leaf for leaf in leaves if leaf.signature is not None])
        units: list[HostUnit] = []
        for place, (leaf, group) in enumerate(groups):
            signature = leaf.signature
            assert signature is not None
            caches = KernelCaches(0, 0) if fresh else self.caches
            key = None if fresh else (place, signature.structure)
            operation = self._single.get(key) if key else None
            if operation is None:
                operation = KernelOperation(signature, caches)
                if key:
                    self._single[key] = operation
            pack = leaf.pack
            operation.variants[pack.descs] = signature
            units.append(HostUnit(operation, pack, group))
        return units

    def graphs(self, leaves: Sequence[Leaf]) -> list[HostUnit]:
        """A unit for each layer, and for each part between layers."""
        launches = [leaf for leaf in leaves if leaf.signature is not None]
        if not launches:
            return [self._graph("part", [], [*leaves])]
        keys = [self._number(leaf) for leaf in launches]
        parts: list[tuple[str, int, int]] = []
        end = 0
        for start, period, count in repeats(keys):
            if start > end:
                parts.append(("part", end, start))
            parts += [("layer", start + i * period, start + (i + 1) * period) for i in range(count)]
            end = start + count * period
        if end < len(launches):
            parts.append(("part", end, len(launches)))
        ends = [launches[end - 1] for _, _, end in parts]
        groups = _with_copies(leaves, ends)
        return [
            self._graph(name, launches[low:high], group)
            for (name, low, high), (_, group) in zip(parts, groups, strict=True)
        ]

    def _number(self, leaf: Leaf) -> int:
        assert leaf.signature is not None
        key = leaf.signature.structure, leaf.signature.kind
        return self._numbers.setdefault(key, len(self._numbers))

    def _graph(self, name: str, launches: Sequence[Leaf], group: list[Leaf]) -> HostUnit:
        wiring, tensors = wired(launches)
        key = tuple(self._number(leaf) for leaf in launches), wiring
        graph = self._graphs.get(key)
        if graph is None:
            number = sum(g.name.startswith(name) for g in self._graphs.values())
            graph = ProgramGraph(f"{name}_{number}", launches, wiring, self.caches)
            self._graphs[key] = graph
        packs = [leaf.pack for leaf in launches]
        pack = VariantPack([desc_of(v) for v in tensors], [])
        graph.packs[pack.descs] = packs
        for node, leaf, inner in zip(graph.nodes, launches, packs, strict=True):
            assert isinstance(node.operation, KernelOperation)
            assert leaf.signature is not None
            node.operation.variants[inner.descs] = leaf.signature
        return HostUnit(graph, pack, group)


Wiring = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def wired(launches: Sequence[Leaf]) -> tuple[Wiring, list[SSAValue]]:
    """The tensors that launches read and write, by numbers in the order in which they come, and
    the tensors. Views of one buffer with one type are one tensor."""
    numbers: dict[tuple[SSAValue, Attribute], int] = {}
    tensors: list[SSAValue] = []

    def number(value: SSAValue) -> int:
        key = owner_of(value), value.type
        if key not in numbers:
            numbers[key] = len(tensors)
            tensors.append(value)
        return numbers[key]

    wiring = tuple(
        (tuple(map(number, leaf.ins)), tuple(map(number, leaf.outs))) for leaf in launches
    )
    return wiring, tensors


class ProgramGraph(GraphOperation):
    """A part of a program. Its tensors are where the program's plan has them: a call's pack
    describes all of them, and it takes no workspace of its own."""

    def __init__(
        self, name: str, launches: Sequence[Leaf], wiring: Wiring, caches: KernelCaches
    ) -> None:
        nodes = [
            Node(KernelOperation(leaf.signature, caches), *wires)
            for leaf, wires in zip(launches, wiring, strict=True)
            if leaf.signature is not None
        ]
        tensors = {i for node in nodes for i in (*node.inputs, *node.outputs)}
        super().__init__(name, len(tensors), 0, nodes, caches)
        self.packs: dict[Hashable, list[VariantPack]] = {}

    def _check_nodes(self) -> None:
        """Buffers are written as often as the program does, which `ge-check` proves."""

    def prepare(self, pack: VariantPack) -> int:
        for node, inner in zip(self.nodes, self.packs[pack.descs], strict=True):
            node.operation.setup(inner)
            self.outcome.add(node.operation.outcome)
        return 0


def _with_copies(leaves: Sequence[Leaf], ends: Sequence[Leaf]) -> list[tuple[Leaf, list[Leaf]]]:
    """The leaves in groups that end with these; the remaining ones are in the last group."""
    groups: list[tuple[Leaf, list[Leaf]]] = []
    group: list[Leaf] = []
    remaining = iter(ends)
    end = next(remaining, None)
    for leaf in leaves:
        group.append(leaf)
        if end is not None and leaf is end:
            groups.append((leaf, group))
            group, end = [], next(remaining, None)
    if groups:
        groups[-1][1].extend(group)
    return groups


def mark_growing(small: Iterable[HostUnit], large: Iterable[HostUnit]) -> None:
    """State which sizes change between calls: launches of the same structure, in the order in which
    they come, are the same but for sizes. The programs may order them differently."""
    found: dict[Hashable, tuple[list[Signature], list[Signature]]] = {}
    operations: list[KernelOperation] = []
    for place, units in enumerate((small, large)):
        for unit in units:
            for operation, signature in _kernels(unit):
                key = signature.kind, signature.structure
                found.setdefault(key, ([], []))[place].append(signature)
                operations.append(operation)
    growing: dict[Hashable, set[int]] = {}
    for key, (low, high) in found.items():
        pairs = zip(low, high, strict=True) if len(low) == len(high) else ()
        growing[key] = {
            i
            for a, b in pairs
            for i, (m, n) in enumerate(zip(a.sizes, b.sizes, strict=False))
            if m != n
        }
    for operation in operations:
        operation.growing |= growing[operation.name, operation.structure]


def _kernels(unit: HostUnit) -> Iterator[tuple[KernelOperation, Signature]]:
    operations: Iterable[host.Operation] = (
        [n.operation for n in unit.operation.nodes]
        if isinstance(unit.operation, GraphOperation)
        else [unit.operation]
    )
    for operation, leaf in zip(operations, unit.launches, strict=True):
        assert isinstance(operation, KernelOperation)
        assert leaf.signature is not None
        yield operation, leaf.signature
