"""A model compiled ahead of its calls, for inputs like the examples."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ge.dialects.support.errors import GeError
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.lowering.torch.capture import Captured, FunctionModule, capture
from ge.lowering.torch.compiled import COMPILING, CompiledGraph, refuse_training
from ge.lowering.torch.dims import dim_names
from ge.lowering.torch.library import pytree, torch
from ge.lowering.torch.tensors import check_tensor
from ge.lowering.torch.translate import translate


class CompiledModel:
    """What `ge.torch.compile` returns: call it as the model."""

    def __init__(
        self,
        signature: inspect.Signature,
        captured: Captured,
        graph: CompiledGraph,
        spec: Any,
        constants: Mapping[int, object],
    ) -> None:
        self.signature, self.captured, self.graph = signature, captured, graph
        self.spec, self.constants = spec, constants
        self.weights = captured.weights

    @property
    def program(self) -> Program:
        """The program for the model's parameters as they are now."""
        return self.graph.at(self.weights).program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns, computed by the program. Raises GeError for arguments of another
        structure, type or shape than the examples', and where gradients are asked for."""
        leaves, spec = flattened(self.signature, args, kwargs)
        if spec != self.spec:
            text = f"the arguments are {spec}, and the examples were {self.spec}"
            raise GeError(text, hint="compile the model for these, too")
        for number, constant in self.constants.items():
            if isinstance(leaves[number], torch.Tensor) or leaves[number] != constant:
                text = f"an argument is {leaves[number]!r}, and the example was {constant!r}"
                raise GeError(text, hint="numbers and texts are part of what was compiled")
        refuse_training([*leaves, *self.weights.values()])
        tensors = [v for i, v in enumerate(leaves) if i not in self.constants]
        return self.captured.returned(self.graph.run(tensors, self.weights), leaves)


def flattened(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Any]:
    """The leaves of arguments and their structure, which is the same whether an argument is given
    by name or by position."""
    return pytree.tree_flatten(bound(signature, args, kwargs))


def bound(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        arguments = signature.bind(*args, **kwargs)
    except TypeError as e:
        raise GeError(f"the model does not take these arguments: {e}") from None
    return arguments.args, dict(sorted(arguments.kwargs.items()))


def compile_module(
    model: Any,
    example_inputs: Any,
    dynamic_shapes: Any,
    table: Mapping[Any, Any] | None,
    options: Options,
) -> CompiledModel:
    """What `ge.torch.compile` does. `table`: translations of a user's ops. Raises GeError for what
    cannot be traced, translated or compiled, with the line of the user's code if it is known."""
    module = model if isinstance(model, torch.nn.Module) else FunctionModule(model)
    name = type(module).__name__ if module is model else getattr(model, "__name__", "function")
    signature = inspect.signature(module.forward)
    args, kwargs = bound(signature, *examples(example_inputs))
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
    for number, tensor in enumerate(tensors):
        check_tensor(f"example input {number}", tensor)
    for place, tensor in (*module.named_parameters(), *module.named_buffers()):
        check_tensor(place, tensor)
    with COMPILING:
        captured = capture(module, args, kwargs, dynamic_shapes)
        names = dim_names(captured.exported, signature, args, kwargs, dynamic_shapes)
        translated = translate(captured, table, names)
    graph = CompiledGraph(translated, options, name)
    compiled = CompiledModel(signature, captured, graph, spec, captured.constants(leaves))
    graph.at(compiled.weights)
    return compiled


def examples(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs: one tensor, several by position, or by name."""
    if isinstance(given, Mapping):
        return (), dict(cast(Mapping[str, Any], given))
    if isinstance(given, list | tuple):
        return tuple(cast(Sequence[Any], given)), {}
    return (given,), {}
