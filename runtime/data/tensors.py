"""Tensors of PyTorch as arrays on their memory. PyTorch is not imported here: who has a tensor has
imported it."""

import sys
from typing import Any

import ml_dtypes
import numpy as np

from ge.runtime.data.arrays import Array

# What has the bits of element types that numpy has not, by their bytes: PyTorch's name and numpy's
CARRIERS: dict[int, tuple[str, Any]] = {1: ("uint8", np.uint8), 2: ("uint16", np.uint16)}


def is_tensor(value: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def array_on(tensor: Any) -> Array:
    """The elements of a dense tensor in the memory of this machine, of the same strides. Raises
    TypeError for element types that no array has."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        name = str(tensor.dtype).removeprefix("torch.")
        dtype = getattr(ml_dtypes, name, None)
        if dtype is None or tensor.element_size() not in CARRIERS:
            raise TypeError(f"no array has elements of type {name}") from None
    carrier = getattr(sys.modules["torch"], CARRIERS[tensor.element_size()][0])
    return tensor.view(carrier).numpy().view(dtype)
