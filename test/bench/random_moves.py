"""Random chains of ops that move elements along dimensions that are cut over devices: slices,
steps, reversals, pads, concats, rolls, look-ups at regular places. All devices together must give
what one gives, and ge-check must prove the program.

    python test/bench/random_moves.py --cases 500 [--seed N]"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from random_shardings import mesh_of_text, stated
from xdsl.context import Context
from xdsl.parser import Parser

from ge.dialects.text.printing import op_text
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

MESHES = ("a=2", "a=3", "a=4", "a=8", "a=2,b=2", "a=2,b=4", "a=3,b=2")


def tensor(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"


@dataclass
class Chain:
    """A value, and the ops that lead to it."""

    rng: random.Random
    shape: list[int]
    value: str = "%x"
    lines: list[str] = field(default_factory=list[str])

    def add(self, op: str, shape: Sequence[int], *more: tuple[str, str]) -> None:
        """Add an op of the value, "%v" in its text, and of others with their types."""
        types = ", ".join((tensor(self.shape), *(t for _, t in more)))
        text = op.replace("%v", ", ".join((self.value, *(name for name, _ in more))))
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = graph.{text} : ({types}) -> {tensor(shape)}")
        self.value, self.shape = name, list(shape)

    def resized(self, dim: int, size: int) -> list[int]:
        return [size if d == dim else n for d, n in enumerate(self.shape)]

    def taken(self, dim: int, first: int, count: int, step: int) -> None:
        """Take every so many elements of a dimension, from one on; or by a look-up."""
        last, shape = first + (count - 1) * step, self.resized(dim, count)
        if self.rng.random() < 0.2:
            places = [first + i * step for i in range(count)]
            name, t = f"%{len(self.lines)}", f"tensor<{count}xi64>"
            self.lines.append(f"{name} = graph.constant dense<{places}> : {t}")
            return self.add(f"gather %v axis {dim}", shape, (name, t))
        end = last + (1 if step > 0 else -1)
        end = -1000 if end < 0 else end
        self.add(f"slice %v starts [{first}] ends [{end}] axes [{dim}] steps [{step}]", shape)


def some(chain: Chain, dim: int) -> None:
    size, rng = chain.shape[dim], chain.rng
    step = rng.choice((1, 1, 2, 3, max(size // 2, 1)))
    count = rng.randint(1, (size - 1) // step + 1)
    first = rng.randint(0, size - 1 - (count - 1) * step)
    if rng.random() < 0.4:
        first, step = first + (count - 1) * step, -step
    chain.taken(dim, first, count, step)


def reversal(chain: Chain, dim: int) -> None:
    chain.taken(dim, chain.shape[dim] - 1, chain.shape[dim], -1)


def first_ones(chain: Chain, dim: int) -> None:
    size = chain.shape[dim]
    chain.taken(dim, 0, chain.rng.randint(max(size - 3, 1), size), 1)


def few(chain: Chain, dim: int) -> None:
    """About as many as there are devices."""
    size, rng = chain.shape[dim], chain.rng
    count = min(rng.choice((2, 3, 4, 7, 8)), size)
    step = (size - 1) // max(count - 1, 1) or 1
    first = rng.randint(0, size - 1 - (count - 1) * step)
    if rng.random() >= 0.5:
        first, step = first + (count - 1) * step, -step
    chain.taken(dim, first, count, step)


def pad(chain: Chain, dim: int) -> None:
    low, high = chain.rng.randint(0, 3), chain.rng.randint(0, 3)
    shape = chain.resized(dim, chain.shape[dim] + low + high)
    chain.add(f"pad %v pads [{low}, {high}] axes [{dim}]", shape)


def between(chain: Chain, dim: int) -> None:
    """Put zeros between elements."""
    size, before, behind = chain.shape[dim], chain.shape[:dim], chain.shape[dim + 1 :]
    shape = [*before, size, 1, *behind]
    chain.add(f"reshape %v shape {shape}", shape)
    chain.add(f"pad %v pads [0, 1] axes [{dim + 1}]", [*before, size, 2, *behind])
    chain.add(f"reshape %v shape {[*before, 2 * size, *behind]}", [*before, 2 * size, *behind])


def roll(chain: Chain, dim: int) -> None:
    size, value, own = chain.shape[dim], chain.value, list(chain.shape)
    by = chain.rng.randint(1, size)
    chain.taken(dim, 0, by, 1)
    low = (chain.value, tensor(chain.shape))
    chain.value, chain.shape = value, own
    if by < size:
        chain.taken(dim, by, size - by, 1)
    chain.add(f"concat %v axis {dim}", chain.resized(dim, chain.shape[dim] + by), low)


def transposition(chain: Chain, dim: int) -> None:
    order = list(range(len(chain.shape)))
    chain.rng.shuffle(order)
    chain.add(f"transpose %v permutation {order}", [chain.shape[i] for i in order])


def pointwise(chain: Chain, dim: int) -> None:
    chain.add("tanh %v", chain.shape)


def reduction(chain: Chain, dim: int) -> None:
    kind = chain.rng.choice(("sum", "max", "mean"))
    chain.add(f"reduce {kind} %v axes [{dim}]", chain.resized(dim, 1))


def product(chain: Chain, dim: int) -> None:
    if len(chain.shape) != 2:
        return
    shape = [chain.shape[1], 3]
    name = f"%{len(chain.lines)}"
    chain.lines.append(f'{name} = graph.constant #graph.weight<"{name[1:]}"> : {tensor(shape)}')
    chain.add("matmul %v", [chain.shape[0], 3], (name, tensor(shape)))


MOVES: Sequence[Callable[[Chain, int], None]] = (
    some, some, reversal, first_ones, few, few, pad, between, roll, transposition, pointwise,
    pointwise, reduction, product,
)  # fmt: skip


def moving_network(rng: random.Random) -> str:
    """A graph of them."""
    shape = [rng.choice((1, 2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 3))]
    along = rng.randrange(len(shape))
    shape[along] = rng.choice((4, 6, 7, 8, 9, 12, 16, 17, 24))
    chain = Chain(rng, shape)
    for _ in range(rng.randint(1, 5)):
        rng.choice(MOVES)(chain, along if rng.random() < 0.8 else rng.randrange(len(shape)))
    pointwise(chain, 0)
    lines, after = "\n".join(chain.lines), tensor(chain.shape)
    head = f"func.func @main(%x: {tensor(shape)}) -> {after}"
    return f"{head} {{\n{lines}\nreturn {chain.value} : {after}\n}}"


def check(seed: int, ctx: Context) -> str | None:
    """What is wrong with the graph of a seed on many devices; None where nothing is."""
    rng = random.Random(seed)
    one = Parser(ctx, moving_network(rng)).parse_module()
    many = one.clone()
    stated(rng, mesh_of_text(rng.choice(MESHES)), many, gone=0.1)
    text = op_text(many)
    options = Options(fusion=rng.choice(("off", "default")), memory=rng.choice((0, 1, 2)),
                      verify=False, tiles=False, pad=True)  # fmt: skip
    given, weights = random_inputs(one), RandomPayload(one.clone())
    lower(one, options)
    lower(many, options)
    want = Session(one, weights, sanitize=False).run(given)
    got = Session(many, weights, poison=True, sanitize=False).run(given)
    if not all(np.allclose(got[n], want[n], 1e-3, 1e-4) for n in want):
        return f"other numbers than on one device\n{text}"
    problems = check_program(many, with_tiles=False).problems
    return f"{problems[0].message}\n{text}" if problems else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    ctx, wrong = context(), 0
    for seed in range(args.seed, args.seed + args.cases):
        if (text := check(seed, ctx)) is not None:
            wrong += 1
            print(f"seed {seed}: {text}", flush=True)
    print(f"{args.cases} graphs, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
