"""A translated graph as programs, one for each set of weights that it is called with; and a model
compiled ahead of its calls, for inputs like the examples."""

import inspect
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ge.dialects.support.diagnostics import warning_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.processes import lock_held_while_forking
from ge.dialects.text.values import parse_dims, parse_shapes
from ge.lowering.driver.cache import warn
from ge.lowering.driver.compiler import compile_loaded
from ge.lowering.driver.program import Program
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import paused_collector
from ge.lowering.torch.library import array_of, check_tensor, pytree, tensor_of, torch
from ge.lowering.torch.translate import (
    Captured,
    FunctionModule,
    Translated,
    Weights,
    capture,
    dim_names,
    translate,
)
from ge.runtime.device.session import Session

MOST_KEPT = 64  # programs of a graph, for different weights

# Of who compiles: PyTorch's exporter changes tables that all threads share
COMPILING = lock_held_while_forking()


def refuse_training(tensors: Sequence[Any]) -> None:
    """Raises GeError where gradients are asked for: programs compute none."""
    if torch.is_grad_enabled() and any(
        isinstance(t, torch.Tensor) and t.requires_grad for t in tensors
    ):
        raise GeError(
            "this call asks for gradients (parameters or inputs require them), and ge computes "
            "inference alone",
            hint="call it under torch.no_grad() or torch.inference_mode(), or call "
            "model.requires_grad_(False) first; train without ge",
        )


def version(tensor: Any) -> int:
    """A number that changes with the elements of a tensor, where PyTorch counts that."""
    return -1 if tensor.is_inference() else tensor._version


@dataclass(frozen=True)
class Loaded:
    """A program with the tensors that it was made of, as they were then."""

    program: Program
    session: Session
    tensors: Sequence[Any]  # which stay alive, so that no others take their addresses
    versions: Sequence[int]


class CompiledGraph:
    """Runs a graph on tensors. `name` is for reports.

    A program is made at the first run, and kept for the tensors that are its weights: on their
    memory, as far as the program uses them as they are (`@prepare` makes others of some). When one
    was changed in place since, the program is made anew. PyTorch does not count changes by `.data`,
    by numpy, and of tensors of the inference mode: those are seen in part, or not at all."""

    def __init__(self, translated: Translated, options: Options, name: str) -> None:
        self.translated, self.options, self.name = translated, options, name
        self.loaded: OrderedDict[tuple[int, ...], Loaded] = OrderedDict()

    def at(self, weights: Mapping[str, Any]) -> Loaded:
        """The program for these weights. Raises GeError and VerifyException as compiling does."""
        with COMPILING:
            return self._at(weights)

    def _at(self, weights: Mapping[str, Any]) -> Loaded:
        tensors = [weights[name] for name in self.translated.weights]
        key, versions = tuple(t.data_ptr() for t in tensors), [version(t) for t in tensors]
        loaded = self.loaded.pop(key, None)
        if loaded is None or loaded.versions != versions:
            program = self.compiled(weights)
            session = program.session()
            loaded = Loaded(program, session, [t.detach() for t in tensors], versions)
        self.loaded[key] = loaded
        while len(self.loaded) > MOST_KEPT:
            self.loaded.popitem(last=False)
        return loaded

    def compiled(self, weights: Mapping[str, Any]) -> Program:
        def read() -> Program:
            with paused_collector():
                imported = import_model(
                    self.translated.model,
                    parse_shapes(self.options.shape),
                    {**self.translated.ranges, **parse_dims(self.options.dim)},
                    tensors=Weights(weights),
                )
            return Program(imported.module, imported.payload, self.name, reload=read)

        with warning_handler(warn):
            start = time.perf_counter()
            return compile_loaded(read(), self.options, start)

    def run(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> list[Any]:
        """The results for the inputs, tensors and numbers in the order of the graph. Raises GeError
        for those that it does not take."""
        session = self.at(weights).session
        arrays = {
            name: array_of(name, v) if isinstance(v, torch.Tensor) else np.asarray(v)
            for name, v in zip(self.translated.inputs, inputs, strict=True)
        }
        results = session.run({name: arrays[name] for name in session.input_names})
        return [tensor_of(results[name]) for name in self.translated.outputs]


class CompiledModel:
    """The result of `ge.torch.compile`: call it as the model."""

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
        """The program for the model's present parameters."""
        return self.graph.at(self.weights).program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns, computed by the program. Raises GeError for arguments of
        another structure, type or shape than the examples', and if gradients are asked for."""
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
    """Compile a model for `ge.torch.compile`. `table`: translations of a user's ops. Raises GeError
    for what cannot be traced, translated or compiled, with the line of the user's code if it is
    known."""
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
