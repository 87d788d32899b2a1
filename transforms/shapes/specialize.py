"""A kernel for operands whose types, or even values, are known.

    npu_task.kernel @linear_0 on cube {
    ^bb0(%0: tensor<?x64xf32>, %1: tensor<64x64xf32>, %2: tensor<2xi64>):
      %3 = fused_op.linear(%0, %1, %2) {
        graph.matmul : tensor<?x64xf32>
        graph.reshape shape %2 : tensor<?x?x64xf32>
      }
      npu_task.return %3
    }
for 6x64 rows and dense<[2, -1]> becomes
      %3 = graph.matmul %0, %1 : tensor<6x64xf32>
      %4 = graph.reshape %3 shape [2, -1] : (tensor<6x64xf32>) -> tensor<2x3x64xf32>
      npu_task.return %4

Types are inferred by the ops, what follows from constants and shapes is folded, views of operands
and of results come out of the fused op, and so does what only shapes held together. The numbers
keep every bit.

Of a program that is bound to sizes each kernel is made once for equal operands, and for all that
are alike. Such kernels differ in the elements of long constants, and in the nodes of the
model that they come from, alone. The layers of a model repeat, so that what one of them becomes at
some sizes is what all of them become, with their own constants and locations.

A rule may ask whether all elements of a constant are one number, which kernels that are alike have
in common, as they have integers and short constants. Or it computes with the constant: then that
use of it is gone, and what the kernel became counts for it alone (`keeps_constants`). A rule that
kept a constant and rewrote by what else its elements say would be wrong here. Those of
`canonical/arithmetic.py` ask for magnitudes, to decide whether they compute; where they do not
for one kernel, they are not tried for those that are alike.
"""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FusedLoc,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.graph.slicing import ConcatOp
from ge.dialects.graph.support.parameters import splat_bytes
from ge.dialects.npu_task.ops import KernelOp, ReturnOp, kernels_of
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.editing import detach, erase
from ge.dialects.support.element_types import is_float
from ge.dialects.support.operation import all_ops, block_of, cloned, operands_of, ops_of, put_last
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    AnyTensor,
    Dense,
    Shape,
    constant_value,
    element_type,
    is_dynamic,
    is_static,
    number_of,
    numel,
    shape_of,
    tensor,
)
from ge.dialects.targets.target import Target
from ge.runtime.data.arrays import Array, array_of, dense
from ge.runtime.library.costs.structure import SHORT, settle
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.analysis.views import view_offsets
from ge.transforms.graph.canonical import slices, transposes
from ge.transforms.graph.canonical.local import simplify
from ge.transforms.graph.fold_constants import FROM_SIZES, fold_block
from ge.transforms.shapes.split_oversized import split_oversized, wrap

LIMIT = 1024  # bytes of a value that may stand in a kernel

FAMILIES = slices, transposes


@dataclass(frozen=True)
class LaunchBody:
    """The computation of a launch: constants, ops that compute and views, in order, and
    `npu_task.return`."""

    block: Block
    views: Set[Operation]


@dataclass(frozen=True)
class Surroundings:
    """Facts of the place of a launch that allow rewrites."""

    # Whether its operands are never written later: results may be views of them
    views: bool
    # Operands that are used by this launch alone, and those that launches compute
    sole: frozenset[int] = frozenset()
    computed: frozenset[int] = frozenset()


def specialize(
    kernel: KernelOp,
    types: Sequence[AnyTensor],
    known: Mapping[int, Array],
    around: Surroundings,
) -> LaunchBody:
    """The body of a kernel for operands of these types, those in `known` being constants. Raises
    VerifyException where an op does not take these types."""
    block = block_of(types)
    values: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, block.args, strict=True))
    for i, array in known.items():
        put_last(block, constant := ConstantOp.make(dense(array), types[i]))
        values[kernel.body.block.args[i]] = constant.result
    for op in ops_of(kernel.body.block):
        copy_into(block, op, values)
    fold_block(block, FROM_SIZES)
    simplify(Region(block), FAMILIES, exact=True, is_folded=True)
    for op in reversed(ops_of(block)):
        if op.results and all([r.first_use is None for r in op.results]):
            erase(op)
    last = block.last_op
    assert last is not None
    kept = {v for v, t in zip(last.operands, kernel.output_types, strict=True) if not is_dynamic(t)}
    return LaunchBody(block, regroup(block, kernel.main, kept, around))


