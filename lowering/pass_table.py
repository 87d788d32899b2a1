"""Every pass of ge by name. A pass named `fuse-linear` is the class `FuseLinearPass` in the file
`fuse_linear.py` of the folder it is listed under; nothing is imported until it is used."""

import importlib
from collections.abc import Callable
from typing import Any

from xdsl.passes import ModulePass

FOLDERS: dict[str, tuple[str, ...]] = {
    "ge.transforms.graph": (
        "infer-shapes",
        "fold-constants",
        "eliminate-dead-code",
        "prepare-weights",
    ),
    "ge.transforms.fusion": (
        "fuse-conv",
        "fuse-linear",
        "fuse-elementwise",
    ),
    "ge.transforms.schedule": ("assign-streams",),
    "ge.transforms.memory": ("plan-memory",),
    "ge.lowering": (
        "lower-to-tasks",
        "bufferize-tasks",
        "verify-level",
    ),
}


def _loader(folder: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        module: Any = importlib.import_module(f"{folder}.{name.replace('-', '_')}")
        return getattr(module, "".join(w.capitalize() for w in name.split("-")) + "Pass")

    return load


def ge_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Pass name -> function that imports and returns its class."""
    return {n: _loader(folder, n) for folder, names in FOLDERS.items() for n in names}
