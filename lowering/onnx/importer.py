"""ONNX model -> one module at the graph level, and the payload of its weights. The inputs of the
model become arguments of the main function."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import onnx
from onnx import ModelProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto
from onnx.defs import onnx_opset_version
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.control import AssertOp
from ge.dialects.graph.creation import SEED_TYPE, STREAMS
from ge.dialects.graph.stated import (
    DIMS,
    NAME,
    SEED,
    SEQUENCE,
    name_of,
    port,
    state_ranges,
    state_relations,
)
from ge.dialects.support.diagnostics import names_text, warning
from ge.dialects.support.dims import Range, Relations, size_of, symbols
from ge.dialects.support.editing import name_hint
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, AnyTensor, NotStatic, shape_text, tensor
from ge.dialects.text.values import Shapes, Sizes, did_you_mean, fixed_sizes, relations
from ge.lowering.onnx.device_configurations import enter_stages, stated_rules
from ge.lowering.onnx.model import (
    MAX_ELEMENTS,
    Tensors,
    check_name,
    element_of_onnx,
    line_of,
    read_model,
    subgraphs,
)
from ge.lowering.onnx.registry import Unsupported
from ge.lowering.onnx.scope import (
    Failed,
    ImportProblem,
    OnnxFunction,
    Scope,
    TooLarge,
    local_function,
    local_key,
    versions,
)
from ge.lowering.onnx.values import Value, described
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import ImportedWeights
from ge.transforms.sharding.annotate_shardings import annotate, name_values
from ge.transforms.sharding.rules import ShardRules

# Exporters that have no name for an unknown dimension write this one, for each of them: two such
# dimensions need not have the same size
ANONYMOUS = "?"


def symbol_of(dim: TensorShapeProto.Dimension) -> str:
    """The name of a symbolic dimension, "" if it has none."""
    return "" if dim.dim_param == ANONYMOUS else dim.dim_param


def has_size(dim: TensorShapeProto.Dimension) -> bool:
    """Return whether a dimension is known: not a symbol, nor -1, as exporters write unknown
    ones."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