def copy_into(block: Block, op: Operation, values: dict[SSAValue, SSAValue]) -> None:
    """Add a copy of an op; of a fused op, its members."""
    if isinstance(op, CustomOp):
        put_last(block, new := op.on([values[v] for v in op.inputs]))
        values |= zip(op.results, new.results, strict=True)
    elif isinstance(op, FusedOp):
        values |= zip(op.block.args, (values[v] for v in op.inputs), strict=True)
        for member in op.members:
            copy_into(block, member, values)
        values |= zip(op.results, (values[v] for v in op.yielded), strict=True)
    else:
        put_last(block, cloned(op, values))


def regroup(
    block: Block, main: TensorOp, kept: Set[SSAValue], around: Surroundings
) -> Set[Operation]:
    """Put ops that compute together into an op of the class of `main`, and views around it, except
    the values in `kept`. Returns the views."""
    last = block.last_op
    assert isinstance(last, ReturnOp)
    ops = [op for op in ops_of(block) if isinstance(op, TensorOp)]
    constants = [op for op in ops if isinstance(op, ConstantOp)]
    ops = [op for op in ops if not isinstance(op, ConstantOp)]
    leading: list[TensorOp] = []
    trailing: list[TensorOp] = []
    given = set[SSAValue](block.args) if around.views else set[SSAValue]()
    for op in ops:
        if is_free(op, kept) and operands_of(op)[0] in given:
            leading.append(op)
            given.update(op.results)
    for op in reversed([op for op in ops if op not in leading]):
        if is_free(op, kept) and operands_of(op)[0] not in given:
            if {use.operation for r in op.results for use in r.uses} <= {last, *trailing}:
                trailing.insert(0, op)
    computed = [op for op in ops if op not in leading and op not in trailing]
    concats = [op for op in computed if starts(op, last, around)]
    rest = [op for op in computed if op not in concats]
    groups = components(rest) if isinstance(main, FusedOp) else [[op] for op in rest]
    groups = [*([op] for op in concats), *groups]
    for op in ops_of(block):
        detach(op, block)
    for op in (*constants, *leading, *chain.from_iterable(groups), *trailing, last):
        put_last(block, op)
    for group in groups:
        if len(group) > 1:
            wrap(block, group, type(main))
    return {*leading, *trailing}


def starts(op: TensorOp, last: ReturnOp, around: Surroundings) -> bool:
    """Return whether an op joins operands of the launch, which are used for nothing else, to a
    result: a launch of its own may be written in parts (see `extract-concats`). Where an input of
    the model is no larger than what is appended to it, a copy into its place costs more than it
    saves."""
    if not isinstance(op, ConcatOp) or op.result not in last.operands:
        return False
    if not all(is_static(shape_of(v)) for v in op.inputs):
        return False
    args = [v.index for v in op.inputs if isinstance(v, BlockArgument) and v.has_one_use()]
    sizes = [numel(shape_of(v)) for v in op.inputs]
    given = sum(n for i, n in zip(args, sizes, strict=False) if i not in around.computed)
    return (
        len(args) == len(op.inputs)
        and (not given or 2 * given > sum(sizes))
        and around.sole.issuperset(args)
        and not around.computed.isdisjoint(args)
    )


def is_free(op: TensorOp, kept: Set[SSAValue]) -> bool:
    return view_offsets(op) is not None and kept.isdisjoint(op.results)


def components(ops: Sequence[TensorOp]) -> list[list[TensorOp]]:
    """The ops in groups that have no operand in common but constants: what shapes alone held
    together is not one launch."""
    groups: list[tuple[set[SSAValue], list[TensorOp]]] = []
    for op in ops:
        values = {v for v in (*operands_of(op), *op.results) if not isinstance(v.owner, ConstantOp)}
        members: list[TensorOp] = []
        for group in [g for g in groups if not g[0].isdisjoint(values)]:
            groups.remove(group)
            values |= group[0]
            members += group[1]
        groups.append((values, [*members, op]))
    place = {op: i for i, op in enumerate(ops)}
    return [sorted(members, key=place.__getitem__) for _, members in groups]


NAME = "sym_name"


