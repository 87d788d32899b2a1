"""The commands of ge as they are installed: `ge_npu:ge_run` begins `ge.tools.ge_run`. No other
project has a module of this name, so that this one can say why `ge` is not the package it should
be."""

import sys
from collections.abc import Callable
from importlib import import_module


def __getattr__(tool: str) -> Callable[[], int]:
    if not tool.startswith("ge_"):
        raise AttributeError(f"module 'ge_npu' has no attribute '{tool}'")
    try:
        return import_module(f"ge.tools.{tool}").main
    except ImportError as error:
        place = place_of_ge()
        print(f"{tool.replace('_', '-')}: error: {error}{place}", file=sys.stderr)
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