@dataclass
class Fixed:
    """The user's facts about inputs: shapes by input, symbolic dimensions by name, for inputs that
    are sequences how many tensors they have (None: an optional that is not given), the sizes that
    dimensions may have which stay unknown, and how some follow from others.
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
        """Add a seed, an input that is none of the model's: random numbers follow from it. No input
        has its name."""
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
    return did_you_mean(name, known, f"; the model has {names_text(known)}")


# Told what is going on, and how much of how much is done
Progress: TypeAlias = Callable[[str, int, int], object]

# More nodes than this, functions and constant loops written out, are taken for an attack
MAX_NODES = 1_000_000


@dataclass
class Imported:
    """A module at the graph level, and its weights by key (absent ones are not in the dict)."""

    module: ModuleOp
    payload: ImportedWeights = field(default_factory=ImportedWeights)


class Importer:
    """Imports one model. `folder` holds its external data, or `tensors` has it."""

    def __init__(
        self,
        model: ModelProto,
        fixed: Fixed,
        folder: Path | None = None,
        progress: Progress | None = None,
        tensors: Tensors | None = None,
        rules: ShardRules | None = None,
    ) -> None:
        self.model = model
        self.rules = rules
        self.fixed = fixed
        self.tensors = Tensors(folder) if tensors is None else tensors
        self.payload = ImportedWeights()
        self.keys: dict[str, int] = {}
        self.streams: dict[str, int] = {}
        self._seed: SSAValue | None = None
        self.computed: dict[SSAValue, Array] = {}
        self.problems: list[ImportProblem] = []
        self.warnings: dict[str, None] = {}  # in order, each once
        unstated = onnx_opset_version() if model.ir_version >= 3 else 1
        self.opsets = {"": unstated, **versions(model.opset_import)}
        if model.ir_version >= 3 and all(not o.version for o in model.opset_import):
            self.warn(f"the model states no opset; its nodes are read as those of opset {unstated}")
        self.functions = {f.key: f for f in map(local_function, model.functions)}
        self.has_tried = False
        self.nodes = 0
        self.progress = progress
        initialized = {i.name for i in model.graph.initializer}
        inputs = [i for i in model.graph.input if i.name not in initialized]
        self.arguments = make_arguments(self.without_repeats(inputs, "input"), fixed)

    def warn(self, text: str) -> None:
        """Warn of what a file should not say, and has one meaning."""
        self.warnings[text] = None

    def without_repeats(
        self, infos: Sequence[ValueInfoProto], what: str
    ) -> Sequence[ValueInfoProto]:
        """Inputs or outputs without those that say the same again as one before."""
        kept: dict[tuple[str, bytes], ValueInfoProto] = {}
        for info in infos:
            key = info.name, info.SerializeToString(deterministic=True)
            if kept.setdefault(key, info) is not info:
                self.warn(f"{what} '{info.name}' is named twice")
        return list(kept.values())

    # ---- what scopes ask for

    def unique_key(self, name: str) -> str:
        key = name
        while key in self.keys:
            self.keys[name] += 1
            key = f"{name}.{self.keys[name]}"
        self.keys[key] = 0
        return key

    def stream(self, name: str) -> int:
        """The number of a stream of random numbers for a node of this name; another one each time
        that the node is imported."""
        key, again = name, 0
        while key in self.streams:
            again += 1
            key = f"{name}.{again}"
        number, taken = crc32(key.encode()), set(self.streams.values())
        while number in taken:
            number = (number + 1) % STREAMS
        self.streams[key] = number
        return number

    def seed(self) -> SSAValue:
        """The argument that the session gives for random numbers."""
        if self._seed is None:
            self._seed = self.arguments.add_seed()
        return self._seed

    def mark(self) -> Sequence[int]:
        return [len(table) for table in (self.payload, self.keys, self.streams)]

    def reset(self, mark: Sequence[int]) -> None:
        for table, length in zip((self.payload, self.keys, self.streams), mark, strict=True):
            while len(table) > length:
                table.popitem()

    def function(self, node: NodeProto) -> OnnxFunction | None:
        if not self.functions:
            return None
        return self.functions.get(local_key(node.domain, node.op_type, node.overload))

    def count_node(self) -> None:
        self.nodes += 1
        if self.progress is not None and self.nodes % 256 == 0:
            self.progress("importing", self.nodes, max(self.nodes, len(self.model.graph.node)))
        if self.nodes > MAX_NODES:
            raise TooLarge(
                f"the model has more than {MAX_NODES:,} nodes with its functions inlined"
            )

    def report(
        self,
        op_type: str,
        name: str,
        why: Exception,
        node: NodeProto | None = None,
        hint: str = "",
    ) -> None:
        text = (why.message if isinstance(why, GeError) else str(why)) + hint
        line = "" if node is None else line_of(node)
        mismatch = isinstance(why, VerifyException) and not isinstance(why, NotStatic)
        problem = ImportProblem(op_type, name, " ".join(text.split()), line, mismatch)
        self.problems.append(problem)

    @contextmanager
    def trial(self) -> Generator[list[ImportProblem]]:
        """Within the context problems go to a list of their own, for an attempt that may be
        dropped."""
        problems, self.problems = self.problems, list[ImportProblem]()
        self.has_tried = True
        try:
            yield self.problems
        finally:
            self.problems = problems

    def blame(self, node: NodeProto, error: Exception) -> Exception:
        """Return the error to report about a node at which a handler stumbled: an error of the node
        by the rules of ONNX, or else that the handler failed."""
        context = onnx.checker.C.CheckerContext()
        context.ir_version = max(self.model.ir_version, 3)
        context.opset_imports = self.opsets
        try:
            if not list(subgraphs(node)):  # their outer names would be taken for errors
                onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError as e:
            return GeError(str(e).split("==>")[0])
        except Exception:  # not even the checker can read it
            pass
        what = f"ge's own handler failed ({type(error).__name__}: {error})"
        return GeError(f"{what}: this is a bug in ge, not in the model; GE_DEBUG=1 prints where")

    # ---- the model

    def run(self) -> Imported:
        """The module of the whole model. Raises GeError that lists every node that is not
        supported."""
        graph, inputs = self.model.graph, self.arguments
        scope = Scope(self, inputs.block, self.opsets)
        try:
            outputs = scope.import_graph(graph, inputs.values)
        except Failed:
            outputs = []
        except (Unsupported, GeError) as e:  # of the graph itself, beside those of nodes
            if not self.problems:
                raise GeError(str(e) if isinstance(e, Unsupported) else e.message) from e
            outputs = []
        if self.problems:
            raise GeError(problems_text(self.problems))
        results: list[SSAValue] = []
        attributes: list[DictionaryAttr] = []
        by_name = {i.name: v for i, v in zip(graph.output, outputs, strict=True)}
        if len(by_name) < len(outputs):
            self.warn("an output is named twice, and returned once")
        for name, value in by_name.items():
            for v, attrs in output_values(name, value):
                results.append(v)
                attributes.append(DictionaryAttr(attrs))
        inputs.block.add_op(ReturnOp(*results))
        func = FuncOp(
            "main",
            ([a.type for a in inputs.block.args], [v.type for v in results]),
            Region(inputs.block),
            arg_attrs=ArrayAttr(inputs.attributes),
            res_attrs=ArrayAttr(attributes),
        )
        if self.has_tried:
            drop_strays(func)
            warn_of_asserts(func)
        module = ModuleOp([func])
        self.cut_over_devices(module, func, scope.values)
        for text in self.warnings:
            warning(func, text)
        if self.fixed.ranges:
            state_ranges(func, self.fixed.ranges)
        state_relations(func, self.fixed.relations.texts)
        self.payload.files = self.tensors.external_files()
        return Imported(module, self.payload)

    def cut_over_devices(self, module: ModuleOp, main: FuncOp, values: Mapping[str, Value]) -> None:
        """State how values are cut over devices as the model says it, and the names of values that
        rules may be for."""
        rules, own = self.rules, None
        if self.model.configuration:
            own = stated_rules(self.model, values, rules and rules.mesh, self.warn)
        if rules and rules.pipeline and self.model.configuration:
            enter_stages(self.model, values)
        if not own and not (rules and (rules.shard or rules.ends)):
            return
        named = {name: value for name, value in values.items() if isinstance(value, SSAValue)}
        if own:
            name_values(main, named)
            annotate(module, own, pad=True)  # whether parts must be equal is not the model's to say
        if rules and (rules.shard or rules.ends):
            name_values(main, named)


def drop_strays(func: FuncOp) -> None:
    """Take away what trials have left: ops outside of the function that use values of it."""
    inside = {id(op) for op in func.walk()}
    values = [r for op in func.walk() for r in op.results]
    values += [a for op in func.walk() for r in op.regions for b in r.blocks for a in b.args]
    for value in values:
        for use in [u for u in value.uses if id(u.operation) not in inside]:
            use.operation.drop_all_references()


def warn_of_asserts(func: FuncOp) -> None:
    asserts = {op.message.data: op for op in func.walk() if isinstance(op, AssertOp)}
    for message, op in asserts.items():
        warning(op, f"a run ends in an error if {message}")


def output_values(name: str, value: Value) -> list[tuple[SSAValue, dict[str, Attribute]]]:
    """An output as results of the main function: one, or one for each member of a sequence."""
    if isinstance(value, SSAValue):
        return [(value, {NAME: StringAttr(name)})]
    if not isinstance(value, tuple):
        raise GeError(f"output '{name}' is {described(value)}, which a program cannot return")
    return [
        (v, {NAME: StringAttr(f"{name}.{i}"), SEQUENCE: StringAttr(name)})
        for i, v in enumerate(value)
    ]


def problems_text(problems: Sequence[ImportProblem]) -> str:
    if len(problems) == 1:
        p = problems[0]
        return f"{p.op_type} {p}: {p.reason}"
    groups: dict[tuple[str, str], list[str]] = {}
    for p in problems:
        groups.setdefault((p.op_type, p.reason), []).append(str(p))
    lines = [
        f"  {op_type}: {reason}: {', '.join(names)}"
        for (op_type, reason), names in sorted(groups.items())
    ]
    return f"{len(problems)} nodes cannot be imported:\n" + "\n".join(lines)


def import_model(
    model: ModelProto,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    folder: Path | None = None,
    lengths: Mapping[str, int | None] | None = None,
    progress: Progress | None = None,
    tensors: Tensors | None = None,
    rules: ShardRules | None = None,
) -> Imported:
    """Import a model proto. `shapes` fixes inputs by name, `dims` symbolic dimensions, both to a
    size or to a range, `lengths` inputs that are sequences (None: an optional that is not given);
    `folder` holds external data, or `tensors` has it; `rules` say how its values are to be cut over
    devices. Raises GeError naming every node that cannot be imported."""
    fixed = Fixed.of(shapes or {}, dims or {}, lengths or {})
    return Importer(model, fixed, folder, progress, tensors, rules).run()


def import_file(
    path: str | Path,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    progress: Progress | None = None,
    rules: ShardRules | None = None,
) -> Imported:
    """Import an ONNX file. Raises GeError that names the file for whatever is wrong with it."""
    model = read_model(path)
    try:
        return import_model(model, shapes, dims, Path(path).parent, progress=progress, rules=rules)
    except GeError as e:
        raise GeError(e.message, str(path), e.hint) from e