def is_long(value: Attribute) -> bool:
    """Return whether kernels that are alike may differ in the elements of a constant."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return False
    elements = cast(Dense, value)
    return len(elements) > SHORT and is_float(elements.get_element_type())


def parts_of(location: LocationAttr) -> Sequence[Attribute]:
    if isinstance(location, FusedLoc):
        return cast(ArrayAttr[Attribute], location.locations).data
    return (location,)


@dataclass
class Likeness:
    """The parts that a kernel has in common with those that are alike, and those that it has
    not."""

    parts: list[Hashable] = field(default_factory=list[Hashable])
    # Long constants and locations, each once, in the order of the ops
    constants: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    locations: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    @classmethod
    def of(cls, kernel: KernelOp) -> "Likeness":
        result = cls()
        result.parts += [(n, number_of(a)) for n, a in kernel.properties.items() if n != NAME]
        result.add(kernel.body.block)
        result.values.clear()
        return result

    @property
    def key(self) -> Hashable:
        """Equal for kernels that are alike."""
        return tuple(self.parts)

    def add(self, block: Block) -> None:
        self.define(block.args)
        for op in ops_of(block):
            self.parts.append((type(op), *[self.values[v] for v in operands_of(op)]))
            self.parts += [(n, self.content(op, a)) for n, a in op.properties.items()]
            self.parts += [(n, number_of(a)) for n, a in op.attributes.items()]
            self.parts.append(tuple(map(self.place, parts_of(op.location))))
            self.define(op.results)
            for region in op.regions:
                for inner in region.blocks:
                    self.add(inner)
        self.parts.append(None)  # the block ends

    def define(self, values: Iterable[SSAValue]) -> None:
        for value in values:
            self.values[value] = len(self.values)
            self.parts.append((number_of(value.type), value.name_hint))

    def content(self, op: Operation, value: Attribute) -> Hashable:
        if not isinstance(op, ConstantOp) or not is_long(value):
            return number_of(value)
        elements = cast(Dense, value)
        first = list(self.constants).index(id(value)) if id(value) in self.constants else None
        self.constants.setdefault(id(value), value)
        return number_of(elements.type), splat_bytes(elements), first

    def place(self, location: Attribute) -> int:
        """Return the number of a location, -1 for an unknown one."""
        if isinstance(location, UnknownLoc):
            return -1
        number = number_of(location)
        self.locations.setdefault(number, location)
        return list(self.locations).index(number)


@dataclass
class Translation:
    """The constants and locations of a kernel in the place of those of one that is alike."""

    constants: dict[int, Attribute]
    locations: dict[int, Attribute]
    known: dict[int, LocationAttr] = field(default_factory=dict[int, LocationAttr])

    @classmethod
    def between(cls, source: Likeness, target: Likeness) -> "Translation":
        return cls(
            dict(zip(source.constants, target.constants.values(), strict=True)),
            dict(zip(source.locations, target.locations.values(), strict=True)),
        )

    def clone(self, kernel: KernelOp) -> KernelOp:
        """A kernel that was made of the source, as if it were made of the target."""
        new = cloned(kernel, {})
        for op in all_ops((new.body.block,)):
            op.location = self.location(op.location)
            if isinstance(op, ConstantOp):
                op.properties["value"] = self.constant(op.value)
        return new

    def constant(self, value: Attribute) -> Attribute:
        return self.constants.get(id(value), value)

    def location(self, location: LocationAttr) -> LocationAttr:
        number = number_of(location)
        if (known := self.known.get(number)) is None:
            parts = [self.locations.get(number_of(p), p) for p in parts_of(location)]
            fused = isinstance(location, FusedLoc)
            new = FusedLoc(tuple(parts), NoneAttr()) if fused else cast(LocationAttr, parts[0])
            known = self.known[number] = new
        return known


def keeps_constants(kernel: KernelOp, block: Block, likeness: Likeness) -> bool:
    """Return whether the ops of a kernel that use long constants do so in what it became, too."""
    long = likeness.constants.keys()
    return not long or uses(kernel.body.block, long) == uses(block, long)


def uses(block: Block, constants: Container[int]) -> Counter[tuple[int, type[Operation], int]]:
    """Return which ops use these constants, as which operands."""
    found: Counter[tuple[int, type[Operation], int]] = Counter()
    outside: dict[SSAValue, SSAValue] = {}
    for op in ops_of(block):
        members: Sequence[Operation] = (op,)
        if isinstance(op, FusedOp) and not isinstance(op, CustomOp):
            outside |= zip(op.block.args, op.inputs, strict=True)
            members = op.members
        for member in members:
            for i, operand in enumerate(operands_of(member)):
                owner = outside.get(operand, operand).owner
                if isinstance(owner, ConstantOp) and id(owner.value) in constants:
                    found[id(owner.value), type(member), i] += 1
    return found


Operands: TypeAlias = tuple[tuple[Shape, ...], tuple[object, ...], Surroundings]
"""The shapes of the operands of a launch, what is known of them, and what its place allows."""

MOST_BODIES = 1024  # of one program, over all sizes


@dataclass
class Made:
    """The result of specializing a kernel, and those that are alike, for operands of known
    types."""

    likeness: Likeness  # of the kernel that it was made of
    body: LaunchBody
    dynamic: Sequence[bool]  # whether the kernel's results were dynamic
    # Op that computes -> its kernel, whose name others may have, and the operands of the launch
    kernels: dict[Operation, tuple[KernelOp, list[SSAValue]]] = field(
        default_factory=dict[Operation, tuple[KernelOp, list[SSAValue]]]
    )
    constants: dict[SSAValue, Dense] = field(default_factory=dict[SSAValue, Dense])
    # Kernel that is alike -> how to get from the one that this was made of to it
    translations: dict[KernelOp, Translation] = field(default_factory=dict[KernelOp, Translation])

    @property
    def returned(self) -> Sequence[SSAValue]:
        last = self.body.block.last_op
        assert last is not None
        return last.operands


@dataclass
class Bodies:
    """The launches that a program's launches became at the sizes that it was bound to so far."""

    # Of the program, which stay as they are
    kernels: Mapping[str, KernelOp] = field(default_factory=dict[str, KernelOp])
    block: Block | None = None  # of @main; None: that of the module that is bound
    # Whether there is a program of a kernel, which says how it is cut
    has_program: Callable[[KernelOp], bool] = lambda kernel: False
    # What a launch is of, with the shapes of its operands -> what it computes
    made: dict[Hashable, Made] = field(default_factory=dict[Hashable, Made])
    # Kernel -> what it has in common with others, and a number for that
    alike: dict[str, tuple[Likeness, int]] = field(default_factory=dict[str, tuple[Likeness, int]])
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def likeness(self, name: str) -> tuple[Likeness, int]:
        if (known := self.alike.get(name)) is None:
            likeness = Likeness.of(self.kernels[name])
            number = self.numbers.setdefault(likeness.key, len(self.numbers))
            known = self.alike[name] = likeness, number
        return known

    def keep(self, key: Hashable, made: Made) -> None:
        if len(self.made) >= MOST_BODIES:
            self.made.clear()
        self.made[key] = made


