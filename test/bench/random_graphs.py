"""Random graphs at every level: the graph as it is, after fusion, and as a program, in each fusion
mode, must give the same numbers.

    python test/bench/random_graphs.py --cases 10000 [--seed N] [--seeds N,N] [--jobs N]
        [--modes off,default] [--load-plugin FILE.py] [--only OP] [--tiles TARGET]

A case is a module of a few ops of all classes that are registered (those of plugins too), with
branches, loops and unknown dimensions, made from a seed (`random_ops.py`, `random_motifs.py`). It
is run on normal numbers, on edges (-0, denormals, ties), on extremes (nan, infinities, the
greatest and least numbers) and on zeros. A mismatch is cut down to the ops that matter and printed.
With `--tiles`, the program is run by the tile programs of its kernels, too, on cores of a target;
not on extremes where numbers may leave their range on the way: attention of float32, of which tile
programs scale sums of products, and kernels queries (`graph.attention`), and transposed
convolutions, of which they multiply zeros beside the image by weights, which may be infinite. Nor
are Fourier transforms, deformed windows, regions and cubic images compared on extremes: they become
products with matrices, where an element that counts nothing is multiplied by 0, and gives nan if it
is infinite (the kernels do so with other elements, so that no mask makes both alike). Terms of
determinants may be infinite, and cancel, where an elimination has none of them.
"""

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_builder import Builder, Unsuitable
from random_motifs import MOTIFS
from random_noise import Rounding, cut
from random_ops import make
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph import Graph
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.attention import AttentionOp
from ge.dialects.graph.collectives import Collective
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.control import (
    CONDITION,
    ITERATION,
    CaseOp,
    Control,
    IfOp,
    LoopOp,
    YieldOp,
    join,
    yielded,
)
from ge.dialects.graph.convolution import ConvTransposeOp, DeformConvOp
from ge.dialects.graph.elementwise import Elementwise
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.linear import DetOp
from ge.dialects.graph.pooling import RoiAlignOp
from ge.dialects.graph.sharding import AxisIndexOp, ShardOp, StageOp
from ge.dialects.graph.signal import DftOp, StftOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC, element_type, set_type, shape_of, tensor
from ge.dialects.targets.target import Target
from ge.dialects.text.printing import op_text
from ge.lowering.driver.compiler import lower
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.options import FUSION_MODES, Options
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.lowering.plugins.extensions import universe
from ge.runtime.device.tiled import TileKernels
from ge.runtime.device.trials import Trials
from ge.tools.debugging.reduction import reduce
from ge.transforms.graph.canonical.layers import is_of_matrices
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.rewriting.passes import BitExact, Relation, Ulps

RELATIONS: dict[str, Relation] = {
    "off": BitExact(),
    "conservative": BitExact(),
    "default": Ulps(64, 8),
    "aggressive": Ulps(256, 16, overflow=True),
}
"""What each mode keeps, of the graph as it was written; what differs more than that is held against
the noise that rounding makes in the graph (`random_noise.py`)."""

ROTATION = (
    *("default", "aggressive", "default", "conservative", "default"),
    *("aggressive", "default", "conservative", "default", "off"),
)
"""The mode of a case, by its seed."""

LEVELS = ("graph", "fused", "program")
"""The levels that are run: the graph after its passes, and those below."""

ON_TILES = "tile"
"""The program again, by its tile programs."""


# what a graph is made of in other ways, and ops of several devices
NOT_MADE = (FusedOp, ConstantOp, Control, Collective, AxisIndexOp, ShardOp, StageOp)


OF_DEVICES = AxisIndexOp | ShardOp | StageOp | AcknowledgeOp


@cache
def op_classes(*plugins: str) -> tuple[type[TensorOp], ...]:
    """The classes of ops that graphs are made of, on one device."""
    known, found = universe().all_dialects, universe(*plugins).all_dialects
    dialects = [Graph, *(load() for name, load in found.items() if name not in known)]
    return tuple(
        op
        for dialect in dialects
        for op in dialect.operations
        if issubclass(op, TensorOp)
        and not issubclass(op, FusedOp | ConstantOp | Control | Collective | OF_DEVICES)
    )


