"""Quantized networks of a folder in every scheme, beside onnxruntime: what is left of their
outputs in the program, in its export and with onnxruntime's own quantizers.

    python test/bench/quantized.py FOLDER [--only TEXT] [--schemes int8,w4a16] [--precision fp16]
        [--ranges minmax] [--samples 64]

A network is NAME.onnx with samples NAME.calib.npz and NAME.test.npz (arrays `in:INPUT`). A line for
each scheme: signal-to-noise of the worst output against the float model, in dB, in ge, in
onnxruntime from `--export-qdq`, at its defaults and without optimizations, and of the best of its
quantizers with as many bits; and the share of the largest elements along the last axis that stay.
It fails where the export has 1 dB less than ge, ge 0.3 dB less than the best, or ge less than 25 dB
and says nothing.
"""

import argparse
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization as peers

import ge
from ge.runtime.data.accuracy import decibels_of
from ge.transforms.quantization.schemes import SCHEMES
from ge.transforms.quantization.sources import PREFIX

# ONNX has floats of 4 bits in a newer opset
EXPORTED = [name for name, s in SCHEMES.items() if not (s.is_float and s.weight_bits < 8)]
EXPORT, BEST, TOLD = 1.0, 0.3, 25.0  # dB

Arrays = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Network:
    path: Path
    inputs: Arrays
    outputs: Arrays  # of the float model
    batch: int  # samples that are computed at once

    @classmethod
    def read(cls, path: Path, samples: int) -> "Network":
        inputs = {k: v[:samples] for k, v in samples_of(path, "test").items()}
        batch = session(path).get_inputs()[0].shape[0]
        rows = len(next(iter(inputs.values())))
        network = cls(path, inputs, {}, batch if isinstance(batch, int) else rows)
        return replace(network, outputs=network.outputs_of(in_onnxruntime(path)))

    def outputs_of(self, run: Run) -> Arrays:
        rows = len(next(iter(self.inputs.values())))
        starts = range(0, rows - rows % self.batch, self.batch)
        parts = [run({k: v[i : i + self.batch] for k, v in self.inputs.items()}) for i in starts]
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def left(self, outputs: Arrays) -> float:
        """The signal-to-noise of the worst output."""
        return min(decibels_of(self.outputs, outputs).values())

    def same(self, outputs: Arrays) -> str:
        """The share of rows whose largest element is the same, of outputs with rows; else -."""
        pairs = [(w, outputs[k]) for k, w in self.outputs.items() if w[:1].size > 1]
        equal = [(w.argmax(-1) == got.argmax(-1)).reshape(-1) for w, got in pairs]
        return f"{np.mean(np.concatenate(equal)):6.1%}" if equal else f"{'-':>6}"


def samples_of(path: Path, what: str) -> Arrays:
    arrays = dict(np.load(path.with_suffix(f".{what}.npz")))
    named = {k.removeprefix(PREFIX): v for k, v in arrays.items() if k.startswith(PREFIX)}
    return named or arrays


