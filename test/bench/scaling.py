"""Time of every pass on modules of many shapes and two sizes; their ratio shows what is not linear.

    python test/bench/scaling.py [--sizes 2000,10000] [--shapes chain,wide] [--level graph]

Prints CPU seconds of the whole pipeline down to the level, and the passes whose time grows faster
than `--ratio` times the growth of the module.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from writing import Expr, Tensor, written

from ge.dialects.graph.control import IfOp, YieldOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp, SplitOp
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation


def chain(n: int) -> ModuleOp:
    """Elementwise ops one after the other."""

    def formula(x: Expr) -> Expr:
        kinds = ("exp", "neg", "sin", "relu", "tanh")
        for i in range(n):
            x = getattr(x, kinds[i % len(kinds)])()
        return x

    return written(formula, Tensor(16, 64))


def scalars(n: int) -> ModuleOp:
    """Adding and multiplying numbers in turn."""

    def formula(x: Expr) -> Expr:
        for i in range(n // 4):
            x = (x + 0.5 * (i + 1)) * 1.001
        return x

    return written(formula, Tensor(16, 64))


def residual(n: int) -> ModuleOp:
    """x = x + f(x), again and again."""

    def formula(x: Expr) -> Expr:
        for _ in range(n // 2):
            x = x + x.sin()
        return x

    return written(formula, Tensor(16, 64))


def sums(n: int) -> ModuleOp:
    """One sum of many arguments' parts."""

    def formula(x: Expr, y: Expr) -> Expr:
        total = x
        for _ in range(n // 2):
            total = total + y
            total = y + total
        return total

    return written(formula, Tensor(16, 64), Tensor(16, 64))


def wide(n: int) -> ModuleOp:
    """One value with half of the ops as users, all of them joined by a tree of adds."""

    def formula(x: Expr) -> Expr:
        values = [(x * (i + 2.0)).sin() for i in range(n // 4)]
        while len(values) > 1:
            last = [values[-1]] if len(values) % 2 else []
            values = [a + b for a, b in zip(values[::2], values[1::2], strict=False)] + last
        return values[0]

    return written(formula, Tensor(16, 64))


def outputs(n: int) -> ModuleOp:
    """One value with all ops as users, each a result."""
    return written(lambda x: [(x * (i + 2.0)).sin() for i in range(n // 3)], Tensor(16, 64))


def concat(n: int) -> ModuleOp:
    """A concat of thousands of values."""

    def formula(x: Expr) -> Expr:
        return x.op(ConcatOp, [(x * (i + 2.0)).sin() for i in range(n // 3)], axis=0)

    return written(formula, Tensor(1, 64))


def slices(n: int) -> ModuleOp:
    """Slices of one value, each used, joined again."""

    def formula(x: Expr) -> Expr:
        parts = [
            x.op(SliceOp, x, None, None, None, None, starts=(i,), ends=(i + 1,), axes=(0,)).sin()
            for i in range(n // 2)
        ]
        return x.op(ConcatOp, parts, axis=0)

    return written(formula, Tensor(n // 2, 8))


def split(n: int) -> ModuleOp:
    """A split into thousands of parts."""

    def formula(x: Expr) -> Expr:
        parts = x.op(SplitOp, x, None, axis=0, sizes=[1] * (n // 2), results=n // 2)
        return x.op(ConcatOp, [p.sin() for p in parts], axis=0)

    return written(formula, Tensor(n // 2, 8))


def transposes(n: int) -> ModuleOp:
    """Transposes and reshapes with elementwise ops between, that cancel here and there."""

    def formula(x: Expr) -> Expr:
        for i in range(n // 4):
            x = x.transpose(0, 2, 1) if i % 2 else x.transpose(1, 0, 2).exp()
            x = x.reshape(8, 8, 8) if i % 3 else x.reshape(64, 8).reshape(8, 8, 8).sin()
        return x

    return written(formula, Tensor(8, 8, 8))


def moves(n: int) -> ModuleOp:
    """Transposes and reshapes alone."""

    def formula(x: Expr) -> Expr:
        for i in range(n // 2):
            x = x.transpose(0, 2, 1) if i % 2 else x.transpose(1, 0, 2)
            x = x.reshape(8, 8, 8) if i % 3 else x.reshape(4, 8, 16)
        return x

    return written(formula, Tensor(8, 8, 8))


def constants(n: int) -> ModuleOp:
    """Many constants, many of them equal."""

    def formula(x: Expr) -> Expr:
        for i in range(n // 3):
            x = (x + x.lift(np.full((64,), i % 97 + 0.5, np.float32))).sin()
        return x

    return written(formula, Tensor(16, 64))


def matmuls(n: int) -> ModuleOp:
    """Matmuls with a constant, with bias and activation."""

    def formula(x: Expr) -> Expr:
        w = x.lift(np.eye(16, dtype=np.float32) * 0.5)
        for i in range(n // 4):
            x = (x @ w + 0.25 * (i % 7)).tanh()
        return x

    return written(formula, Tensor(16, 16))


def branches(n: int) -> ModuleOp:
    """Many branches, one after the other, on conditions of their own."""

    def formula(x: Expr) -> Expr:
        for i in range(n // 8):
            c = x.reduce("max", 0, 1, keep=False).compare("lt", float(i))
            bodies: list[Region] = []
            for kind in ("sin", "tanh"):
                block = Block()
                inner = getattr(Expr(x.value, block), kind)()
                block.add_op(YieldOp(inner.value))
                bodies.append(Region(block))
            new = IfOp(operands=[c.value], result_types=[[x.value.type]], regions=bodies)
            x.block.add_op(new)
            x = Expr(new.results[0], x.block)
        return x

    return written(formula, Tensor(4, 4))


def nested(n: int) -> ModuleOp:
    """Branches in branches, as deep as 60, one nest after the other."""

    def formula(x: Expr, *conditions: Expr) -> Expr:
        def nest(x: Expr, block: Block, depth: int) -> Expr:
            inner = Expr(x.value, block).sin()
            if depth == 0:
                return inner
            bodies: list[Region] = []
            for deeper in (True, False):
                body = Block()
                result = nest(inner, body, depth - 1) if deeper else Expr(inner.value, body).tanh()
                body.add_op(YieldOp(result.value))
                bodies.append(Region(body))
            condition = conditions[depth % len(conditions)].value
            new = IfOp(operands=[condition], result_types=[[x.value.type]], regions=bodies)
            block.add_op(new)
            return Expr(new.results[0], block)

        for _ in range(n // 250):
            x = nest(x, x.block, 60)
        return x

    return written(formula, Tensor(4, 4), *(Tensor(element=i1) for _ in range(60)))


SHAPES: dict[str, Callable[[int], ModuleOp]] = {
    f.__name__: f
    for f in (
        chain, scalars, residual, sums, wide, outputs, concat, slices, split,
        transposes, moves, constants, matmuls, branches, nested,
    )
}  # fmt: skip


class Times(Instrumentation):
    """CPU seconds of each pass, with what is done before it; passes that run twice are added up."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.last = time.process_time()

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        now = time.process_time()
        self.found[p.name] = self.found.get(p.name, 0.0) + now - self.last
        self.last = now


def measure(module: ModuleOp, level: str) -> dict[str, float]:
    """CPU seconds of each pass down to the level."""
    times = Times()
    lower(module, Options(), until=level, instrumentations=[times])
    return times.found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", default="2000,10000")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--level", default="graph", choices=["graph", "fused", "tasks", "program"])
    parser.add_argument("--ratio", type=float, default=1.6)
    args = parser.parse_args()
    small, large = (int(s) for s in args.sizes.split(","))
    for name in args.shapes.split(","):
        few = measure(SHAPES[name](small), args.level)
        module = SHAPES[name](large)
        size = sum(1 for _ in module.walk())
        many = measure(module, args.level)
        a, b = sum(few.values()), sum(many.values())
        print(f"{name:11} {size:6} ops {a:7.2f} s -> {b:7.2f} s, ratio {b / a:5.2f}", flush=True)
        for key, seconds in many.items():
            growth = seconds / max(few[key], 0.02)
            if growth > args.ratio * large / small and seconds > 0.2:
                print(f"    {key:30} {few[key]:7.2f} s -> {seconds:7.2f} s, ratio {growth:5.2f}")


if __name__ == "__main__":
    main()
