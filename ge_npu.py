"""What other programs load of ge by name: its commands those of
`ge.tools.commands`, and its backend of `torch.compile`. No other project has a module of this name,
so that this one can say why `ge` is not the package it should be."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """Raises ImportError for a backend that cannot be imported; a command ends the process."""
    if not name.startswith("ge_"):
        raise AttributeError(f"module 'ge_npu' has no attribute '{name}'")
    is_backend = name == "ge_backend"
    try:
        if is_backend:
            return import_module("ge.lowering.torch.backend").ge_backend
        return getattr(import_module("ge.tools.commands"), name)
    except ImportError as error:
        text = f"{error}{place_of_ge()}"
        if is_backend:
            raise ImportError(text) from None
        print(f"{name.replace('_', '-')}: error: {text}", file=sys.stderr)
        sys.exit(1)


def place_of_ge() -> str:
    """Where the package `ge` comes from, and what to do, if it is another project's."""
    package = sys.modules.get("ge")
    if package is None or hasattr(package, "GeError"):
        return ""
    place = getattr(package, "__file__", None) or next(iter(package.__path__))
    return (
        f"; the package 'ge' at {place} is not that of the distribution 'ge-npu': remove it from "
        "Python's path (pip uninstall ge, if pip has installed it), then "
        "pip install --force-reinstall --no-deps ge-npu"
    )
