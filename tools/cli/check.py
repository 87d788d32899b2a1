"""ge-check; `parsers.py` says what it is for."""

import argparse
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ge.dialects.support.diagnostics import Diagnostic, Severity, location_of, print_diagnostic
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import Target, target_for
from ge.dialects.text.reading import parse_module, read_source
from ge.dialects.text.values import Shapes, Sizes, parse_dims, parse_shapes
from ge.lowering.driver.binding import Binder, is_open, planned_for, ranges_in
from ge.lowering.driver.compiler import context
from ge.lowering.driver.program import Program
from ge.lowering.levels.dominance import verify
from ge.lowering.levels.level import Level, level_of
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import Proof, check_program
from ge.runtime.check.schedule import check_runs, plural
from ge.runtime.check.tiles import check_kernels
from ge.runtime.clock.clock import simulate
from ge.tools.cli.flags import options_from
from ge.tools.cli.parsers import MOST_SIZES

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ge.runtime.check.problems import Problem


def run(args: argparse.Namespace) -> int:
    options = options_from(args)
    dims, shapes = parse_dims(options.dim), parse_shapes(options.shape)
    if args.every_size and not (dims or shapes):
        raise GeError("--every-size needs a range of sizes", hint="add --dim NAME=1..N")
    source = read_source(None if args.program == "-" else args.program)
    ctx = context(options.plugins)
    module = parse_module(ctx, source)
    verify(module)
    if main_function(module) is None and any(op.name == "tile.kernel" for op in module.ops):
        return prove_kernels(module, args.target)
    if (level := level_of(module)) is not Level.PROGRAM:
        raise GeError(f"the module is at the {level} level", args.program, "compile it first")
    target = Target.load(args.target) if args.target else None

    def prove_one(module: "ModuleOp") -> Proof:
        proof = check_program(module, target)
        if not proof.problems:
            VerifyLevelPass(Level.PROGRAM, args.target).apply(ctx, module)
        report(proof.problems)
        return proof

    proof = prove_one(module)
    is_proved, summary = not proof.problems, proof.summary
    if is_proved and args.prefetch:
        is_proved, of_runs = prove_overlap(module, target, args.prefetch)
        summary = f"{summary}; {of_runs}" if is_proved else of_runs
    if is_proved and (dims or shapes):
        most = None if args.every_size else MOST_SIZES
        is_proved, summary = prove_at(module, dims, shapes, prove_one, most)
    elif is_proved and is_open(module):
        summary += "; they are planned, and proved, at given sizes: --dim NAME=N, or NAME=1..N"
    print_result(f"{args.program}: {summary}")
    for tiles in proof.tiles:
        print_result(tiles.summary)
    return 0 if is_proved else 1


def report(problems: "Sequence[Problem]") -> None:
    for problem in problems:
        location = location_of(problem.op)
        print_diagnostic(Diagnostic(Severity.ERROR, problem.message, location))


def prove_overlap(module: "ModuleOp", target: Target | None, prefetch: int) -> tuple[bool, str]:
    """Prove runs that overlap: so many that each set of memory is taken twice, and the first one
    again; later ones wait as these do. Whether they are proved, and how that is told."""
    from ge.runtime.clock.runs import overlapping

    main = main_function(module)
    assert main is not None
    one = simulate(module, target or target_for(main))
    if not (tasks := overlapping(main, one, 2 * prefetch + 1, prefetch)):
        return True, "its runs do not overlap"
    report(problems := list(check_runs(main, tasks, prefetch)))
    return (False, "runs disturb each other") if problems else (True, "so are runs that overlap")


def prove_kernels(module: "ModuleOp", target: str) -> int:
    """Prove the tile programs of a module without a program, on the target or else on the one that
    it names."""
    proofs = check_kernels(module, target_for(module, target))
    for proof in proofs:
        report(proof.problems)
        print_result(proof.summary)
    return int(any(p.problems for p in proofs))


def prove_at(
    module: "ModuleOp",
    dims: Sizes,
    shapes: Shapes,
    prove_one: "Callable[[ModuleOp], Proof]",
    most: int | None,
) -> tuple[bool, str]:
    """Prove the program bound to given sizes: at all of the ranges if they are at most `most`, else
    at the ends of the ranges, and for all sizes as it stands. Whether it is proved, and what is."""
    if not is_open(module) or (main := main_function(module)) is None:
        raise GeError("the program's sizes are fixed: it takes no --dim and no --shape")
    ranges = ranges_in(main, dims, shapes)
    count = math.prod(len(r) for r in ranges.values())
    each = most is None or count <= most
    ends = {n: r if each else dict.fromkeys((r[0], r[-1])) for n, r in ranges.items()}
    binder, peak, programs, proof = Binder(Program(module, {}, ""), Options()), 0, 0, None
    for row in itertools.product(*ends.values()):
        sizes = dict(zip(ends, row, strict=True))
        bound = binder.at(sizes)
        proof = prove_one(bound.module)
        if proof.problems:
            return False, f"at {listed(sizes)}: {proof.summary}"
        peak = max(peak, bound.compilation.memory["peak_bytes"])
        programs = max(programs, len(proof.tiles))
    assert proof is not None
    names = ", ".join(f"{n}={r[0]}" + f"..{r[-1]}" * (len(r) > 1) for n, r in ranges.items())
    if count == 1:
        return True, f"at {names}: {proof.summary}"
    arena = f"arena of at most {peak} bytes"
    arena += f", tile programs of at most {plural(programs)}" if programs else ""
    if each:
        return True, f"proved at all {count} sizes of {names}: {arena}{proof.condition}"
    planned, text = planned_for(module, ranges)
    if (proof := prove_one(planned)).problems:
        return False, f"at all sizes of {names}: {proof.summary}"
    which = "proved as bound programs at the ends of the ranges only"
    return True, f"{text} at all {count} sizes of {names}; {which}: {arena}{proof.condition}"


def listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={size}" for n, size in sizes.items())