def session(path: Path, optimized: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def in_onnxruntime(path: Path, optimized: bool = True) -> Run:
    opened = session(path, optimized)
    names = [o.name for o in opened.get_outputs()]
    return lambda x: dict(zip(names, opened.run(names, dict(x)), strict=True))


# ---- onnxruntime's quantizers --------------------------------------------------------------------


class Reader(peers.CalibrationDataReader):
    """Samples, as many at once as the network takes."""

    def __init__(self, network: Network) -> None:
        data, batch = samples_of(network.path, "calib"), network.batch
        rows = len(next(iter(data.values())))
        batch = min(batch, rows)
        starts = range(0, rows - rows % batch, batch)
        self.parts = iter([{k: v[i : i + batch] for k, v in data.items()} for i in starts])

    def get_next(self) -> Any:
        return next(self.parts, None)


MATRICES = ["Conv", "ConvTranspose", "MatMul", "Gemm"]


def statics(wide: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and options of ways to quantize from samples, with activations of 16 bits if `wide`."""
    kind = peers.QuantType.QInt16 if wide else peers.QuantType.QUInt8
    base: dict[str, Any] = {"activation_type": kind, "per_channel": True}
    matrices = {**base, "op_types_to_quantize": MATRICES}
    floats = {"extra_options": {"OpTypesToExcludeOutputQuantization": MATRICES}}
    yield "min-max", base
    yield "min-max, matrices", matrices
    yield "min-max, matrices, outputs float", {**matrices, **floats}
    if not wide:
        percentile = {"calibrate_method": peers.CalibrationMethod.Percentile}
        yield "percentile", {**base, **percentile}


def quantized_by_others(network: Network, scheme: str, out: Path) -> Iterator[tuple[str, Path]]:
    """Names and files of the models that onnxruntime's quantizers make with a scheme's bits."""
    source = network.path
    if scheme in ("int8", "dynamic"):
        peers.quantize_dynamic(source, out, per_channel=True)
        yield "dynamic", out
    if scheme in ("int8", "int16"):
        prepared = out.with_name("prepared.onnx")
        peers.quant_pre_process(source, prepared, skip_symbolic_shape=True)
        for name, options in statics(scheme == "int16"):
            with redirect_stdout(io.StringIO()):  # it tells of histograms
                peers.quantize_static(prepared, out, Reader(network), **options)
            yield name, out
    if not SCHEMES[scheme].activation_bits:
        # It needs a package of its own, onnx_ir
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        for symmetric in (True, False):
            made = MatMulNBitsQuantizer(
                onnx.load(source), bits=SCHEMES[scheme].weight_bits, block_size=32,
                is_symmetric=symmetric,
            )  # fmt: skip
            made.process()
            made.model.save_model_to_file(str(out))
            yield f"blocks, {'' if symmetric else 'a'}symmetric", out


def best_of_others(network: Network, scheme: str, folder: Path) -> tuple[float, str]:
    """The most that is left with one of onnxruntime's quantizers that do quantize something of the
    network, and its name."""
    best = (-np.inf, "")
    found = quantized_by_others(network, scheme, folder / "other.onnx")
    while True:
        try:
            name, path = next(found)
            left = network.left(network.outputs_of(in_onnxruntime(path)))
            best = max(best, (left, name)) if np.isfinite(left) else best
        except StopIteration:
            return best
        except Exception as e:  # its quantizers and kernels do not take every network
            print(f"  onnxruntime: {str(e).splitlines()[0][:100]}")


# ---- the table -----------------------------------------------------------------------------------


def measure(network: Network, scheme: str, folder: Path, options: Mapping[str, Any]) -> list[str]:
    """Print the line of a scheme; return what is wrong."""
    export = folder / "export.onnx"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program = ge.compile(
            str(network.path), quantize=scheme, export_qdq=str(export), tiles=False,
            calibration=str(network.path.with_suffix(".calib.npz")),
            target="950pr" if SCHEMES[scheme].is_float else "910b2", **options,
        )  # fmt: skip
    warned = any("dB" in str(w.message) for w in told)
    outputs = network.outputs_of(ge.Session(program.module, program.payload).run)
    ours, same = network.left(outputs), network.same(outputs)
    theirs, plain = (
        network.left(network.outputs_of(in_onnxruntime(export, optimized)))
        for optimized in (True, False)
    )
    best, name = best_of_others(network, scheme, folder)
    print(
        f"{network.path.stem:22} {scheme:8} ge {ours:5.1f}{'!' if warned else ' '} "
        f"export {theirs:5.1f} (plain {plain:5.1f}) decisions {same}  "
        + (f"best other {best:5.1f} ({name})" if name else "no other"),
        flush=True,
    )
    complaints = {
        f"the export has {theirs:.1f} dB of {ours:.1f}": theirs < ours - EXPORT,
        f"{name} has {best:.1f} dB, we {ours:.1f}": bool(name) and ours < best - BEST,
        f"{ours:.1f} dB, and no warning": ours < TOLD and not warned,
    }
    return [text for text, holds in complaints.items() if holds]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="part of the file's name")
    parser.add_argument("--schemes", default=",".join(EXPORTED))
    parser.add_argument("--precision", default="origin")
    parser.add_argument("--ranges", default="search", help="how ranges are chosen")
    parser.add_argument("--samples", type=int, default=64, help="of the test, at most")
    args = parser.parse_args()
    options = {"precision": args.precision, "ranges": args.ranges}
    wrong: list[str] = []
    for path in sorted(args.folder.glob("*.onnx"), key=lambda p: p.stat().st_size):
        if args.only not in path.name or not path.with_suffix(".test.npz").exists():
            continue
        network = Network.read(path, args.samples)
        for scheme in args.schemes.split(","):
            with TemporaryDirectory() as folder:
                try:
                    problems = measure(network, scheme, Path(folder), options)
                except Exception as e:
                    problems = [f"{type(e).__name__}: {str(e)[:300]}"]
            wrong += [f"{path.stem} {scheme}: {text}" for text in problems]
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
