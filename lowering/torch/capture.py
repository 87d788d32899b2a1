"""A model of PyTorch as an exported program, and what of its outputs no program has to compute."""

import inspect
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ge.dialects.support.errors import GeError
from ge.lowering.torch.library import pytree, torch

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
    """What a model returns: its leaves, and how they are put together."""

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
    """What each leaf of what is returned is, and those that are to be computed."""
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
    """The type of a number that is known at run time only, None for what is no such number."""
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
        """Of the leaves of the example inputs those that are part of the program, by number."""
        kind = torch.export.graph_signature.ConstantArgument
        specs = [
            s.arg
            for s in self.exported.graph_signature.input_specs
            if s.kind == torch.export.graph_signature.InputKind.USER_INPUT
        ]
        pairs = zip(specs, leaves, strict=True)
        return {i: leaf for i, (spec, leaf) in enumerate(pairs) if isinstance(spec, kind)}

    def returned(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """What the model returns, of the program's results and the leaves of its inputs."""
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
    """No warnings of PyTorch about itself."""
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
