"""PyTorch as a value of no type: it is an extra, of which the type checker sees nothing. Importing
this file imports torch; nothing that `import ge` reads does so."""

from importlib import import_module
from typing import Any

from ge.dialects.support.distribution import lacking


def imported(name: str) -> Any:
    """A module of PyTorch, or of what its exporter needs. Raises GeError where it is missing."""
    try:
        return import_module(name)
    except ImportError as e:
        text = f"ge.torch needs the package {name.partition('.')[0]}, which cannot be imported: {e}"
        raise lacking(text, "torch") from e


torch: Any = imported("torch")
pytree: Any = imported("torch.utils._pytree")
onnx_ir: Any = imported("onnx_ir")
imported("onnxscript")  # the exporter imports it late, and says less
