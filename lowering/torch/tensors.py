"""Tensors of PyTorch as arrays, and back: on the same memory where that can be."""

from typing import Any

import ml_dtypes
import numpy as np

from ge.dialects.support.errors import GeError
from ge.lowering.torch.library import torch
from ge.runtime.data.arrays import Array

# What has the bits of element types that numpy has not
CARRIERS: dict[int, tuple[Any, Any]] = {
    1: (torch.uint8, np.uint8),
    2: (torch.uint16, np.uint16),
}


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
    tensor = tensor.detach().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        pass
    dtype = getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch."), None)
    if dtype is None or tensor.element_size() not in CARRIERS:
        raise GeError(f"'{name}' has dtype {tensor.dtype}, which ge does not have")
    return tensor.view(CARRIERS[tensor.element_size()][0]).numpy().view(dtype)


def tensor_of(array: Array) -> Any:
    """The elements of an array as a tensor on its memory, or on a copy if that is read-only."""
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    carrier = CARRIERS[array.dtype.itemsize][1]
    return torch.from_numpy(array.view(carrier)).view(getattr(torch, array.dtype.name))