# ---- graphs ------------------------------------------------------------------------------------


@dataclass
class Graphs:
    """Makes graphs of these ops."""

    ops: Sequence[type[TensorOp]]
    common: list[type[TensorOp]] = field(default_factory=list[type[TensorOp]])

    def __post_init__(self) -> None:
        self.common = [op for op in self.ops if issubclass(op, Elementwise)] or list(self.ops)

    def make(self, seed: int) -> ModuleOp | None:
        """The graph of a seed; None where nothing could be made."""
        b = Builder(seed)
        self.fill(b, b.rng.randint(1, 12), depth=0)
        results = [r for op in b.block.ops if not isinstance(op, ConstantOp) for r in op.results]
        unused = [r for r in results if r.first_use is None]
        outputs = unused + [r for r in results if r.first_use is not None and b.flip(0.1)]
        if not outputs:
            return None
        module = b.module(outputs)
        module.verify()
        return (b.flip(0.25) and with_unknown_dims(module, b)) or module

    def fill(self, b: Builder, count: int, depth: int) -> None:
        """Add so many steps to the block: ops, groups of them, branches, loops."""
        for _ in range(count):
            kind = b.rng.random()
            try:
                if kind < 0.1 and depth < 2:
                    b.rng.choice((self.branch, self.loop))(b, depth)
                elif kind < 0.25:
                    b.rng.choice(MOTIFS)(b)
                else:
                    b.add(make(b, b.rng.choice(self.common if kind < 0.55 else self.ops)))
            except (Unsuitable, VerifyException):
                continue

    def branch(self, b: Builder, depth: int) -> None:
        count = b.rng.randint(1, 3) if b.flip(0.3) else 0  # of the branches of a case
        condition = b.value(b.rng.choice(((), (1,))), i1)
        if count:
            number = b.constant_int(b.rng.randrange(count))
            condition = b.value((), i64, fresh=1.0) if count > 1 and b.flip(0.6) else number
        regions: list[Region] = []
        types: list[Attribute] = []
        for _ in range(count or 2):
            with b.inside() as block:
                before = len(b.values)
                self.fill(b, b.rng.randint(1, 3), depth + 1)
                if types:
                    values = [b.value(shape_of_type(t), t.element_type) for t in types]
                else:
                    new = b.values[before:] or [b.any()]
                    values = [b.rng.choice(new) for _ in range(b.rng.randint(1, 2))]
                    types = [v.type for v in values]
                block.add_op(YieldOp(*values))
                regions.append(Region(block))
        op = CaseOp.of if count else IfOp.of
        b.add(op(condition, regions=regions, results=len(types)))

    def loop(self, b: Builder, depth: int) -> None:
        carried = [b.any() for _ in range(b.rng.randint(1, 2))]
        trip = b.constant_int(b.rng.randint(0, 4)) if b.flip(0.7) else b.index((), 4)
        condition = b.value((), i1) if b.flip(0.2) else None
        with b.inside([ITERATION, CONDITION, *(v.type for v in carried)]) as block:
            self.fill(b, b.rng.randint(1, 4), depth + 1)
            going = block.args[1] if b.flip(0.7) else b.value((), i1)
            after = [b.value(shape_of(v), element_type(v), 0.02) for v in carried]
            scans = [b.rng.choice(b.values) for _ in range(b.rng.randint(0, 2))]
            block.add_op(YieldOp(going, *after, *scans))
        count = len(after) + len(scans)
        b.add(LoopOp.of(trip, condition, carried, regions=[Region(block)], results=count))


def shape_of_type(t: Attribute) -> Sequence[int]:
    assert isinstance(t, TensorType)
    return t.get_shape()


