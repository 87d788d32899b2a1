"""`torch.compile(model, backend="ge")`: graphs that PyTorch's dynamo finds in a model's code.
What ge cannot take runs in Python, as it does without ge: so do outputs that are numbers, or on
the memory of the graph's inputs. Of

    x, n: y = x.view(-1); z = x * 2; return y, n + 1, z

`y` shares its elements with `x`, as a program's output could not, and `n + 1` is no tensor: a
program is made for `z` alone."""

import re
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from traceback import format_exception
from typing import Any

from ge.dialects.support.environment import debugging
from ge.dialects.support.errors import GeError
from ge.lowering.pipeline.options import Options
from ge.lowering.torch.compiled import COMPILING, MOST_KEPT, CompiledGraph, refuse_training
from ge.lowering.torch.library import check_tensor, pytree, torch
from ge.lowering.torch.translate import UNBOUNDED, Captured, capture, translate


@dataclass(frozen=True)
class SplitGraph:
    """Two graphs with the inputs of one, and which of its outputs each has, in order."""

    python: Any
    in_python: Sequence[int]
    computed: Any
    in_program: Sequence[int]

    def merged(self, python: Sequence[Any], computed: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of the whole graph."""
        values = dict(zip(self.in_python, python, strict=True))
        values |= zip(self.in_program, computed, strict=True)
        return tuple(values[i] for i in range(len(values)))


def parts_of(graph: Any) -> SplitGraph:
    """The parts of a graph module. That of Python has only the nodes that its outputs need; that of
    the program keeps all, with what the graph writes to its inputs."""
    outputs = leaves_of(graph.graph.output_node())
    made = made_in_python(graph.graph.nodes)
    in_python = [i for i, v in enumerate(outputs) if not is_node(v) or v in made]
    in_program = [i for i in range(len(outputs)) if i not in in_python]
    python = with_outputs(graph, in_python)
    python.graph.eliminate_dead_code()
    python.recompile()
    return SplitGraph(python, in_python, with_outputs(graph, in_program), in_program)


def is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def leaves_of(output: Any) -> list[Any]:
    """Return the outputs of a graph of dynamo's: one flat sequence."""
    return list(output.args[0])


def with_outputs(graph: Any, numbers: Sequence[int]) -> Any:
    """A copy of a graph module that returns some of the outputs."""
    nodes: dict[Any, Any] = {}
    new = torch.fx.Graph()
    leaves = leaves_of(graph.graph.output_node())
    for node in graph.graph.nodes:
        if node.op != "output":
            nodes[node] = new.node_copy(node, nodes.__getitem__)
            nodes[node].meta = copy(node.meta)
    kept = [leaves[i] for i in numbers]
    new.output(tuple(nodes[v] if is_node(v) else v for v in kept))
    return torch.fx.GraphModule(graph, new)


def made_in_python(nodes: Sequence[Any]) -> set[Any]:
    """The nodes that compute no element of a tensor, nor follow from one that does."""
    made: set[Any] = set()
    for node in nodes:
        if node.op == "placeholder" or (
            made.issuperset(node.all_input_nodes) and not has_new_memory(node)
        ):
            made.add(node)
    return made


def has_new_memory(node: Any) -> bool:
    """Return whether a node makes a tensor that is on the memory of none that it reads."""
    read = {key for n in node.all_input_nodes for key in memories(n)}
    return not read.issuperset(memories(node))


def memories(node: Any) -> list[int]:
    """Return a key for the memory of each tensor that a node makes."""
    values = pytree.tree_leaves(node.meta.get("example_value"))
    return [memory(v) for v in values if isinstance(v, torch.Tensor)]


def memory(tensor: Any) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse: none
        return id(tensor)


TABLE = "custom_translation_table"


def ge_backend(
    graph: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> "Fragment":
    """A backend of `torch.compile`, which `options` of `ge.compile` go to (and
    `custom_translation_table`). The graph is compiled when it is first called. Raises GeError for
    wrong options."""
    given = dict(options or {})
    table = given.pop(TABLE, None)
    return Fragment(graph, example_inputs, table, Options.from_environment(**given))


NAMES = re.compile(r"\['([^']+)'\]")

TABLES = ("_modules", "_parameters", "_buffers")


def shown_names(places: Sequence[Any]) -> list[str]:
    """The names of what placeholders stand for in the user's program: `fc.weight`, `x`; the
    placeholder's own where there would be two of a name."""
    names: list[str] = []
    for node in places:
        argument = node.meta.get("grapharg")
        parts = [] if argument is None else NAMES.findall(argument.source.name)
        inner = [part for part in parts if part not in TABLES]
        names.append(".".join(inner[1:] if len(inner) > 1 else inner) or node.name)
    return [n if names.count(n) == 1 else p.name for n, p in zip(names, places, strict=True)]


def is_weight(value: Any) -> bool:
    """Return whether dynamo knows a tensor as a parameter or buffer."""
    address = torch._dynamo.utils.get_static_address_type
    return isinstance(value, torch.Tensor) and address(value) is not None


def sizes_of(values: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Return of values that are numbers known at run time those that are sizes of tensors among the
    values: which tensor's, and which axis."""
    places = {
        str(size): (i, axis)
        for i, v in enumerate(values)
        if isinstance(v, torch.Tensor)
        for axis, size in enumerate(v.shape)
    }
    symbols = {i: str(v) for i, v in enumerate(values) if isinstance(v, torch.SymInt)}
    return {i: places[s] for i, s in symbols.items() if s in places}


def is_open(size: Any) -> bool:
    """Return whether a size is known at run time only. Dynamo leaves symbols for sizes that later
    turn out to have one value only by the model's code."""
    return isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None


def open_axes(values: Sequence[Any], named: bool) -> list[Any]:
    """Return the sizes of inputs for `torch.export.export`: which sizes, and numbers, are known at
    run time only; with `named`, which of them are the same, and their ranges."""
    hint = torch.export.Dim.AUTO
    symbols: dict[str, Any] = {}

    def dim(size: Any) -> Any:
        if not named or not str(size).isidentifier():
            return hint
        bounds = size.node.shape_env.bound_sympy(size.node.expr)
        most = int(bounds.upper) if bounds.upper < UNBOUNDED else None
        least = int(bounds.lower)
        return symbols.setdefault(str(size), torch.export.Dim(str(size), min=least, max=most))

    axes: list[Any] = []
    for value in values:
        sizes = value.shape if isinstance(value, torch.Tensor) else ()
        by_axis = {i: dim(s) for i, s in enumerate(sizes) if is_open(s)}
        axes.append(torch.export.Dim.DYNAMIC if is_open(value) else by_axis or None)
    return axes


def is_number(place: Any) -> bool:
    """Return whether a placeholder is a float of Python's, which dynamo (`dynamic=True`) passes in
    a tensor and takes out of it by `.item()`."""
    argument = place.meta.get("grapharg")
    is_wrapped = argument is not None and argument.pass_arg_as_tensor and not argument.is_tensor
    return is_wrapped and all(user.target == "item" for user in place.users)


class Runner(torch.fx.Interpreter):
    """Runs a graph, so that nodes which are traced keep the lines that they stand for; a float that
    should be in a tensor may be given without one."""

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target == "item" and isinstance(args[0], float):
            return args[0]
        return torch.fx.Interpreter.call_method(self, target, args, kwargs)


class Lifted(torch.nn.Module):
    """A graph of dynamo's whose parameters and buffers are its own again, whose floats are known,
    and whose numbers that are sizes of inputs are computed from these. Dynamo passes all of them as
    arguments."""

    def __init__(
        self,
        graph: Any,
        weights: Mapping[int, Any],
        numbers: Mapping[int, float],
        sizes: Mapping[int, tuple[int, int]],
    ) -> None:
        torch.nn.Module.__init__(self)
        self.graph, self.numbers, self.sizes = graph, numbers, sizes
        self.names = {i: attribute(i) for i in weights}
        for i, tensor in weights.items():
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            register = self.register_parameter if is_parameter else self.register_buffer
            register(self.names[i], tensor)

    def forward(self, *inputs: Any) -> Any:
        values: dict[int, Any] = {i: getattr(self, name) for i, name in self.names.items()}
        values |= self.numbers
        count = len(inputs) + len(values) + len(self.sizes)
        free = (i for i in range(count) if i not in values and i not in self.sizes)
        values |= zip(free, inputs, strict=True)
        for i, (place, axis) in self.sizes.items():
            values[i] = values[place].shape[axis]
        return Runner(self.graph).run(*(values[i] for i in range(count)))


def attribute(number: int) -> str:
    return f"weight_{number}"


class Fragment:
    """A graph of dynamo's, of which a program computes what it can. Where something cannot be
    compiled or run, all of the graph runs in Python from then on, after one warning."""

    def __init__(
        self,
        graph: Any,
        examples: Sequence[Any],
        table: Mapping[Any, Any] | None,
        options: Options,
    ) -> None:
        self.graph, self.parts = graph, None
        self.program: Graph | None = None
        try:
            parts = parts_of(graph)
            if parts.in_program:
                self.parts = parts
                self.program = Graph(parts.computed, examples, table, options)
        except Exception as e:
            self.leave(e)

    def __call__(self, *args: Any) -> Any:
        """Return what the graph returns."""
        if self.program is not None and self.parts is not None:
            try:
                computed = self.program(*args)
            except Exception as e:
                self.leave(e)
            else:
                return self.parts.merged(self.parts.python(*args), computed)
        return self.graph(*args)

    def leave(self, error: Exception) -> None:
        """Leave the graph to Python, and warn."""
        self.program = None
        if isinstance(error, GeError):
            why = "; ".join(part for part in (error.where, error.message, error.hint) if part)
        else:
            why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        if debugging():
            why += "\n" + "".join(format_exception(error))
        text = f"ge leaves a graph of {len(self.graph.graph.nodes)} nodes to PyTorch: {why}"
        warnings.warn(text, stacklevel=2)


class Graph:
    """A graph of dynamo's, which is called with all values that it reads: parameters, too. Floats
    of Python's are part of what is compiled, as they are without `dynamic=True`."""

    def __init__(
        self,
        graph: Any,
        examples: Sequence[Any],
        table: Mapping[Any, Any] | None,
        options: Options,
    ) -> None:
        self.graph, self.table, self.options = graph, table, options
        places = [n for n in graph.graph.nodes if n.op == "placeholder"]
        values = [n.meta.get("example_value") for n in places]
        self.shown = shown_names(places)
        self.weights = [i for i, v in enumerate(examples) if is_weight(v)]
        self.sizes = sizes_of(values)
        self.numbers = [i for i, place in enumerate(places) if is_number(place)]
        own = {*self.weights, *self.numbers, *self.sizes}
        self.inputs = [i for i in range(len(places)) if i not in own]
        opened = [values[i] for i in self.inputs]
        self.axes = [open_axes(opened, named) for named in (True, False)]
        # By the floats
        self.made: dict[tuple[float, ...], tuple[Captured, CompiledGraph]] = {}

    def __call__(self, *args: Any) -> Any:
        """Return what the graph returns. Raises GeError if it cannot be compiled."""
        refuse_training(args)
        captured, compiled = self.at(args)
        weights = captured.weights | {self.shown[i]: args[i] for i in self.weights}
        inputs = [args[i] for i in self.inputs]
        known = captured.constants(inputs)  # numbers that the code allows for one value of
        given = [v for i, v in enumerate(inputs) if i not in known]
        return captured.returned(compiled.run(given, weights), inputs)

    def at(self, args: Sequence[Any]) -> tuple[Captured, CompiledGraph]:
        numbers = tuple(float(args[i]) for i in self.numbers)
        with COMPILING:
            if numbers not in self.made:
                self.made[numbers] = self.translated(args, numbers)
                if len(self.made) > MOST_KEPT:
                    del self.made[next(iter(self.made))]
            return self.made[numbers]

    def translated(
        self, args: Sequence[Any], numbers: Sequence[float]
    ) -> tuple[Captured, CompiledGraph]:
        for name, value in zip(self.shown, args, strict=True):
            if isinstance(value, torch.Tensor):
                check_tensor(name, value)
        floats = dict(zip(self.numbers, numbers, strict=True))
        lifted = Lifted(self.graph, {i: args[i] for i in self.weights}, floats, self.sizes)
        inputs = [args[i] for i in self.inputs]
        captured = self.captured(lifted, inputs)
        names = captured.exported.graph_signature.user_inputs
        shown = [self.shown[i] for i in self.inputs]
        translated = translate(captured, self.table, shown=dict(zip(names, shown, strict=True)))
        return captured, CompiledGraph(translated, self.options, "graph")

    def captured(self, lifted: Lifted, inputs: Sequence[Any]) -> Captured:
        """The exported graph; where torch.export finds other ranges of sizes than dynamo, without
        saying which are the same."""
        shown = {attribute(i): self.shown[i] for i in self.weights}
        shapes = [{"inputs": tuple(axes)} if any(axes) else None for axes in self.axes]
        try:
            return capture(lifted, inputs, {}, shapes[0], shown)
        except torch._dynamo.exc.UserError:
            return capture(lifted, inputs, {}, shapes[1], shown)
