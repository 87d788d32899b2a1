"""`ge.torch`: what users call. PyTorch is imported when something is compiled."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ge.lowering.pipeline.options import Options

if TYPE_CHECKING:
    from ge.lowering.torch.compiled import CompiledModel

__all__ = ["compile"]


def compile(
    model: Any,
    example_inputs: Any = (),
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    **options: Any,
) -> "CompiledModel":
    """Compile a module (or function) of PyTorch for inputs like the examples: a tensor, a sequence
    by position, or a mapping by name. Returns an object that is called like the model.

    `dynamic_shapes` as `torch.export.export` takes it: dimensions that it names stay open, within
    their ranges. `custom_translation_table` has ONNX translations of ops, as `torch.onnx.export`
    takes it. `options` as of `ge.compile`. Raises GeError where PyTorch is missing, for ops that
    ge does not have, for tensors that the model writes to and for wrong options; and what
    torch.export raises for a model that it cannot trace."""
    all_options = Options.from_environment(**options)
    from ge.lowering.torch.compiled import compile_module

    return compile_module(
        model, example_inputs, dynamic_shapes, custom_translation_table, all_options
    )