def with_unknown_dims(module: ModuleOp, b: Builder) -> ModuleOp | None:
    """The module with arguments of which some sizes are not known, wherever they stand; None where
    the ops do not take that."""
    new = module.clone()
    func = new.ops.first
    assert isinstance(func, FuncOp)
    block = func.body.block
    sizes = sorted({d for a in block.args for d in shape_of(a) if d > 1})
    if not sizes:
        return None
    unknown = b.rng.sample(sizes, b.rng.randint(1, min(len(sizes), 3)))
    tables: list[DictionaryAttr] = []
    for i, arg in enumerate(block.args):
        shape = shape_of(arg)
        names = ArrayAttr([StringAttr(f"n{d}" if d in unknown else "") for d in shape])
        tables.append(DictionaryAttr({"graph.name": StringAttr(f"x{i}"), "graph.dims": names}))
        dims = [DYNAMIC if d in unknown else d for d in shape]
        set_type(arg, tensor(dims, element_type(arg)))
    func.arg_attrs = ArrayAttr(tables)
    try:
        widen(block)
        refresh_signature(func)
        new.verify()
    except VerifyException:
        return None
    return new


def widen(block: Block) -> None:
    """Give all values of a block the types that follow from its arguments and what it uses from
    around. Raises VerifyException where ops do not take them, or a rank is not known."""
    for op in block.ops:
        if not isinstance(op, TensorOp) or isinstance(op, ConstantOp):
            continue
        if isinstance(op, LoopOp):
            types: Sequence[Attribute] = [v.type for v in op.carried]
            args = op.body.block.args[2:]
            while types != [a.type for a in args]:
                for arg, t in zip(args, types, strict=True):
                    set_type(arg, t)
                widen(op.body.block)
                after = yielded(op.body, "the body")[1:]
                types = [join(t, v.type, "it") for t, v in zip(types, after, strict=False)]
        for region in op.regions:
            widen(region.block)
        for result, t in zip(op.results, op.inferred(), strict=True):
            if not isinstance(t, TensorType):
                raise VerifyException("the rank is not known")
            set_type(result, t)


# ---- checks ------------------------------------------------------------------------------------


@dataclass
class Mismatch:
    """What a mode makes of a graph is not what the graph says."""

    mode: str
    level: str
    text: str
    module: ModuleOp

    def __str__(self) -> str:
        return f"// {self.mode}, {self.level} level: {self.text}\n{op_text(self.module)}"


def may_leave_range(module: ModuleOp) -> bool:
    """Whether there is an op whose tile program has numbers on the way that its kernel has not."""
    return any(
        isinstance(op, ConvTransposeOp)
        or (isinstance(op, AttentionOp) and element_type(op.query) == f32 and scales_down(op))
        for op in module.walk()
    )


def multiplies_zeros(module: ModuleOp) -> bool:
    """Whether there is an op that may become products in which elements that its kernel leaves out
    are multiplied by 0, or whose terms leave the range."""
    return any(
        isinstance(op, DftOp | StftOp | DeformConvOp | RoiAlignOp | DetOp)
        or (isinstance(op, ResizeOp) and is_of_matrices(op))
        for op in module.walk()
    )


def scales_down(op: AttentionOp) -> bool:
    return op.scale is None or abs(op.scale.value.data) < 1


MORE = 4
"""How many times a difference is tried again that is put down to rounding."""


