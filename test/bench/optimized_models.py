"""Models as onnxruntime's optimizers write them, with its own ops in them: the numbers of ge beside
the stored ones (`NAME.npz`) and onnxruntime's, and the launches beside those of the model itself.

    python test/bench/optimized_models.py FOLDER [--only TEXT] [--all] [--quantized]

Each model is optimized twice: by a session (level ORT_ENABLE_EXTENDED; with `--all` also
ORT_ENABLE_ALL, whose layouts of a CPU ge refuses) and by `onnxruntime.transformers.optimizer`, with
the model type that its name says and without the levels of that optimizer that ask for torch.

With `--quantized` also as onnxruntime's quantizer writes them: in its quantized ops, calibrated on
the stored inputs (weights of 7 bits, whose products its sums of 16 bits hold on any CPU), and with
matmuls of 4 bits (which asks for onnx_ir). These are compared with onnxruntime alone.

Tolerance: that of `accuracy.py`, against both. Exit status 1 if a model disagrees or is refused.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from accuracy import cases, difference

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import count_launches
from ge.lowering.pipeline.options import Options
from ge.runtime.device.session import Session

# beginning of a name -> the model type of the optimizer
TYPES = {"bert": "bert", "vit": "vit", "sd15_unet": "unet", "sd15_vae": "vae"}
DEFAULT_TYPE = "gpt2"

Optimize = Callable[[Path, Path], object]


def by_session(level: Any) -> Optimize:
    def optimize(source: Path, target: Path) -> object:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(target)
        return ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return optimize


def by_transformers(source: Path, target: Path) -> None:
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    logging.disable(logging.CRITICAL)
    kind = next((t for name, t in TYPES.items() if source.name.startswith(name)), DEFAULT_TYPE)
    model = optimizer.optimize_model(
        str(source), kind, opt_level=0, optimization_options=FusionOptions(kind)
    )
    model.save_model_to_file(str(target))


def in_quantized_ops(source: Path, target: Path) -> None:
    from onnxruntime import quantization as q

    class Samples(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [case["in"] for case in cases(source.with_suffix(".npz")).values()]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.CRITICAL)
    form, weights = q.QuantFormat.QOperator, q.QuantType.QInt8
    q.quantize_static(
        str(source), str(target), Samples(), form, weight_type=weights, reduce_range=True
    )
    scales = [i for i in onnx.load(str(target)).graph.initializer if i.name.endswith("_scale")]
    if not all(np.isfinite(onnx.numpy_helper.to_array(s)).all() for s in scales):
        raise ValueError("a scale is infinite, that of a mask of -inf: no numbers are left")


def in_4_bits(source: Path, target: Path) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(str(source)), block_size=32)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


QUANTIZERS: dict[str, Optimize] = {"quantized ops": in_quantized_ops, "4 bits": in_4_bits}


@dataclass(frozen=True)
class Compiled:
    """A model's program, and how many kernels it launches."""

    session: Session
    launches: int

    @staticmethod
    def of(path: Path) -> "Compiled":
        options, loaded = Options(), load(str(path))
        lower(loaded.module, options, until="program")
        session = Session(loaded.module, loaded.payload, target=options.target, sanitize=True)
        return Compiled(session, count_launches(loaded.module))


def loaded_by_onnxruntime(path: Path) -> Any:
    """None for ops that it has on GPUs only, and for types that do not fit."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


def in_onnxruntime(path: Path, arrays: Any) -> dict[str, Any] | None:
    """The outputs of onnxruntime, if it has the ops."""
    if (session := loaded_by_onnxruntime(path)) is None:
        return None
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, arrays), strict=True))


def problems(path: Path, optimized: Path, session: Session, exact: bool) -> Iterator[str]:
    """What differs from onnxruntime's outputs and, of an `exact` model, from the stored ones."""
    for name, case in cases(path.with_suffix(".npz")).items():
        got = session.run(case["in"])
        reference = in_onnxruntime(optimized, case["in"])
        if reference is None:
            yield "note: stored numbers alone, onnxruntime has no kernel on a CPU"
        for output, want in case["out"].items():
            if exact and (why := difference(path.name, got[output], want)):
                yield f"{name or '-'} {output}: {why} (stored)"
            theirs = None if reference is None else reference[output]
            if theirs is None:
                continue
            if exact and (own := difference(path.name, theirs, want)):
                yield f"note: onnxruntime itself is off the stored {output}: {own}"
            elif why := difference(path.name, got[output], theirs):
                yield f"{name or '-'} {output}: {why} (onnxruntime)"


def own_ops(path: Path) -> str:
    """How many ops of onnxruntime there are in a file, by type."""
    counts: dict[str, int] = {}
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        if node.domain or node.op_type == "SimplifiedLayerNormalization":
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "none of its ops"


def check(path: Path, how: str, optimize: Optimize, launches: int) -> bool:
    """Print a line about one model; whether it agrees."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path.name
        try:
            optimize(path, target)
        except Exception as e:  # of an optimizer that does not take the model
            print(f"{path.stem} {how}: not optimized: {' '.join(str(e).split())[:90]}", flush=True)
            return True
        ops = own_ops(target)
        try:
            compiled = Compiled.of(target)
            found = list(problems(path, target, compiled.session, how not in QUANTIZERS))
        except GeError as e:
            both = loaded_by_onnxruntime(target) is None
            who = "refused, as by onnxruntime" if both else "refused"
            print(f"{path.stem} {how}: {who}: {e.message} ({ops})", flush=True)
            return both
    wrong = [p for p in found if not p.startswith("note")]
    state = "; ".join(found) or "agrees"
    print(f"{path.stem} {how}: {launches} to {compiled.launches} launches, {state} ({ops})")
    sys.stdout.flush()
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="ORT_ENABLE_ALL too")
    parser.add_argument("--quantized", action="store_true", help="quantized models too")
    args = parser.parse_args()
    levels = ort.GraphOptimizationLevel
    ways: dict[str, Optimize] = {
        "session": by_session(levels.ORT_ENABLE_EXTENDED),
        "transformers": by_transformers,
    }
    if args.all:
        ways["all"] = by_session(levels.ORT_ENABLE_ALL)
    if args.quantized:
        ways |= QUANTIZERS
    good = total = 0
    for path in sorted(args.folder.glob("*.onnx")):
        if args.only not in path.name or not path.with_suffix(".npz").exists():
            continue
        launches = Compiled.of(path).launches
        for how, optimize in ways.items():
            good += check(path, how, optimize, launches)
            total += 1
    print(f"{good} of {total} agree")
    sys.exit(good < total)


if __name__ == "__main__":
    main()
