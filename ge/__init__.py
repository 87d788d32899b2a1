"""ge: a graph compiler for NPUs, and the emulated NPU that runs what it makes.

    import ge

    program = ge.compile("model.onnx", target="910b1")
    session = ge.Session(program.module, program.payload)
    outputs = session.run({"x": x})
    print(program.report()["memory"])

Everything is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ge.dialects.errors import GeError
    from ge.dialects.target import Target
    from ge.lowering.compiler import Program, load, lower
    from ge.lowering.compiler import compile_model as compile
    from ge.lowering.extensions import register_dialect, register_pass
    from ge.lowering.options import Options
    from ge.runtime.profiling import Profiler
    from ge.runtime.session import Session
    from ge.transforms.user_rules import FusedOp, Graph, OpType, Pattern

__all__ = [
    "FusedOp",
    "GeError",
    "Graph",
    "OpType",
    "Options",
    "Pattern",
    "Profiler",
    "Program",
    "Session",
    "Target",
    "compile",
    "load",
    "lower",
    "register_dialect",
    "register_pass",
]

_HOME = {
    "FusedOp": "ge.transforms.user_rules",
    "Graph": "ge.transforms.user_rules",
    "OpType": "ge.transforms.user_rules",
    "Pattern": "ge.transforms.user_rules",
    "register_dialect": "ge.lowering.extensions",
    "register_pass": "ge.lowering.extensions",
    "GeError": "ge.dialects.errors",
    "Options": "ge.lowering.options",
    "Profiler": "ge.runtime.profiling",
    "Program": "ge.lowering.compiler",
    "Session": "ge.runtime.session",
    "Target": "ge.dialects.target",
    "compile": "ge.lowering.compiler:compile_model",
    "load": "ge.lowering.compiler",
    "lower": "ge.lowering.compiler",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ge")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ge' has no attribute '{name}'")
    module, _, attribute = home.partition(":")
    return getattr(importlib.import_module(module), attribute or name)
