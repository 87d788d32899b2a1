"""ONNX's backend interface over the whole pipeline: a model is lowered to a program and runs on
the emulated NPU; its kernels by their tile programs where these are asked for.

    from ge.tools.onnx_backend import Backend
    outputs = Backend.prepare(model).run([x, y])
    outputs = Backend.prepare(model, tiles="all").run([x, y])
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onnx import ModelProto
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep

from ge.lowering.driver.compiler import lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.device.session import Session


class BackendProgram(BackendRep):
    def __init__(self, session: Session, outputs: Sequence[str]) -> None:
        self.session, self.outputs = session, outputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        outputs = self.session.run(self.named(inputs))
        return tuple(
            outputs[name] if name in outputs else members(outputs, name) for name in self.outputs
        )

    def named(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return cast(Mapping[str, Any], inputs)
        values = cast(Sequence[Any], inputs if isinstance(inputs, list | tuple) else [inputs])
        return dict(zip(self.session.input_names, values, strict=True))


def members(outputs: dict[str, Any], name: str) -> list[Any]:
    """The tensors of output `name`, which is a sequence: the program returns them one by one, as
    `name.0`, `name.1` and so on."""
    tensors: list[Any] = []
    while (key := f"{name}.{len(tensors)}") in outputs:
        tensors.append(outputs[key])
    return tensors


class Backend(OnnxBackend):
    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendProgram:
        imported = import_model(model)
        tiles = kwargs.get("tiles", "")
        options = Options.from_environment(tiles=bool(tiles))
        lower(imported.module, options)
        session = Session(imported.module, imported.payload, target=options.target, tiles=tiles)
        return BackendProgram(session, [o.name for o in model.graph.output])

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


prepare = Backend.prepare
run_model = Backend.run_model
supports_device = Backend.supports_device
