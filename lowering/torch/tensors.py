"""Tensors of PyTorch as arrays, and back: on the same memory where that can be."""

from typing import Any

from ge.dialects.support.errors import GeError
from ge.lowering.torch.library import torch
from ge.runtime.data.arrays import Array
from ge.runtime.data.tensors import CARRIERS, array_on


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
