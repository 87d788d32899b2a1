"""Values on many devices: the mesh, how values are cut over it, and a device's place in it.

    graph.mesh @mesh ["dp"=2, "tp"=4]
    func.func @main(%x: tensor<8x16xf32> {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>})
      %1 = graph.shard %0 #graph.sharding<@mesh, [{"dp"}, {"tp", ?}]> : (...) -> tensor<8x16xf32>

Types are those of whole values until `partition-spmd`, which makes them those of one device's
parts: the program is then the same for all devices. Of a weight each device has its part:

    module attributes {graph.parts = {"w.tp" = ["w", #graph.sharding<@mesh, [{}, {"tp"}]>]}}
      %w = graph.constant #graph.weight<"w.tp"> : tensor<16x4xf32>      a fourth of tensor "w"

    ["w", #graph.sharding<@mesh, [{}, {"tp"}]>, array<i64: 0, 16, 8, 8>]
                                     a fourth of each row of 8 columns of "w", from column 8 on
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import TYPES, OneResultOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.constraints import ANY, INT
from ge.dialects.support.digits import all_digits, joined
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import MICROBATCH, SUM, Axis, Mesh, Sharding, is_in_time
from ge.dialects.support.operation import GeOp, created
from ge.dialects.support.types import Shape, array_ints, shape_of

MESH = "mesh"  # the symbol of the mesh of a module
DEVICE_IDS = "device_ids"  # the numbers of the devices at the places of a mesh, as in Shardy

SHARDING = "graph.sharding"  # of an argument or result: how it is cut
WHOLE = "graph.whole"  # of an argument or result of one device's program: the shape of all parts
PARTS = "graph.parts"  # of a module: parts of weights, by the keys that constants have
UNSEEN = "graph.unseen"  # of a module: what ops do to parts without a trace, by axes
PARAMETERS = "graph.parameters"  # of a module: the weights that count as such; all where absent


# ---- axes and shardings as text ----------------------------------------------------------------


def axis_text(axis: Axis) -> str:
    part = f":({axis.pre}){axis.size}" if axis.pre > 1 or axis.size else ""
    return f'"{axis.name}"{part}'


def parse_axis(parser: AttrParser) -> Axis:
    """`"tp"`, `"tp":(1)2` or, with its size, `"tp"=4`."""
    name = parser.parse_str_literal(" as the name of an axis")
    if parser.parse_optional_punctuation("=") is not None:
        return Axis(name, 1, parser.parse_integer(allow_boolean=False, allow_negative=False))
    if parser.parse_optional_punctuation(":") is None:
        return Axis(name)
    parser.parse_punctuation("(")
    pre = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(")")
    size = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if not pre or not size:
        parser.raise_error(
            f"({pre}){size} is no part of axis '{name}': both numbers are at least 1"
        )
    return Axis(name, pre, size)


def _axes(parser: AttrParser) -> tuple[tuple[Axis, ...], bool]:
    """`{"a", "b":(1)2, ?}`: axes, and whether more may be added."""
    parser.parse_punctuation("{")
    axes, is_open = list[Axis](), False
    while parser.parse_optional_punctuation("}") is None:
        if axes or is_open:
            parser.parse_punctuation(",")
        if parser.parse_optional_punctuation("?") is not None:
            is_open = True
        else:
            axes.append(parse_axis(parser))
    return tuple(axes), is_open


def sharding_text(sharding: Sharding) -> str:
    """Return a sharding as it stands in an attribute, behind the mesh."""
    dims = [
        "{" + ", ".join([*map(axis_text, own), *(["?"] if i in sharding.open else [])]) + "}"
        for i, own in enumerate(sharding.dims)
    ]
    parts = [f"[{', '.join(dims)}]"]
    for word, axes in (
        ("replicated", sorted(sharding.replicated)),
        (f"unreduced{'' if sharding.kind == SUM else f'<{sharding.kind}>'}", sharding.unreduced),
    ):
        if axes:
            parts.append(f"{word}={{{', '.join(map(axis_text, axes))}}}")
    return ", ".join(parts)


@irdl_attr_definition
class ShardingAttr(Data[Sharding]):
    """`#graph.sharding<@mesh, [{"dp"}, {"tp", ?}], replicated={"a"}, unreduced={"b"}>`."""

    name = "graph.sharding"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Sharding:
        with parser.in_angle_brackets():
            if (name := parser.parse_symbol_name().data) != MESH:
                parser.raise_error(f"the mesh of a module is called @{MESH}, not @{name}")
            parser.parse_punctuation(",")
            read = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _axes(parser), " of a sharding"
            )
            others: dict[str, tuple[Axis, ...]] = {}
            kind = SUM
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_identifier()
                if word not in ("replicated", "unreduced"):
                    parser.raise_error("expected replicated or unreduced")
                if word == "unreduced" and parser.parse_optional_punctuation("<") is not None:
                    kind = parser.parse_identifier()
                    parser.parse_punctuation(">")
                parser.parse_punctuation("=")
                others[word] = _axes(parser)[0]
        return Sharding(
            tuple(axes for axes, _ in read),
            frozenset(i for i, (_, is_open) in enumerate(read) if is_open),
            frozenset(others.get("replicated", ())),
            others.get("unreduced", ()),
            kind,
        )

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<@{MESH}, {sharding_text(self.data)}>")


@irdl_attr_definition
class AxesAttr(Data[tuple[Axis, ...]]):
    """Axes with their sizes: `#graph.axes<"dp"=2, "tp":(2)2>`."""

    name = "graph.axes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Axis, ...]:
        with parser.in_angle_brackets():
            read = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: parse_axis(parser)
            )
        return tuple(read)

    def print_parameter(self, printer: Printer) -> None:
        texts = [f'"{a.name}"={a.size}' if a.pre == 1 else axis_text(a) for a in self.data]
        printer.print_string(f"<{', '.join(texts)}>")


@irdl_attr_definition
class MeshAttr(Data[Mesh]):
    """The axes of a mesh: `["dp"=2, "tp"=4]`; with the number of the device at each place
    `["a"=4], device_ids=[0, 2, 1, 3]`."""

    name = "graph.axes_of_mesh"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Mesh:
        with parser.in_angle_brackets():
            return parse_mesh(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{mesh_text(self.data)}>")


def mesh_text(mesh: Mesh) -> str:
    axes = f"[{', '.join(f'{chr(34)}{n}{chr(34)}={d}' for n, d in mesh.axes)}]"
    return f"{axes}, {DEVICE_IDS}=[{', '.join(map(str, mesh.order))}]" if mesh.order else axes


def parse_mesh(parser: AttrParser) -> Mesh:
    axes = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_axis(parser), " of a mesh"
    )
    mesh = Mesh(tuple((a.name, a.size) for a in axes))
    if parser.parse_optional_punctuation(",") is None:
        return mesh
    parser.parse_keyword(DEVICE_IDS)
    parser.parse_punctuation("=")
    order = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False), " of devices"
    )
    is_plain = order == [*range(mesh.devices.count)]
    return mesh if is_plain else replace(mesh, order=tuple(order))


# ---- ops ---------------------------------------------------------------------------------------


@irdl_op_definition
class MeshOp(GeOp):
    """The devices of a module, by axes: `graph.mesh @mesh ["dp"=2, "tp"=4]`. Of a pipeline the
    first axis is in time, and another one has a stage at each place:
    `graph.mesh @mesh ["microbatch"=8, "dp"=2, "pp"=4] pipeline "pp"`.

    Devices are numbered row-major, or as `["dp"=2, "tp"=2], device_ids=[0, 2, 1, 3]` says: at dp 0,
    tp 1 is device 2."""

    name = "graph.mesh"
    sym_name = prop_def(SymbolNameConstraint())
    mesh = prop_def(MeshAttr)
    pipeline = opt_prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def of(cls, mesh: Mesh, pipeline: str = "") -> "MeshOp":
        own: dict[str, Attribute] = {"sym_name": StringAttr(MESH), "mesh": MeshAttr(mesh)}
        own |= {"pipeline": StringAttr(pipeline)} if pipeline else {}
        return created(cls, (), (), own)

    @classmethod
    def parse(cls, parser: Parser) -> "MeshOp":
        name = parser.parse_symbol_name()
        mesh = parse_mesh(parser)
        is_pipeline = parser.parse_optional_keyword("pipeline") is not None
        new = cls.of(
            mesh, parser.parse_str_literal(" as the name of an axis") if is_pipeline else ""
        )
        new.properties["sym_name"] = name
        return new

    def print(self, printer: Printer) -> None:
        printer.print_string(f" @{self.sym_name.data} {mesh_text(self.mesh.data)}")
        if self.pipeline is not None:
            printer.print_string(f' pipeline "{self.pipeline.data}"')

    def verify_(self) -> None:
        if self.sym_name.data != MESH:
            what = f"the mesh of a module is called @{MESH}, not @{self.sym_name.data}"
            raise VerifyException(what)
        if not self.mesh.data.axes:
            raise VerifyException('the mesh has no axis; one of one device is ["x"=1]')
        seen = set[str]()
        for name, size in self.mesh.data.axes:
            if size < 1:
                raise VerifyException(f"axis '{name}' of the mesh has {size} devices")
            if name in seen:
                raise VerifyException(f"two axes of the mesh are called '{name}'")
            seen.add(name)
        if text := wrong_order(self.mesh.data):
            raise VerifyException(text)
        if self.pipeline is not None and self.pipeline.data not in seen - {MICROBATCH}:
            raise VerifyException(f"the mesh has no axis '{self.pipeline.data}' of a pipeline")
        if self.pipeline is not None and self.mesh.data.axes[0][0] != MICROBATCH:
            raise VerifyException(f"the first axis of a pipeline's mesh is '{MICROBATCH}'")


def wrong_order(mesh: Mesh) -> str:
    """Return what is wrong with the order of the devices of a mesh, "" if nothing."""
    count, order = mesh.devices.count, mesh.order
    if not order:
        return ""
    if len(order) != count:
        what = f"{DEVICE_IDS} has {len(order)} numbers"
        return f"{what}, and the mesh {count} places, one device at each"
    seen = set[int]()
    for device in order:
        if not 0 <= device < count:
            return f"{DEVICE_IDS} has {device}, and the {count} devices are 0 to {count - 1}"
        if device in seen:
            absent = min({*range(count)} - {*order})
            return f"{DEVICE_IDS} has {device} twice, and no {absent}: each device is at one place"
        seen.add(device)
    return ""


@irdl_op_definition
class ShardOp(OneResultOp):
    """The same value, cut as stated: `graph.shard %x sharding <@mesh, [{"dp"}, {?}]>`."""

    name = "graph.shard"
    ACCESS: ClassVar = Access.VIEW
    input = operand_def(ANY)
    sharding = prop_def(ShardingAttr)
    assembly_format = f"$input {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        if len(self.sharding.data.dims) != len(shape_of(self.input)):
            raise VerifyException(
                f"the sharding has {len(self.sharding.data.dims)} dimensions, {self.input.type} "
                f"has {len(shape_of(self.input))}"
            )
        return (self.input.type,)


@irdl_op_definition
class StageOp(OneResultOp):
    """The same value. What uses it is in this stage of a pipeline, or in a later one."""

    name = "graph.stage"
    ACCESS: ClassVar = Access.POINTWISE
    input = operand_def(ANY)
    number = prop_def(INT)
    assembly_format = f"$input `from` $number {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        return (self.input.type,)


@irdl_op_definition
class AxisIndexOp(OneResultOp):
    """The number of the device along axes, from major to minor: a scalar of i64."""

    name = "graph.axis_index"
    axes = prop_def(AxesAttr)
    assembly_format = f"`over` $axes {TYPES}"

    @property
    def in_time(self) -> bool:
        """True if it is another number for each microbatch."""
        return is_in_time(self.axes.data)

    def infer(self) -> Sequence[Attribute]:
        return (TensorType(i64, []),)


# ---- what a module and its functions state ----------------------------------------------------


def mesh_op_of(module: ModuleOp) -> MeshOp | None:
    return next((op for op in module.ops if isinstance(op, MeshOp)), None)


def mesh_of(module: ModuleOp) -> Mesh | None:
    """The mesh of a module, None for a program of one device."""
    return None if (op := mesh_op_of(module)) is None else op.mesh.data


@dataclass(frozen=True)
class Pipeline:
    """What the mesh of a pipeline says: device `d` of the devices, at microbatch m, is number
    m x (number of devices) + d of the mesh."""

    mesh: Mesh  # with microbatches
    axis: str

    @classmethod
    def of(cls, module: ModuleOp) -> "Pipeline | None":
        op = mesh_op_of(module)
        return None if op is None or op.pipeline is None else cls(op.mesh.data, op.pipeline.data)

    @property
    def microbatches(self) -> int:
        return self.mesh.sizes[MICROBATCH]

    @property
    def stages(self) -> int:
        return self.mesh.sizes[self.axis]

    @property
    def devices(self) -> Mesh:
        return self.mesh.devices

    def stage(self, device: int) -> int:
        return self.devices.coordinates(device)[self.axis]

    def at_stage(self, device: int, stage: int) -> int:
        """The device of another stage at the same place along all other axes."""
        return self.devices.group((Axis(self.axis),), device)[stage]


def mesh_of_parts(module: ModuleOp) -> Mesh | None:
    """The mesh of a module that is the program of one of its devices; None for a module of whole
    values."""
    main = main_function(module)
    tables = () if main is None else (*(main.arg_attrs or ()), *(main.res_attrs or ()))
    return mesh_of(module) if any(WHOLE in table.data for table in tables) else None


def sharding_of(table: Mapping[str, Attribute]) -> Sharding | None:
    """The sharding that an argument or result states."""
    attr = table.get(SHARDING)
    return attr.data if isinstance(attr, ShardingAttr) else None


def whole_shape(table: Mapping[str, Attribute], local: Shape) -> Shape:
    """The shape of the whole of an argument or result, of which a device has `local`."""
    return array_ints(table[WHOLE]) if WHOLE in table else local


class WeightPart(NamedTuple):
    """A part of a weight: the key of the whole, how it is cut, and what of the whole is cut: the
    first element and the number of elements along each dimension, () for all."""

    of: str
    sharding: Sharding
    spans: tuple[tuple[int, int], ...] = ()

    def attribute(self) -> Attribute:
        found: list[Attribute] = [StringAttr(self.of), ShardingAttr(self.sharding)]
        if self.spans:
            found.append(DenseArrayBase.from_list(i64, [n for span in self.spans for n in span]))
        return ArrayAttr(found)


def parts_of(module: ModuleOp) -> dict[str, WeightPart]:
    """The parts of weights of one device's program, by key."""
    table = module.attributes.get(PARTS)
    found: dict[str, WeightPart] = {}
    for key, entry in table.data.items() if isinstance(table, DictionaryAttr) else ():
        if isinstance(entry, ArrayAttr):
            of, sharding, *others = cast(ArrayAttr[Attribute], entry).data
            numbers = iter(array_ints(others[0]) if others else ())
            if isinstance(of, StringAttr) and isinstance(sharding, ShardingAttr):
                spans = tuple(zip(numbers, numbers, strict=True))
                found[key] = WeightPart(of.data, sharding.data, spans)
    return found