class Reference:
    """What a graph gives, as it was written, on numbers that float64 leaves room for; each seed has
    other inputs and weights. Raises GeError for a graph that cannot be run."""

    def __init__(self, module: ModuleOp, seed: int = 0) -> None:
        self.module, self.runner = module, Trials(module, {}, seed)
        self.runner.trials = [
            replace(t, inputs={k: cut(a) for k, a in t.inputs.items()}) for t in self.runner.trials
        ]
        self.runner.first = self.runner.run(module)

    @cached_property
    def rounding(self) -> Rounding:
        return Rounding(self.module, self.runner)

    @cached_property
    def others(self) -> Sequence["Reference"]:
        """The graph on other inputs."""
        found: list[Reference] = []
        for seed in range(1, MORE + 1):
            with suppress(GeError):
                found.append(Reference(self.module, seed))
        return found

    def difference(
        self, lowered: ModuleOp, relation: Relation, tiles: TileKernels | None = None
    ) -> str | None:
        """What the module at another level gives that the graph does not. What is put down to
        rounding, but on extremes, is tried on more inputs: a wrong rule shows on some of them."""
        text = self.difference_here(lowered, relation, tiles)
        if text is None and self.rounding.doubts:
            texts = (other.difference_here(lowered, relation, tiles) for other in self.others)
            text = next(filter(None, texts), None)
        return text

    def difference_here(
        self, lowered: ModuleOp, relation: Relation, tiles: TileKernels | None
    ) -> str | None:
        """What the module gives on the inputs of this seed that the graph does not."""
        self.rounding.doubts = 0
        after, scaled = self.runner.run(lowered, tiles=tiles), may_leave_range(lowered)
        became = multiplies_zeros(self.module) and not multiplies_zeros(lowered)
        inexact = became or (tiles is not None and scaled)
        pairs = zip(self.runner.trials, self.runner.first, after, strict=True)
        for i, (trial, a, b) in enumerate(pairs):
            if isinstance(a, GeError) or (trial.kind == "extremes" and inexact):
                continue
            if isinstance(b, GeError):
                return f"{trial}: cannot be run any more: {b.message}"
            if list(a) != list(b):
                return f"{trial}: the outputs were {', '.join(a)}, they are {', '.join(b)}"
            for name in a:
                text = self.rounding.difference(relation, i, name, a[name], b[name])
                if text is not None:
                    return f"{trial}: output '{name}': {text}"
        return None


class Kept(Instrumentation):
    """Copies of the module at the levels that are compared."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleOp] = {}

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if isinstance(p, VerifyLevelPass) and p.level in LEVELS:
            self.modules[p.level] = module.clone()


def lowered(
    module: ModuleOp, mode: str, until: str, target: str = ""
) -> Iterator[tuple[str, ModuleOp]]:
    """The module at the levels down to one, by one compilation; with a target, on tiles, too."""
    kept = Kept()
    options = Options(fusion=mode, **({"target": target, "tiles": True} if target else {}))
    lower(module := module.clone(), options, until=until, instrumentations=[kept])
    yield from kept.modules.items()
    if target and until == LEVELS[-1]:
        yield ON_TILES, module


NOT_COMPILED = "not compiled"


def compare(
    reference: Reference, mode: str, until: str = LEVELS[-1], target: str = ""
) -> tuple[str, str] | None:
    """The first level in a mode that differs from the graph, and how; None when all agree."""
    try:
        found = list(lowered(reference.module, mode, LEVELS[-1] if target else until, target))
    except Exception as e:
        return until, f"{NOT_COMPILED}: {type(e).__name__}: {' '.join(str(e).split())[:500]}"
    for level, module in found:
        relation, tiles = RELATIONS[mode], None
        if level == ON_TILES:  # which sum in steps
            relation = RELATIONS["aggressive"]
            tiles = TileKernels.of(module, Target.load(target), "all")
        if (text := reference.difference(module, relation, tiles)) is not None:
            return level, text
    return None


def check(
    module: ModuleOp,
    modes: Sequence[str],
    seconds: float = 20.0,
    explained: Counter[str] | None = None,
    target: str = "",
) -> Mismatch | None:
    """The first mismatch of a graph, cut down; `explained` counts differences that are none.
    Raises GeError for a graph that cannot be run."""
    reference = Reference(module)
    if explained is not None:
        reference.rounding.explained = explained
    for mode in modes:
        if (found := compare(reference, mode, target=target)) is None:
            continue
        level, text = found
        fails = text.startswith(NOT_COMPILED)

        def shows(candidate: ModuleOp, mode: str = mode, level: str = level) -> bool:
            try:
                candidate.verify()
                found = compare(Reference(candidate), mode, level, target)
            except Exception:
                return False
            return found is not None and found[1].startswith(NOT_COMPILED) == fails

        small = reduce(module, shows, time.process_time() + seconds) if seconds else module
        level, text = (seconds and compare(Reference(small), mode, level, target)) or found
        return Mismatch(mode, level, text, small)
    return None


def count_ops(module: ModuleOp) -> Counter[str]:
    return Counter(op.name for op in module.walk() if isinstance(op, TensorOp))


# ---- the command line --------------------------------------------------------------------------


@dataclass
class Outcome:
    seed: int
    modes: Sequence[str]
    """Those that were run: none where no graph was made, or it cannot be run."""
    ops: Counter[str]
    mismatch: str = ""
    explained: Counter[str] = field(default_factory=Counter[str])
    """Results that differ by more than the mode's relation, by what that is put down to."""


