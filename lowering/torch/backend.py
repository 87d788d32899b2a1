"""`torch.compile(model, backend="ge")`: graphs that PyTorch's dynamo finds in a model's code."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ge.lowering.pipeline.options import Options
from ge.lowering.torch.capture import Captured, capture
from ge.lowering.torch.compiled import CompiledGraph, refuse_training
from ge.lowering.torch.library import torch
from ge.lowering.torch.tensors import check_tensor
from ge.lowering.torch.translate import translate

TABLE = "custom_translation_table"


def ge_backend(
    graph: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> "Graph":
    """A backend of `torch.compile`, which `options` of `ge.compile` go to (and
    `custom_translation_table`). The graph is compiled when it is first called. Raises GeError for
    wrong options."""
    given = dict(options or {})
    table = given.pop(TABLE, None)
    return Graph(graph, example_inputs, table, Options.from_environment(**given))


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
    """Whether dynamo knows a tensor as a parameter or buffer."""
    address = torch._dynamo.utils.get_static_address_type
    return isinstance(value, torch.Tensor) and address(value) is not None


def sizes_of(values: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """Of values that are numbers known at run time, those that are sizes of tensors among the
    values: which tensor's, and which axis."""
    places = {
        str(size): (i, axis)
        for i, v in enumerate(values)
        if isinstance(v, torch.Tensor)
        for axis, size in enumerate(v.shape)
    }
    symbols = {i: str(v) for i, v in enumerate(values) if isinstance(v, torch.SymInt)}
    return {i: places[s] for i, s in symbols.items() if s in places}


def open_axes(value: Any) -> Any:
    """What `torch.export.export` is told of an input: that sizes, or a number, are known at run
    time only."""
    dynamic = torch.export.Dim.DYNAMIC
    if isinstance(value, torch.Tensor):
        return {i: dynamic for i, s in enumerate(value.shape) if isinstance(s, torch.SymInt)}
    return dynamic if isinstance(value, torch.SymInt) else None


class Lifted(torch.nn.Module):
    """A graph of dynamo's whose parameters and buffers are its own again, and whose numbers that
    are sizes of inputs are computed from these. Dynamo passes all of them as arguments."""

    def __init__(
        self, graph: Any, weights: Mapping[int, Any], sizes: Mapping[int, tuple[int, int]]
    ) -> None:
        torch.nn.Module.__init__(self)
        self.graph, self.sizes = graph, sizes
        self.names = {i: attribute(i) for i in weights}
        for i, tensor in weights.items():
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            register = self.register_parameter if is_parameter else self.register_buffer
            register(self.names[i], tensor)

    def forward(self, *inputs: Any) -> Any:
        values: dict[int, Any] = {i: getattr(self, name) for i, name in self.names.items()}
        count = len(inputs) + len(self.names) + len(self.sizes)
        free = (i for i in range(count) if i not in values and i not in self.sizes)
        values |= zip(free, inputs, strict=True)
        for i, (place, axis) in self.sizes.items():
            values[i] = values[place].shape[axis]
        # by the interpreter, so that nodes keep the lines that they stand for
        return torch.fx.Interpreter(self.graph).run(*(values[i] for i in range(count)))


def attribute(number: int) -> str:
    return f"weight_{number}"


class Graph:
    """A graph of dynamo's, which is called with all values that it reads: parameters, too."""

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
        own = {*self.weights, *self.sizes}
        self.inputs = [i for i in range(len(places)) if i not in own]
        self.axes = [open_axes(values[i]) for i in self.inputs]
        self.made: tuple[Captured, CompiledGraph] | None = None

    def __call__(self, *args: Any) -> Any:
        """What the graph returns. Raises GeError where it cannot be compiled."""
        refuse_training(args)
        if self.made is None:
            self.made = self.translated(args)
        captured, compiled = self.made
        weights = captured.weights | {self.shown[i]: args[i] for i in self.weights}
        inputs = [args[i] for i in self.inputs]
        return captured.returned(compiled.run(inputs, weights), inputs)

    def translated(self, args: Sequence[Any]) -> tuple[Captured, CompiledGraph]:
        for name, value in zip(self.shown, args, strict=True):
            if isinstance(value, torch.Tensor):
                check_tensor(name, value)
        lifted = Lifted(self.graph, {i: args[i] for i in self.weights}, self.sizes)
        inputs = [args[i] for i in self.inputs]
        shapes = {"inputs": tuple(self.axes)} if any(self.axes) else None
        captured = capture(
            lifted, inputs, {}, shapes, {attribute(i): self.shown[i] for i in self.weights}
        )
        names = captured.exported.graph_signature.user_inputs
        shown = [self.shown[i] for i in self.inputs]
        translated = translate(captured, self.table, shown=dict(zip(names, shown, strict=True)))
        return captured, CompiledGraph(translated, self.options, "graph")