class Unseen(NamedTuple):
    """Digits of axes by whose places one element of a device is moved past other dimensions,
    combined with those of other devices, or repeated on all of them; or by which a slice takes one
    element of so many for each device, or a dimension is resized, so that it ends with another
    element than before, or filled, so that it ends where the last part does; or by which windows
    are cut of which a device has one, over all of its part; or by which products sum over constants
    of equal elements, of which no part differs from the whole. That does nothing on a device, or
    as much as something else, and its program does not show it."""

    moved: frozenset[Axis] = frozenset()
    combined: frozenset[Axis] = frozenset()
    repeated: frozenset[Axis] = frozenset()
    resized: frozenset[Axis] = frozenset()
    filled: frozenset[Axis] = frozenset()
    windowed: frozenset[Axis] = frozenset()
    summed: frozenset[Axis] = frozenset()

    @classmethod
    def of(cls, module: ModuleOp) -> "Unseen":
        """Those that a module states."""
        table = module.attributes.get(UNSEEN)

        def stated(name: str) -> frozenset[Axis]:
            axes = table.data.get(name) if isinstance(table, DictionaryAttr) else None
            return frozenset(all_digits(axes.data) if isinstance(axes, AxesAttr) else ())

        return cls(*map(stated, cls._fields))

    def also(self, other: "Unseen") -> "Unseen":
        return Unseen(*(a | b for a, b in zip(self, other, strict=True)))

    def state(self, module: ModuleOp) -> None:
        """State them as an attribute of a module, if there are some."""
        axes = {name: joined(tuple(sorted(own))) for name, own in self._asdict().items()}
        table = {name: AxesAttr(own) for name, own in axes.items() if own}
        if table:
            module.attributes[UNSEEN] = DictionaryAttr(table)


def state_parts(module: ModuleOp, parts: Mapping[str, WeightPart]) -> None:
    """State the parts of weights that a module has."""
    if parts:
        entries = {key: part.attribute() for key, part in sorted(parts.items())}
        module.attributes[PARTS] = DictionaryAttr(entries)
