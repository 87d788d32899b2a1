"""A model of PyTorch as an exported program, and this as an ONNX model in memory, whose weights
are the tensors of PyTorch.

`dynamic_shapes` says which sizes of its inputs are open; some of its outputs no program has to
compute. PyTorch's own exporter translates the ops; what it cannot is said with the line of the
user's program. Nothing is written, and no weight is copied: the model names each as external
data, and `Weights` has it. The exporter's optimizer does not run, for it computes new weights (of
batch norms in convolutions); ge's passes do the same work later."""

import inspect
import logging
import re
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from onnx import ModelProto, TensorProto

from ge.dialects.support.dims import Range
from ge.dialects.support.errors import GeError
from ge.lowering.onnx.model import Tensors, user_line
from ge.lowering.torch.decompositions import replacements
from ge.lowering.torch.library import array_of, onnx_ir, pytree, torch
from ge.runtime.data.arrays import Array

INNER = "model."  # before the names of parameters: `Flat` is around the model


@dataclass(frozen=True)
class OutputLeaf:
    """A leaf of what a model returns: output `number` of the program, which is a tensor or (`kind`)
    a Python number; input `number` itself; or a `value` that is always the same."""

    source: str  # "program", "input", "value"
    number: int = 0
    kind: type | None = None
    value: object = None


@dataclass
class Returned:
    """Outputs of a model: its leaves, and how they are put together."""

    outputs: list[OutputLeaf] = field(default_factory=list[OutputLeaf])
    spec: Any = None


