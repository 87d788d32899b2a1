"""The models of `test/torch/models.py` through PyTorch's front door: numbers beside eager, launches
beside those of the ONNX file that torch.onnx.export writes, and processor times.

    python test/bench/torch_models.py [NAME...]

Columns: `worst`, the largest difference to eager by the largest number; `launches` of
torch.compile(backend="ge"), and of ge-compile on the file; seconds of the processor of the first
call (with compiling), of making and compiling the file instead, of the second call, and of eager's;
the program's weights that lie in the memory of the model's own parameters and buffers, of those
that are such. Exit status 1 where numbers differ by more than 1e-4, or launches by
more than 3 %.
"""

import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import ge

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "torch"))
from models import CASES, Case, case, difference

ROW = "{:26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10}"


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def launches_of_file(case: Case) -> int:
    """Of the program for the ONNX file that PyTorch's exporter writes."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(Path(folder, "model.onnx"))
        torch.onnx.export(
            case.model, (), path, kwargs=dict(case.inputs), dynamo=True, verbose=False
        )
        return ge.compile(path).compilation.ops["launches"]


def shared(case: Case, payload: dict[str, Any]) -> tuple[int, int]:
    tensors = [*case.model.parameters(), *case.model.buffers()]
    names = {name for name, _ in (*case.model.named_parameters(), *case.model.named_buffers())}
    places = {t.data_ptr() for t in tensors}
    own = [array.ctypes.data in places for name, array in payload.items() if name in names]
    return sum(own), len(own)


def measure(name: str) -> bool:
    """Print the row of a model; whether it is as it should be."""
    from ge.lowering.torch.compiled import CompiledGraph

    c = case(name)
    made: list[Any] = []
    at = CompiledGraph.at

    def noted(self: CompiledGraph, weights: Any) -> Any:
        loaded = at(self, weights)
        made.append(loaded)
        return loaded

    CompiledGraph.at = noted
    compiled = torch.compile(c.model, backend="ge")
    with torch.no_grad():
        want = c.model(**c.inputs)
        eager, _ = timed(lambda: c.model(**c.inputs))
        first, got = timed(lambda: compiled(**c.inputs))
        ops = sum(m.program.compilation.ops["launches"] for m in made)
        weights = [shared(c, m.program.payload) for m in made]
        second, again = timed(lambda: compiled(**c.inputs))
        worst = max(difference(got, want), difference(again, want))
        by_file, expected = timed(lambda: launches_of_file(c))
    CompiledGraph.at = at
    torch._dynamo.reset()
    own, all_ = (sum(column) for column in zip(*weights, strict=True))
    row = (
        name,
        f"{worst:.1e}",
        ops,
        expected,
        f"{first:.2f}",
        f"{by_file:.2f}",
        f"{second:.3f}",
        f"{eager:.3f}",
    )
    print(ROW.format(*row, f"{own} of {all_}"), flush=True)
    gc.collect()
    return worst < 1e-4 and abs(ops - expected) <= 0.03 * expected


def main(names: list[str]) -> int:
    torch.set_num_threads(1)
    print(
        ROW.format(
            "model",
            "worst",
            "launches",
            "file's",
            "first s",
            "file s",
            "2nd s",
            "eager s",
            "shared",
        )
    )
    return 0 if all([measure(name) for name in names or CASES]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
