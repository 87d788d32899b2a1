"""A stack of decoder layers that no card holds, on several: compiled, proved, timed.

    python test/bench/decoder_stack.py [--layers 80] [--hidden 8192] [--heads 64] [--ffn 22016]
        [--tokens 2048] [--mesh tp=4] [--auto] [--no-tiles]

By default the layers of LLaMA-65B with their attention, in fp16, without data of weights; cut as
by Megatron-LM, or as `--shard auto` finds. Fails where the program is not proved (`ge-check`), or
does not fit into the memory of the target."""

import argparse
import json
import sys
import time
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu_task.attributes import figure
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import Proof, check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import Timeline

COLUMNS, ROWS = [[], ["tp"]], [["tp"], []]
MEGATRON = dict.fromkeys(("*.q", "*.k", "*.v", "*.gate", "*.up"), COLUMNS)
MEGATRON |= {"*.o": ROWS, "*.down": ROWS, "x": [], "y": []}


@dataclass(frozen=True)
class Decoder:
    layers: int = 80
    hidden: int = 8192
    heads: int = 64
    ffn: int = 22016
    tokens: int = 2048

    def text(self) -> str:
        """The module at the graph level."""
        t, h, f, n, d = self.tokens, self.hidden, self.ffn, self.heads, self.hidden // self.heads
        x, wide = tensor(1, t, h), tensor(1, t, f)
        split, heads, keys = tensor(1, t, n, d), tensor(1, n, t, d), tensor(1, n, d, t)
        scores, table, mask = tensor(1, n, t, t), tensor(1, t, 1, d), tensor(1, 1, t, t)
        lines = [
            f'func.func @main(%x: {x} {{graph.name = "x"}}, %mask: {mask} {{graph.name = "mask"}})'
            f' -> ({x} {{graph.name = "y"}}) {{',
            f"%cos = {weight('cos', table)}",
            f"%sin = {weight('sin', table)}",
            f"%scale = graph.constant dense<{d**-0.5:.6f}> : tensor<f16>",
        ]
        last = "%x"
        for i in range(self.layers):
            p = f"%l{i}_"
            sizes = dict.fromkeys("qkvo", (h, h)) | {"gate": (h, f), "up": (h, f), "down": (f, h)}
            lines += [
                f"{p}{name} = {weight(f'layers.{i}.{name}', tensor(*size))}"
                for name, size in (sizes | {"g": (h,), "m": (h,)}).items()
            ]
            lines += [norm(f"{p}n", last, f"{p}g", x, h)]
            for name in "qkv":
                lines += [
                    product(f"{p}{name}0", f"{p}n", f"{p}{name}", x, tensor(h, h), x),
                    f"{p}{name}1 = graph.reshape {p}{name}0 shape [1, {t}, {n}, {d}] "
                    f": ({x}) -> {split}",
                ]
            lines += [
                f"{p}{name}2 = graph.rotary_embedding {p}{name}1, %cos, %sin full_tables true "
                f": ({split}, {table}, {table}) -> {split}"
                for name in "qk"
            ]
            lines += [
                turned(f"{p}q3", f"{p}q2", (0, 2, 1, 3), split, heads),
                turned(f"{p}k3", f"{p}k2", (0, 2, 3, 1), split, keys),
                turned(f"{p}v3", f"{p}v1", (0, 2, 1, 3), split, heads),
                product(f"{p}s0", f"{p}q3", f"{p}k3", heads, keys, scores),
                f"{p}s1 = graph.mul {p}s0, %scale : ({scores}, tensor<f16>) -> {scores}",
                f"{p}s2 = graph.add {p}s1, %mask : ({scores}, {mask}) -> {scores}",
                f"{p}s3 = graph.softmax {p}s2 axis 3 : ({scores}) -> {scores}",
                product(f"{p}a0", f"{p}s3", f"{p}v3", scores, heads, heads),
                turned(f"{p}a1", f"{p}a0", (0, 2, 1, 3), heads, split),
                f"{p}a2 = graph.reshape {p}a1 shape [1, {t}, {h}] : ({split}) -> {x}",
                product(f"{p}o0", f"{p}a2", f"{p}o", x, tensor(h, h), x),
                f"{p}x = graph.add {last}, {p}o0 : ({x}, {x}) -> {x}",
                norm(f"{p}m0", f"{p}x", f"{p}m", x, h),
                product(f"{p}g0", f"{p}m0", f"{p}gate", x, tensor(h, f), wide),
                f"{p}g1 = graph.silu {p}g0 : ({wide}) -> {wide}",
                product(f"{p}u0", f"{p}m0", f"{p}up", x, tensor(h, f), wide),
                f"{p}h = graph.mul {p}g1, {p}u0 : ({wide}, {wide}) -> {wide}",
                product(f"{p}d0", f"{p}h", f"{p}down", wide, tensor(f, h), x),
                f"{p}y = graph.add {p}x, {p}d0 : ({x}, {x}) -> {x}",
            ]
            last = f"{p}y"
        return "\n".join([*lines, f"func.return {last} : {x}", "}"])

    @property
    def parameters(self) -> int:
        return self.layers * (4 * self.hidden**2 + 3 * self.hidden * self.ffn + 2 * self.hidden)


