"""ONNX model -> one module at the graph level, and the payload of its weights."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto
from onnx.defs import onnx_opset_version
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.control import AssertOp
from ge.dialects.graph.ports import NAME, SEQUENCE, state_ranges, state_relations
from ge.dialects.graph.random import STREAMS
from ge.dialects.support.diagnostics import warning
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import NotStatic
from ge.dialects.text.values import Shapes, Sizes
from ge.lowering.onnx.functions import OnnxFunction, local_function, local_key, versions
from ge.lowering.onnx.inputs import Fixed, make_arguments
from ge.lowering.onnx.model import Tensors, read_model
from ge.lowering.onnx.order import subgraphs
from ge.lowering.onnx.registry import Unsupported
from ge.lowering.onnx.scope import Failed, ImportProblem, Scope, TooLarge
from ge.lowering.onnx.traces import line_of
from ge.lowering.onnx.values import Value, described
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import ImportedWeights

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
    ) -> None:
        self.model = model
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
        """Of what a file should not say, and has one meaning."""
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
        for table, count in zip((self.payload, self.keys, self.streams), mark, strict=True):
            while len(table) > count:
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
        """Within the context problems go to a list of their own, as of what may be dropped."""
        problems, self.problems = self.problems, list[ImportProblem]()
        self.has_tried = True
        try:
            yield self.problems
        finally:
            self.problems = problems

    def blame(self, node: NodeProto, error: Exception) -> Exception:
        """What to tell about a node at which a handler stumbled: what is wrong with it as ONNX,
        or else the exception."""
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
        try:
            outputs = Scope(self, inputs.block, self.opsets).import_graph(graph, inputs.values)
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
        for text in self.warnings:
            warning(func, text)
        if self.fixed.ranges:
            state_ranges(func, self.fixed.ranges)
        state_relations(func, self.fixed.relations.texts)
        self.payload.files = self.tensors.external_files()
        return Imported(ModuleOp([func]), self.payload)


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
) -> Imported:
    """Import a model proto. `shapes` fixes inputs by name, `dims` symbolic dimensions, both to a
    size or to a range, `lengths` inputs that are sequences (None: an optional that is not given);
    `folder` holds external data, or `tensors` has it. Raises GeError naming every node that cannot
    be imported."""
    fixed = Fixed.of(shapes or {}, dims or {}, lengths or {})
    return Importer(model, fixed, folder, progress, tensors).run()


def import_file(
    path: str | Path,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import an ONNX file. Raises GeError that names the file for whatever is wrong with it."""
    model = read_model(path)
    try:
        return import_model(model, shapes, dims, Path(path).parent, progress=progress)
    except GeError as e:
        raise GeError(e.message, str(path), e.hint) from e
