"""The inputs of an ONNX model as arguments of the main function."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from onnx import TensorShapeProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, SSAValue

from ge.dialects.graph.ports import DIMS, NAME, SEED, SEQUENCE, name_of, port
from ge.dialects.graph.random import SEED_TYPE
from ge.dialects.support.dims import Range, Relations, size_of, symbols
from ge.dialects.support.editing import name_hint
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, AnyTensor, shape_text, tensor
from ge.dialects.text.values import Shapes, Sizes, did_you_mean, fixed_sizes, relations
from ge.lowering.onnx.model import MAX_ELEMENTS, check_name, element_of_onnx
from ge.lowering.onnx.values import Value

# Exporters that have no name for an unknown dimension write this one, for each of them: two such
# dimensions need not have the same size
ANONYMOUS = "?"


def symbol_of(dim: TensorShapeProto.Dimension) -> str:
    """The name of a symbolic dimension, "" if it has none."""
    return "" if dim.dim_param == ANONYMOUS else dim.dim_param


def has_size(dim: TensorShapeProto.Dimension) -> bool:
    """Whether a dimension is known: not a symbol, nor -1, as exporters write unknown ones."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


@dataclass
class Fixed:
    """What the user says about inputs: shapes by input, symbolic dimensions by name, for inputs
    that are sequences how many tensors they have (None: an optional that is not given), the sizes
    that dimensions may have which stay unknown, and how some follow from others.
    """

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    dims: dict[str, int] = field(default_factory=dict[str, int])
    lengths: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])
    relations: Relations = field(default_factory=Relations)

    @classmethod
    def of(cls, shapes: Shapes, dims: Sizes, lengths: Mapping[str, int | None]) -> "Fixed":
        new = cls({}, fixed_sizes(dims), lengths, relations=Relations.of(relations(dims)))
        new.ranges.update({n: d for n, d in dims.items() if isinstance(d, Range)})
        for name, sizes in shapes.items():
            new.shapes[name] = tuple(DYNAMIC if isinstance(s, Range) else s for s in sizes)
            new.ranges.update(
                {f"{name}[{i}]": s for i, s in enumerate(sizes) if isinstance(s, Range)}
            )
        return new

    def size(self, name: str) -> int:
        known = size_of(name, self.dims) if name else None
        return DYNAMIC if known is None else known

    def name_of(self, place: str, dim: TensorShapeProto.Dimension) -> str:
        """The name of a symbolic dimension, which may follow from others; "" if it has none. One
        without a name is known by its place, `x[0]`."""
        if (symbol := symbol_of(dim)) or has_size(dim):
            return self.relations.named(symbol)
        return self.relations.named(place) if place in self.relations.sizes else ""


class Input:
    def __init__(self, info: ValueInfoProto, fixed: Fixed) -> None:
        check_name(info.name)
        self.name = info.name
        self.fixed = fixed
        proto = info.type
        if proto.HasField("optional_type"):
            proto = proto.optional_type.elem_type
        self.is_sequence = proto.HasField("sequence_type")
        if self.is_sequence:
            proto = proto.sequence_type.elem_type
        if not proto.HasField("tensor_type"):
            kind = (proto.WhichOneof("value") or "value without type").removesuffix("_type")
            raise GeError(f"input '{self.name}' is a {kind.replace('_', ' ')}, not a tensor")
        self.proto: TypeProto.Tensor = proto.tensor_type
        for dim in self.dims or ():
            check_name(dim.dim_param)
        pairs = zip(self.places(), self.dims or (), strict=True)
        self.names = [fixed.name_of(place, dim) for place, dim in pairs]

    @property
    def dims(self) -> Sequence[TensorShapeProto.Dimension] | None:
        return self.proto.shape.dim if self.proto.HasField("shape") else None

    def sizes(self) -> tuple[int, ...]:
        return tuple(
            d.dim_value if has_size(d) else self.fixed.size(name or place)
            for place, d, name in zip(self.places(), self.dims or (), self.names, strict=True)
        )

    def places(self) -> list[str]:
        return [f"{self.name}[{i}]" for i, _ in enumerate(self.dims or ())]

    def nameless(self) -> list[str]:
        """The places of unknown dimensions that the model has no name for."""
        pairs = zip(self.places(), self.dims or (), strict=True)
        return [p for p, d in pairs if not has_size(d) and not symbol_of(d)]

    def declared(self) -> str:
        dims = (
            str(d.dim_value) if has_size(d) else d.dim_param or ANONYMOUS for d in self.dims or ()
        )
        return f"[{', '.join(dims)}]"

    def adopt_shape(self, shape: tuple[int, ...]) -> None:
        if self.dims is None:
            return
        if len(self.dims) != len(shape):
            raise GeError(
                f"input '{self.name}' has rank {len(self.dims)} ({self.declared()}), but the "
                f"shape {shape_text(shape)} is given"
            )
        known_sizes = zip(self.names, self.sizes(), shape, strict=True)
        for axis, (name, known, size) in enumerate(known_sizes):
            if size == DYNAMIC:
                self.adopt_range(axis, known)
                continue
            if known not in (DYNAMIC, size):
                raise GeError(
                    f"input '{self.name}' is {self.declared()}, so the shape {shape_text(shape)} "
                    f"does not fit: {name or 'a dimension'} is {known}"
                )
            if name:
                self.fixed.dims[name] = size

    def adopt_range(self, axis: int, known: int) -> None:
        """An axis stays unknown: its range is that of its symbol, if it has one."""
        place = f"{self.name}[{axis}]"
        range_ = self.fixed.ranges.pop(place, Range())
        if known != DYNAMIC:
            if known not in range_:
                text = f"input '{self.name}' is {self.declared()}: {known} is not in {range_}"
                raise GeError(text)
            return
        name = self.names[axis] or place
        if self.fixed.ranges.setdefault(name, range_) != range_ and range_ != Range():
            text = f"dimension '{name}' has two ranges, {self.fixed.ranges[name]} and {range_}"
            raise GeError(text)

    def type(self) -> AnyTensor:
        try:
            element = element_of_onnx(self.proto.elem_type)
        except GeError as e:
            raise GeError(f"input '{self.name}': {e.message}") from e
        shape = self.fixed.shapes.get(self.name)
        if self.dims is not None:
            known = self.sizes()
            given = known if shape is None else shape
            shape = tuple(k if s == DYNAMIC else s for s, k in zip(given, known, strict=True))
        if shape is None:
            raise GeError(
                f"the shape of input '{self.name}' is not known",
                hint=f"give --shape {self.name}=1x3x224x224",
            )
        if math.prod(d for d in shape if d > 0) > MAX_ELEMENTS:
            raise GeError(f"input '{self.name}': shape {shape_text(shape)} is absurd")
        return tensor(shape, element)

    def argument_names(self) -> list[str]:
        if self.name in self.fixed.lengths and self.fixed.lengths[self.name] is None:
            return []
        if not self.is_sequence:
            return [self.name]
        count = self.fixed.lengths.get(self.name)
        if count is None:
            raise GeError(f"input '{self.name}' is a sequence whose length is not known at import")
        return [f"{self.name}.{i}" for i in range(count)]

    def attributes(self, name: str) -> DictionaryAttr:
        attrs: dict[str, Attribute] = {NAME: StringAttr(name)}
        if self.is_sequence:
            attrs[SEQUENCE] = StringAttr(self.name)
        sizes = self.type().get_shape()
        names = [n if s == DYNAMIC else "" for n, s in zip(self.names, sizes, strict=False)]
        if any(names):
            attrs[DIMS] = ArrayAttr([StringAttr(n) for n in names])
        return DictionaryAttr(attrs)