def tensor(*sizes: int) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf16>"


def weight(key: str, type: str) -> str:
    return f'graph.constant #graph.weight<"{key}"> : {type}'


def product(result: str, lhs: str, rhs: str, a: str, b: str, type: str) -> str:
    return f"{result} = graph.matmul {lhs}, {rhs} : ({a}, {b}) -> {type}"


def norm(result: str, value: str, scale: str, type: str, size: int) -> str:
    types = f"({type}, {tensor(size)}) -> {type}"
    return f"{result} = graph.rms_norm {value}, {scale} axis 2 epsilon 1.0e-06 : {types}"


def turned(result: str, value: str, order: tuple[int, ...], before: str, after: str) -> str:
    return f"{result} = graph.transpose {value} permutation {list(order)} : ({before}) -> {after}"


def compiled(decoder: Decoder, options: Options) -> ModuleOp:
    module = parse_module(context(), SourceText("decoder.mlir", decoder.text()))
    lower(module, options)
    return module


def options(mesh: str, auto: bool, tiles: bool) -> Options:
    """Options with the rules of Megatron-LM, or none."""
    return Options(mesh=mesh, shard="auto" if auto else json.dumps(MEGATRON), tiles=tiles)


def held_bytes(module: ModuleOp) -> int:
    """The bytes that the program takes on a device: weights, inputs and outputs, and buffers."""
    main = main_function(module)
    assert main is not None
    return sum(figure(main, f"{name}_bytes") or 0 for name in ("weight", "io", "arena"))


def judged(module: ModuleOp) -> tuple[Proof, Timeline]:
    target = Target.load()
    return check_program(module, target), simulate(module, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in vars(Decoder()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--mesh", default="tp=4")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--no-tiles", action="store_true")
    args = parser.parse_args()
    decoder = Decoder(args.layers, args.hidden, args.heads, args.ffn, args.tokens)
    begin = time.process_time()
    module = compiled(decoder, options(args.mesh, args.auto, not args.no_tiles))
    done = time.process_time()
    proof, timeline = judged(module)
    end = time.process_time()
    memory, held = Target.load().hbm_bytes, held_bytes(module)
    print(
        f"{decoder.parameters / 1e9:.1f}e9 parameters, {args.mesh}: compiled in {done - begin:.1f} "
        f"s, checked in {end - done:.1f} s; {timeline.latency_us / 1e3:.1f} ms, "
        f"{held / 2**30:.2f} of {memory / 2**30:.0f} GiB on a device; {proof.summary}"
    )
    for problem in proof.problems[:5]:
        print(problem)
    return bool(proof.problems) or held > memory


if __name__ == "__main__":
    sys.exit(main())