def bodies_at_hand(bodies: Bodies) -> AbstractContextManager[Bodies]:
    """Let a module be bound whose kernels, and ops of @main, are those of `bodies`, not of its own:
    kernels made when they were bound to other sizes are reused, and new ones are added."""
    return having(bodies)


@dataclass
class Launch:
    """The launch of a kernel, specialized for operands of known types."""

    made: Made
    kernels: Mapping[Operation, str]  # op that computes -> its kernel
    translation: Translation | None  # of the constants; None: they are its own

    def inputs(self, op: Operation) -> Sequence[SSAValue]:
        """The operands of the launch of an op that computes."""
        return self.made.kernels[op][1]

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a constant of the body."""
        if (elements := self.made.constants.get(value)) is None:
            return None
        if self.translation is not None:
            elements = cast(Dense, self.translation.constant(elements))
        return array_of(elements)


class Kernels:
    """The kernels of a module, and those that take their place."""

    def __init__(self, module: ModuleOp, target: Target) -> None:
        self.target, self.module = target, module
        self.bodies = at_hand(Bodies) or Bodies(kernels_of(module))
        self.old = self.bodies.kernels
        self.new: dict[str, KernelOp] = {}
        self.launches: dict[object, Launch] = {}

    def launch(
        self,
        name: str,
        shapes: Sequence[Shape],
        known: Mapping[int, Array],
        around: Surroundings,
    ) -> Launch:
        """The launch of a kernel on operands of these shapes, `known` ones being constants. Raises
        VerifyException for shapes that it does not take."""
        values = tuple((i, a.dtype.str, a.shape, a.tobytes()) for i, a in sorted(known.items()))
        operands = tuple(shapes), values, around
        if (launch := self.launches.get((name, operands))) is None:
            made = self.made(name, operands, known)
            launch = self.launches[name, operands] = self.add(self.old[name], made)
        return launch

    def made(self, name: str, operands: Operands, known: Mapping[int, Array]) -> Made:
        """Return what a kernel becomes: as before, or as one that is alike did."""
        bodies, kernel = self.bodies, self.old[name]
        likeness, common = bodies.likeness(name)
        for key in ((common, operands), (name, operands)):
            if (made := bodies.made.get(key)) is not None:
                return made
        shapes, _, around = operands
        args = kernel.body.block.args
        types = [tensor(s, element_type(a)) for s, a in zip(shapes, args, strict=True)]
        body = specialize(kernel, types, known, around)
        outlining = Outlining(kernel, bodies.has_program)
        split_oversized(body.block, self.target, outlining.is_cut)
        made = self.outlined(kernel, body, likeness, outlining)
        shared = keeps_constants(kernel, body.block, likeness)
        bodies.keep((common if shared else name, operands), made)
        return made

    def outlined(
        self, kernel: KernelOp, body: LaunchBody, likeness: Likeness, outlining: "Outlining"
    ) -> Made:
        """A body with kernels of the ops that compute."""
        made = Made(likeness, body, [is_dynamic(t) for t in kernel.output_types])
        for op in body.block.ops:
            if isinstance(op, ConstantOp):
                value = constant_value(op.result)
                if value is not None:
                    made.constants[op.result] = value
            elif isinstance(op, TensorOp) and op not in body.views:
                made.kernels[op] = outlining.kernel(op)
        return made

    def add(self, kernel: KernelOp, made: Made) -> Launch:
        """Add the kernels that a kernel becomes to those of the module."""
        bodies = self.bodies
        likeness, _ = bodies.likeness(kernel.sym_name.data)
        translation: Translation | None = None
        if likeness is not made.likeness:
            if (translation := made.translations.get(kernel)) is None:
                translation = Translation.between(made.likeness, likeness)
                made.translations[kernel] = translation
        names: dict[Operation, str] = {}
        for op, (pattern, _) in made.kernels.items():
            new = cloned(pattern, {}) if translation is None else translation.clone(pattern)
            new.main.location = new.location = kernel.location
            name = names[op] = self.new_name(kernel.sym_name.data)
            new.properties["sym_name"] = StringAttr(name)
            settle(new, pattern)
            self.new[name] = new
        return Launch(made, names, translation)

    def new_name(self, name: str) -> str:
        number, new = 0, name
        while new in self.new or (number and new in self.old):
            number += 1
            new = f"{name}_{number}"
        return new

    def replace(self, main: FuncOp) -> None:
        """Put the new kernels in the place of the old ones, before `main`."""
        for op in self.module.ops:
            if isinstance(op, KernelOp):
                Rewriter.erase_op(op)
        assert main.parent is not None
        main.parent.insert_ops_before(tuple(self.new.values()), main)


@dataclass
class Outlining:
    """Kernels of the ops that a kernel becomes."""

    origin: KernelOp
    has_program: Callable[[KernelOp], bool]
    known: dict[TensorOp, tuple[KernelOp, list[SSAValue]]] = field(
        default_factory=dict[TensorOp, tuple[KernelOp, list[SSAValue]]]
    )
    cut: dict[TensorOp, bool] = field(default_factory=dict[TensorOp, bool])

    def is_cut(self, op: TensorOp) -> bool:
        """Return whether there is a program of an op."""
        if op not in self.cut:
            self.cut[op] = self.has_program(self.kernel(op)[0])
        return self.cut[op]

    def kernel(self, op: TensorOp) -> tuple[KernelOp, list[SSAValue]]:
        """The kernel of an op, and the operands of its launches."""
        if op not in self.known:
            self.known[op] = self.outlined(op)
        return self.known[op]

    def outlined(self, op: TensorOp) -> tuple[KernelOp, list[SSAValue]]:
        operands = dict.fromkeys(operands_of(op))
        inputs = [v for v in operands if small_constant(v) is None]
        block = block_of([v.type for v in inputs])
        inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for value in operands:
            if value not in inside:
                assert isinstance(value.owner, ConstantOp)
                put_last(block, constant := cloned(value.owner, {}))
                inside[value] = constant.result
        put_last(block, new := cloned(op, inside))
        new.location = self.origin.location
        put_last(block, ReturnOp(*new.results))
        dynamic = any([is_dynamic(v.type) for v in (*operands, *op.results)])
        engine = self.origin.engine.data if dynamic else choose_engine(new)
        return KernelOp("", engine, block), inputs