@dataclass
class Arguments:
    block: Block
    attributes: list[DictionaryAttr]
    values: list[Value]

    def add_seed(self) -> SSAValue:
        """One that is none of the model's: what random numbers follow from. No input has its
        name."""
        names = {name_of(table.data) for table in self.attributes}
        name = next(n for i in count() if (n := f"seed.{i}" if i else "seed") not in names)
        seed = self.block.insert_arg(SEED_TYPE, len(self.block.args))
        seed.name_hint = name_hint(name)
        self.attributes.append(DictionaryAttr({**port(name), SEED: UnitAttr()}))
        return seed


def make_arguments(infos: Sequence[ValueInfoProto], fixed: Fixed) -> Arguments:
    """The arguments for these inputs. Raises GeError for one that cannot be an argument, and
    for fixed shapes or dimensions that do not belong to any."""
    inputs = [Input(info, fixed) for info in infos]
    by_name = {i.name: i for i in inputs}
    if len(by_name) < len(inputs):
        raise GeError("two inputs have the same name")
    stated = [name for i in inputs for d in i.dims or () if (name := symbol_of(d))]
    names = [name for i in inputs for name in i.names if name]
    known = {s for n in stated for s in (n, *symbols(n))}
    known |= {place for i in inputs for place in i.nameless()}
    followed = (s for text in fixed.relations.texts.values() for s in symbols(text))
    ranges = (n for n in fixed.ranges if not n.endswith("]"))  # others are of shapes
    for name in (*fixed.dims, *ranges, *fixed.relations.sizes, *followed):
        if name not in known:
            raise GeError(f"there is no dimension '{name}'{_near(name, stated)}")
    for name, shape in fixed.shapes.items():
        if name not in by_name:
            raise GeError(f"there is no input '{name}'{_near(name, list(by_name))}")
        by_name[name].adopt_shape(shape)
    for name in dict.fromkeys(names):
        others = {n: size for n, size in fixed.dims.items() if n != name}
        if (size := size_of(name, others)) is not None and fixed.size(name) != size:
            if (source := fixed.relations.source(name)) is not None:
                what = f"--dim {source}={name} contradicts {source}={fixed.size(name)}"
                raise GeError(f"{what}: others make it {size}")
            raise GeError(f"dimension '{name}' is {fixed.size(name)}, but others make it {size}")
    if both := [n for n in fixed.ranges if size_of(n, fixed.dims) is not None]:
        size = size_of(both[0], fixed.dims)
        if size not in fixed.ranges[both[0]]:
            text = f"dimension '{both[0]}' is {size}, out of its range {fixed.ranges[both[0]]}"
            raise GeError(text)
    fixed.ranges = {n: r for n, r in fixed.ranges.items() if n not in both and r != Range()}
    block = Block()
    arguments = Arguments(block, [], [])
    for i in inputs:
        args: list[SSAValue] = []
        for name in i.argument_names():
            arg = block.insert_arg(i.type(), len(block.args))
            arg.name_hint = name_hint(name)
            args.append(arg)
            arguments.attributes.append(i.attributes(name))
        absent = None if not i.is_sequence or fixed.lengths.get(i.name) is None else ()
        arguments.values.append(
            tuple(args) if i.is_sequence and args else args[0] if args else absent
        )
    return arguments


def _near(name: str, known: Sequence[str]) -> str:
    listed = ", ".join(f"'{k}'" for k in list(dict.fromkeys(known))[:20]) or "none"
    return did_you_mean(name, known, f"; the model has {listed}")