def run_case(
    seed: int, modes: Sequence[str], plugins: Sequence[str], only: str, target: str = ""
) -> Outcome:
    """One case; without `modes` in the one whose turn it is."""
    ops = [op for op in op_classes(*plugins) if re.search(only, op.name)]
    modes = modes or (ROTATION[seed % len(ROTATION)],)
    module = Graphs(ops).make(seed)
    if module is None:
        return Outcome(seed, (), Counter())
    outcome = Outcome(seed, modes, count_ops(module))
    try:
        mismatch = check(module, modes, explained=outcome.explained, target=target)
    except GeError:
        return Outcome(seed, (), Counter())
    outcome.mismatch = "" if mismatch is None else str(mismatch)
    return outcome


def outcomes(args: argparse.Namespace) -> Iterator[Outcome]:
    modes = args.modes.split(",") if args.modes else ()
    given = modes, tuple(args.load_plugin), args.only, args.tiles
    seeds: Sequence[int] = range(args.seed, args.seed + 4 * args.cases)
    if args.seeds:
        seeds = [int(s) for s in args.seeds.split(",")]
    if args.jobs == 1:
        yield from (run_case(seed, *given) for seed in seeds)
        return
    with ProcessPoolExecutor(args.jobs) as pool:
        for start in range(0, len(seeds), 64):
            futures = [pool.submit(run_case, s, *given) for s in seeds[start : start + 64]]
            yield from (f.result() for f in futures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--cases", type=int, default=1000)
    add("--seed", type=int, default=0, help="the first seed")
    add("--seeds", default="", metavar="N,...", help="these seeds alone")
    add("--jobs", type=int, default=1, help="processes")
    add("--modes", default="", help=f"of {', '.join(FUSION_MODES)}; by default one a case, in turn")
    add("--only", default="", metavar="REGEX", help="names of the ops that graphs are made of")
    add("--tiles", default="", metavar="TARGET", help="run tile programs of this target, too")
    add("--load-plugin", action="append", default=[], metavar="FILE.py")
    args = parser.parse_args()
    ops: Counter[str] = Counter()
    modes: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    done = wrong = tried = 0
    for outcome in outcomes(args):
        tried += 1
        done += bool(outcome.modes)
        modes.update(outcome.modes)
        ops += outcome.ops
        explained += outcome.explained
        if tried % 500 == 0:
            print(f"// {done} cases, to seed {outcome.seed}", flush=True)
        if outcome.mismatch:
            wrong += 1
            print(f"// seed {outcome.seed}\n{outcome.mismatch}\n", flush=True)
        if done == args.cases:
            break
    missing = [op.name for op in op_classes(*args.load_plugin) if op.name not in ops]
    rare = ", ".join(f"{name} {n}" for name, n in ops.most_common()[:-6:-1])
    used = sum(os.times()[:4])
    print(f"{done} cases ({tried} seeds) in {used:.0f} s of CPU, {wrong} mismatches")
    print(", ".join(f"{mode} {n}" for mode, n in modes.most_common()))
    print(f"differences put down to rounding: {explained['noise']}, to range: {explained['range']}")
    print(f"{ops.total()} ops of {len(ops)} classes; seldom {rare}; never {missing or 'none'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
