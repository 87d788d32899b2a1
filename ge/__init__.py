"""ge: a graph compiler for NPUs, and the emulated NPU that runs what it makes.

    import ge

    program = ge.compile("model.onnx", target="910b1")
    session = ge.Session(program.module, program.payload)
    outputs = session.run({"x": x})
    print(program.report()["memory"])

Everything is imported when it is first used.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ge.dialects.support.errors import GeError as GeError
    from ge.dialects.support.packages import Package as Package
    from ge.dialects.targets.target import Target as Target
    from ge.lowering.building import tile_kernels as tile_api
    from ge.lowering.building.graph import Graph as Graph
    from ge.lowering.driver.cache import compile_model, quantize_model
    from ge.lowering.driver.compiler import load as load
    from ge.lowering.driver.compiler import lower as lower
    from ge.lowering.driver.program import Program as Program
    from ge.lowering.pipeline.options import Options as Options
    from ge.lowering.pipeline.options import set_memory_mode as set_memory_mode
    from ge.lowering.pipeline.options import set_op_memory_reuse as set_op_memory_reuse
    from ge.lowering.plugins.extensions import register_dialect as register_dialect
    from ge.lowering.plugins.extensions import register_pass as register_pass
    from ge.lowering.torch import api as torch_api
    from ge.runtime.device.binding import DeviceArray as DeviceArray
    from ge.runtime.device.profiler import Profiler as Profiler
    from ge.runtime.device.session import Session as Session
    from ge.runtime.host import api
    from ge.transforms.fusion.user_rules import FusedOp as FusedOp
    from ge.transforms.fusion.user_rules import OpType as OpType
    from ge.transforms.fusion.user_rules import Pattern as Pattern

    host = api
    tile = tile_api
    torch = torch_api
    compile = compile_model
    quantize = quantize_model

# Module -> its names that the package has
_NAMES = {
    "dialects.support.errors": "GeError",
    "dialects.support.packages": "Package",
    "dialects.targets.target": "Target",
    "lowering.building.graph": "Graph",
    "lowering.driver.cache": "compile quantize",
    "lowering.driver.compiler": "load lower",
    "lowering.driver.program": "Program",
    "lowering.pipeline.options": "Options set_memory_mode set_op_memory_reuse",
    "lowering.plugins.extensions": "register_dialect register_pass",
    "runtime.device.binding": "DeviceArray",
    "runtime.device.session": "Session",
    "runtime.device.profiler": "Profiler",
    "transforms.fusion.user_rules": "FusedOp OpType Pattern",
}
_DOORS = ("host", "tile", "torch")  # modules of this folder
_HOME = {name: f"ge.{module}" for module, names in _NAMES.items() for name in names.split()}

if not os.path.isdir(os.path.join(__path__[0], "dialects")):  # in the sources, beside this folder
    __path__.append(os.path.dirname(__path__[0]))

# A process may fork while another thread is in the middle of its imports
importlib.import_module("ge.dialects.support.processes")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ge.dialects.support.distribution import version

        return version()
    if name == "__all__":
        return [*_HOME, *_DOORS]
    if name in _DOORS:
        return importlib.import_module(f"ge.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ge' has no attribute '{name}'")
    module = importlib.import_module(_HOME[name])
    return getattr(module, f"{name}_model" if name in ("compile", "quantize") else name)
