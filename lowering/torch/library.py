"""PyTorch as a value of no type: it is an extra, of which the type checker sees nothing.
Importing this file imports torch; nothing that `import ge` reads does so. And its tensors as
arrays, and back: on the same memory where that can be."""

from importlib import import_module
from typing import Any

from ge.dialects.support.distribution import lacking
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import CARRIERS, Array, array_on


def imported(name: str) -> Any:
    """Import a module of PyTorch, or one that its exporter needs. Raises GeError if it is
    missing."""
    try:
        return import_module(name)
    except ImportError as e:
        text = f"ge.torch needs the package {name.partition('.')[0]}, which cannot be imported: {e}"
        raise lacking(text, "torch") from e


torch: Any = imported("torch")

pytree: Any = imported("torch.utils._pytree")

onnx_ir: Any = imported("onnx_ir")

imported("onnxscript")  # the exporter imports it late, and says less


def check_tensor(name: str, tensor: Any) -> None:
    """Raises GeError for a tensor whose elements are not in the memory of this machine, in an array
    of strides."""
    if tensor.device.type != "cpu":
        text = f"'{name}' is on the device {tensor.device}, and ge takes tensors of the CPU"
        raise GeError(text, hint=f"give it, and the model, as .cpu(), not on {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise GeError(f"'{name}' is a tensor of kind {kind}", hint="give a dense one")


def array_of(name: str, tensor: Any) -> Array:
    """The elements of a tensor as an array on its memory, of the same strides. `name` is for
    errors. Raises GeError as `check_tensor`, and for element types that ge does not have."""
    check_tensor(name, tensor)
    try:
        return array_on(tensor)
    except TypeError:
        raise GeError(f"'{name}' has dtype {tensor.dtype}, which ge does not have") from None


def tensor_of(array: Array) -> Any:
    """The elements of an array as a tensor on its memory, or on a copy if that is read-only."""
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    carrier = CARRIERS[array.dtype.itemsize][1]
    return torch.from_numpy(array.view(carrier)).view(getattr(torch, array.dtype.name))