class Flat(torch.nn.Module):
    """A module around a model that returns nothing but different tensors (and sizes) which are
    computed: constants, None, and what is an input or is returned twice are only noted, for the
    graph of an exporter has no place for them. They are noted in `returned`, and not in the module,
    whose attributes are as before when it was traced."""

    def __init__(self, model: Any, returned: Returned) -> None:
        torch.nn.Module.__init__(self)
        self.model = model

        def forward(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            leaves, returned.spec = pytree.tree_flatten(self.model(*args, **kwargs))
            returned.outputs, results = sorted_out(leaves, pytree.tree_leaves((args, kwargs)))
            return results

        # by which the exporter knows the names of the inputs
        forward.__signature__ = inspect.signature(model.forward)  # pyright: ignore[reportFunctionMemberAccess]
        self.forward = forward


def sorted_out(
    leaves: Sequence[Any], inputs: Sequence[Any]
) -> tuple[list[OutputLeaf], tuple[Any, ...]]:
    """Return where each leaf of the output comes from, and the leaves that are to be computed."""
    numbers = {id(v): i for i, v in enumerate(inputs)}
    computed: dict[int, Any] = {}
    outputs: list[OutputLeaf] = []
    for leaf in leaves:
        kind = number_type(leaf)
        if kind is None and not isinstance(leaf, torch.Tensor):
            outputs.append(OutputLeaf("value", value=leaf))
        elif id(leaf) in numbers:
            outputs.append(OutputLeaf("input", numbers[id(leaf)], kind))
        else:
            computed.setdefault(id(leaf), leaf)
            outputs.append(OutputLeaf("program", list(computed).index(id(leaf)), kind))
    return outputs, tuple(computed.values())


def number_type(leaf: object) -> type | None:
    """The type of a number that is known at run time only, None for any other leaf."""
    kinds = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
    return next((k for symbolic, k in kinds.items() if isinstance(leaf, symbolic)), None)


class FunctionModule(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        torch.nn.Module.__init__(self)
        self.forward = function


@dataclass
class Captured:
    """An exported program, and how what the model returns is made of its outputs. `shown` has the
    names of weights where the model's module is not the user's."""

    exported: Any  # a torch.export.ExportedProgram
    outputs: Sequence[OutputLeaf]
    spec: Any
    shown: Mapping[str, str] = field(default_factory=dict[str, str])

    def key(self, name: str) -> str:
        """The name of a parameter, buffer or constant of the exported program for users."""
        name = name.removeprefix(INNER)
        return self.shown.get(name, name)

    @property
    def weights(self) -> dict[str, Any]:
        """Parameters, buffers and constants by key: the tensors of the model themselves."""
        tables = self.exported.state_dict, self.exported.constants
        return {self.key(n): t for table in tables for n, t in table.items()}

    def constants(self, leaves: Sequence[Any]) -> dict[int, object]:
        """Return the leaves of the example inputs that are part of the program, by number."""
        kind = torch.export.graph_signature.ConstantArgument
        specs = [
            s.arg
            for s in self.exported.graph_signature.input_specs
            if s.kind == torch.export.graph_signature.InputKind.USER_INPUT
        ]
        pairs = zip(specs, leaves, strict=True)
        return {i: leaf for i, (spec, leaf) in enumerate(pairs) if isinstance(spec, kind)}

    def returned(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Return the model's output, from the program's results and the leaves of its inputs."""
        leaves: list[Any] = []
        for output in self.outputs:
            if output.source == "value":
                leaves.append(output.value)
                continue
            leaf = (results if output.source == "program" else inputs)[output.number]
            kind = output.kind if isinstance(leaf, torch.Tensor) else None
            leaves.append(leaf if kind is None else kind(leaf))
        return pytree.tree_unflatten(leaves, self.spec)


@contextmanager
def quiet() -> Generator[None]:
    """Silence warnings of PyTorch about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def capture(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any = None,
    shown: Mapping[str, str] | None = None,
) -> Captured:
    """Trace a model, without looking at the numbers of its inputs. Nodes that come from a graph
    (of `torch.compile`) keep the lines that they stand for. Raises GeError where it returns nothing
    that depends on them, and what torch.export raises for what it cannot trace."""
    returned = Returned()
    flat = Flat(model, returned)
    with quiet(), torch.no_grad(), torch.fx.traceback.preserve_node_meta():
        exported = torch.export.export(
            flat, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
        )
    if not any(output.source == "program" for output in returned.outputs):
        raise GeError(
            "the model computes no new tensor: all that it returns is an input or a constant",
            hint="a program for it would have nothing to do",
        )
    return Captured(exported, returned.outputs, returned.spec, shown or {})


def dim_names(
    exported: Any, signature: inspect.Signature, args: Any, kwargs: Any, dynamic_shapes: Any
) -> dict[str, str]:
    """The names that `dynamic_shapes` (as of torch.export.export) gives the symbols of an exported
    program, by symbol."""
    given = dict(specs(signature, args, kwargs, dynamic_shapes))
    leaves = pytree.tree_leaves((args, kwargs))
    names: dict[str, str] = {}
    for leaf, value in zip(leaves, input_values(exported), strict=True):
        for axis, dim in given.get(id(leaf), {}).items():
            size = value.shape[axis] if isinstance(value, torch.Tensor) else None
            name = getattr(dim, "__name__", "")
            if isinstance(size, torch.SymInt) and str(size).isidentifier() and name.isidentifier():
                names.setdefault(str(size), name)
    return names


def specs(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> Iterator[tuple[int, dict[int, Any]]]:
    """The dimensions by axis that are given for tensors, these by `id`."""
    if isinstance(shapes, Mapping):
        arguments = signature.bind(*args, **kwargs).arguments
        named = cast(Mapping[str, Any], shapes)
        for name, value in arguments.items():
            variadic = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            inner = named if variadic and name not in named else named.get(name)
            yield from matched(value, inner)
    elif shapes is not None:
        yield from matched((*args, *kwargs.values()), shapes)


def matched(value: Any, spec: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    if isinstance(value, torch.Tensor):
        yield id(value), by_axis(spec)
    elif isinstance(value, Mapping) and isinstance(spec, Mapping):
        inner = cast(Mapping[Any, Any], spec)
        for key, item in cast(Mapping[Any, Any], value).items():
            yield from matched(item, inner.get(key))
    elif isinstance(value, list | tuple) and isinstance(spec, list | tuple):
        items, inner = cast(Sequence[Any], value), cast(Sequence[Any], spec)
        for item, part in zip(items, inner, strict=False):
            yield from matched(item, part)


def by_axis(spec: Any) -> dict[int, Any]:
    items: Any = spec.items() if hasattr(spec, "items") else enumerate([] if spec is None else spec)
    return {axis: dim for axis, dim in items}


TARGET = re.compile(r"call_function\[(target=[^\]\s]+)\]")

HINT = (
    "give a translation (custom_translation_table), or keep the op out of the graph "
    "(torch.compiler.disable)"
)


def unsupported(error: BaseException, exported: Any) -> GeError:
    """The error for an exported program that PyTorch's exporter refuses: the op, and its line."""
    chain = causes(error)
    inner = str(chain[-1]).strip().partition("\n")[0]
    for text in map(str, chain):
        if found := TARGET.search(text):
            op = found[1].removeprefix("target=").removeprefix("torch.ops.")
            line = line_of_target(found[1], exported)
            return GeError(f"{op} has no translation: {inner}", line, HINT)
    return GeError(f"PyTorch's exporter cannot translate the model: {inner}")


def causes(error: BaseException) -> list[BaseException]:
    """An error, and its causes, the first cause last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain


def line_of_target(target: str, exported: Any) -> str:
    """The line of the first node that calls `target`, which may be part of another op."""
    for program in (exported, None):
        program = exported.run_decompositions() if program is None else program
        for node in program.graph.nodes:
            if f"[{target}]" in (node.format_node() or ""):
                return user_line(node.meta.get("stack_trace") or "")
    return ""


MOST_ROUNDS = 4

UNBOUNDED = 1 << 31  # sizes of this and more are no bound


class Weights(Tensors):
    """External data that is in memory, by location."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        super().__init__()
        self.tensors = tensors

    def array(self, proto: TensorProto) -> Array | None:
        if proto.data_location != TensorProto.EXTERNAL:
            return super().array(proto)
        location = next(e.value for e in proto.external_data if e.key == "location")
        array = np.ascontiguousarray(array_of(location, self.tensors[location])).view()
        array.flags.writeable = False
        return array.reshape(tuple(proto.dims))


@dataclass(frozen=True)
class Translated:
    """A model without its weights, the names of those that it has, of its inputs, and of the output
    that each result is; and the ranges of its dimensions."""

    model: ModelProto
    weights: Sequence[str]
    inputs: Sequence[str]
    outputs: Sequence[str]
    ranges: Mapping[str, Range]


def translate(
    captured: Captured,
    table: Mapping[Any, Any] | None = None,
    dims: Mapping[str, str] | None = None,
    shown: Mapping[str, str] | None = None,
) -> Translated:
    """Translate an exported program; `table` has translations of ops (`custom_translation_table`
    of torch.onnx.export), `dims` names for symbols of sizes, `shown` names for inputs in messages.
    Raises GeError for ops that have no translation, for tensors that the model writes to, and for
    inputs and outputs of complex numbers."""
    refuse_complex(captured.exported, shown or {})
    with quiet(), quiet_logger():
        try:
            made = onnx_program(captured.exported, table or {})
        except torch.onnx.errors.OnnxExporterError as e:
            raise unsupported(e, captured.exported) from e
    refuse_writes(captured, made.exported_program.graph_signature, shown or {})
    model = made.model
    weights = detach_weights(model, captured)
    rename_inputs(model, shown or {})
    name_dims(model, dims or {})
    cast_outputs(model, captured.exported)
    outputs = list(model.graph.outputs)
    model.graph.outputs[:] = dict.fromkeys(outputs)  # aliases of a tensor are one output
    return Translated(
        onnx_ir.to_proto(model),
        weights,
        [v.name for v in model.graph.inputs],
        [v.name for v in outputs],
        ranges_of(made.exported_program, dims or {}),
    )


def onnx_program(exported: Any, table: Mapping[Any, Any]) -> Any:
    """Export a program by PyTorch's exporter, without those of its translations that do something
    else than the op."""

    def export(program: Any) -> Any:
        return torch.onnx.export(
            program, (), dynamo=True, verbose=False, optimize=False,
            custom_translation_table=table or None,
        )  # fmt: skip

    left: Mapping[Any, Any] = {}
    for _ in range(MOST_ROUNDS):  # decompositions may have such calls, too
        if left := replacements(exported, table):  # before the exporter has its own
            exported = exported.run_decompositions(dict(left))
        made = export(exported)
        exported = made.exported_program
        if not (left := replacements(exported, table)):
            return made
    raise GeError(f"PyTorch has no decomposition of {', '.join(map(str, left))}")


@contextmanager
def quiet_logger() -> Generator[None]:
    """Silence the exporter's warnings, which do not concern a user who wants no ONNX file."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def refuse_writes(captured: Captured, signature: Any, shown: Mapping[str, str]) -> None:
    """Raises GeError for a model that changes its buffers, parameters or inputs."""
    own = {**signature.buffers_to_mutate, **signature.parameters_to_mutate}
    written = [f"'{captured.key(n)}'" for n in own.values()]
    written += [f"input '{shown.get(n, n)}'" for n in signature.user_inputs_to_mutate.values()]
    if written:
        hint = (
            "call model.eval() if that is by training, else take the old value as an input and "
            "return the new one"
        )
        raise GeError(f"the model writes to {', '.join(written)}", hint=hint)


def refuse_complex(exported: Any, shown: Mapping[str, str]) -> None:
    """Raises GeError for an exported program that takes or returns complex numbers. The exporter
    makes pairs of real ones of them without notice; inside of the program these do no harm."""
    values: dict[Any, Any] = {n.name: n.meta.get("val") for n in exported.graph.nodes}
    signature = exported.graph_signature
    for place, names in (("input", signature.user_inputs), ("output", signature.user_outputs)):
        for number, name in enumerate(names):
            value: Any = values.get(name)
            if isinstance(value, torch.Tensor) and value.is_complex():
                what = f"{place} '{shown.get(name, name) if place == 'input' else number}'"
                raise GeError(
                    f"{what} is {value.dtype}, which ge does not have",
                    hint="give and return real numbers (torch.view_as_real)",
                )


def rename_inputs(model: Any, shown: Mapping[str, str]) -> None:
    """Give inputs the names that users know, where no other value has them."""
    taken = value_names(model)
    for value in model.graph.inputs:
        if (name := shown.get(value.name, value.name)) not in taken:
            taken.add(name)
            value.name = name


def value_names(model: Any) -> set[str]:
    made = {v.name for node in model.graph for v in node.outputs}
    return made | {v.name for v in model.graph.inputs} | set(model.graph.initializers)


def detach_weights(model: Any, captured: Captured) -> list[str]:
    """Make parameters and buffers external data, at their keys; returns these."""
    tensors, taken = captured.weights, value_names(model)
    keys: list[str] = []
    for old, value in list(model.graph.initializers.items()):
        held, key = value.const_value, captured.key(old)
        if held is None or key not in tensors:
            continue
        value.const_value = onnx_ir.ExternalTensor(
            key, 0, held.nbytes, held.dtype, shape=held.shape, name=old
        )
        if key not in taken:
            value.name = key
        keys.append(key)
    return keys


def cast_outputs(model: Any, exported: Any) -> None:
    """Give outputs the element types that they have in PyTorch; some translations make others."""
    values: dict[Any, Any] = {n.name: n.meta.get("val") for n in exported.graph.nodes}
    wanted: list[Any] = [values.get(name) for name in exported.graph_signature.user_outputs]
    for i, (output, value) in enumerate(zip(model.graph.outputs, wanted, strict=True)):
        if output.dtype is None or not isinstance(value, torch.Tensor):
            continue
        name = str(value.dtype).removeprefix("torch.").replace("_", "")
        dtype = onnx_ir.DataType[DTYPES.get(name, name.upper())]
        if output.dtype != dtype:
            cast: Any = onnx_ir.Node("", "Cast", [output], [onnx_ir.AttrInt64("to", dtype)])
            model.graph.append(cast)
            model.graph.outputs[i] = result = cast.outputs[0]
            result.name, result.dtype, result.shape = f"{output.name}_cast_{i}", dtype, output.shape


DTYPES = {"float32": "FLOAT", "float64": "DOUBLE"}  # by other names than in ONNX

WORD = re.compile(r"[A-Za-z_]\w*")


def renamed(text: str, names: Mapping[str, str]) -> str:
    return WORD.sub(lambda m: names.get(m[0], m[0]), text)


def name_dims(model: Any, names: Mapping[str, str]) -> None:
    """Give the dimensions of inputs the names that users have for them."""
    for value in model.graph.inputs:
        if names and value.shape is not None:
            dims = [d if isinstance(d, int) else renamed(str(d.value), names) for d in value.shape]
            value.shape = onnx_ir.Shape(dims)


def input_values(exported: Any) -> list[Any]:
    """The examples, with symbols for sizes, of the inputs of an exported program; None for those
    that are part of it."""
    nodes = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    return [nodes.get(n) for n in exported.graph_signature.user_inputs]


def ranges_of(exported: Any, names: Mapping[str, str]) -> dict[str, Range]:
    """The sizes that dimensions of inputs may have, where there are bounds."""
    tensors = [v for v in input_values(exported) if isinstance(v, torch.Tensor)]
    used = {str(s) for v in tensors for s in v.shape if isinstance(s, torch.SymInt)}
    ranges: dict[str, Range] = {}
    for symbol, bounds in exported.range_constraints.items():
        if str(symbol) in used:
            most = int(bounds.upper) if bounds.upper < UNBOUNDED else None
            ranges[renamed(str(symbol), names)] = Range(int(bounds.lower), most)
    return ranges
