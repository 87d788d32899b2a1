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
    from ge.dialects.support.errors import GeError
    from ge.dialects.targets.target import Target
    from ge.lowering.driver.cache import compile_model as compile
    from ge.lowering.driver.compiler import load, lower
    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.lowering.plugins.extensions import register_dialect, register_pass
    from ge.runtime.device.session import Session
    from ge.runtime.profile.profiler import Profiler
    from ge.transforms.fusion.user_rules import FusedOp, Graph, OpType, Pattern

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
    "FusedOp": "ge.transforms.fusion.user_rules",
    "Graph": "ge.transforms.fusion.user_rules",
    "OpType": "ge.transforms.fusion.user_rules",
    "Pattern": "ge.transforms.fusion.user_rules",
    "register_dialect": "ge.lowering.plugins.extensions",
    "register_pass": "ge.lowering.plugins.extensions",
    "GeError": "ge.dialects.support.errors",
    "Options": "ge.lowering.pipeline.options",
    "Profiler": "ge.runtime.profile.profiler",
    "Program": "ge.lowering.driver.program",
    "Session": "ge.runtime.device.session",
    "Target": "ge.dialects.targets.target",
    "compile": "ge.lowering.driver.cache:compile_model",
    "load": "ge.lowering.driver.compiler",
    "lower": "ge.lowering.driver.compiler",
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
