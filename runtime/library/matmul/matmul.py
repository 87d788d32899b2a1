"""Kernels for the cube: matmuls, and the ops computed on their results on the way out.

Cores share the blocks of the results; `blocks.py` says how large they are. Sums that are stored
unchanged leave L0C for memory, wherever ops that only move elements put them (`outputs.py`). Other
sums pass to the vector core in parts, and the ops after the matmuls are pulled there
(`pulling.py`).

Matmuls whose results meet in an op after them have their blocks at a time, and share those of the
left-hand side; others come one behind the other, and go on with the cores in turn. Cores share the
terms of few rows, and those of the blocks that are left where all cores have had as many, where the
estimate says that this takes less time (`program.py`). Products of one row with codes of 8 bits
the vector cores may compute alone (`single_row.py`).
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, gcd, inf, lcm

from xdsl.dialects.builtin import i8

from ge.dialects.graph.attention import RotaryEmbeddingOp
from ge.dialects.support.boxes import Access
from ge.dialects.targets.target import Target
from ge.dialects.tile.types import FRACTAL, Memory
from ge.runtime.library.costs.estimates import figures
from ge.runtime.library.costs.paces import Core
from ge.runtime.library.launch import (
    Launch,
    NotLowered,
    Replaced,
    Written,
    chosen,
    is_free,
    is_open,
    is_own_choice,
    no_room,
)
from ge.runtime.library.matmul.blocks import (
    SPLITS,
    MatmulCut,
    all_cuts,
    best_cut,
    best_shared_wave,
    cycles,
    least_bytes,
    pace,
)
from ge.runtime.library.matmul.operands import choices, copying, may_be_copied
from ge.runtime.library.matmul.program import MatmulPlan, part_of
from ge.runtime.library.matmul.sections import Section, sections_of
from ge.runtime.library.matmul.single_row import single_row
from ge.runtime.library.programs import bytes_left, fitted, program_of
from ge.runtime.library.rows.simple_ops import simple_body

UNSURE = 0.05  # parts of a time that estimates of whole blocks and of shared ones may be wrong by
MOST, LEAST = 16384, 16  # elements of operands that a vector core computes at a time


def lower_matmul(launch: Launch) -> Written:
    """A program of matmuls, and the ops after them. Raises NotLowered if there is no program."""
    body = launch.body
    if not any(op.ACCESS is Access.ROWS for op in body.ops):
        return written_for(launch)
    simple, new = simple_body(body)
    before = {new[value]: value for value in (*body.inputs, *body.outputs)}
    replaced = Replaced(launch.kernel, launch.target, simple, before, of=launch)
    return replaced.original(written_for(replaced))


def written_for(launch: Launch) -> Written:
    sections = sections_of(launch)
    if len({(s.p.batch, s.p.m, s.p.k, s.p.element) for s in sections}) > 1:
        raise NotLowered("its matmuls differ in size")
    target = launch.target
    row = single_row(launch, sections) if is_own_choice() else None
    ways = [] if row is None else [row]
    if (copied := computed_once(launch, sections)) is not None:
        with suppress(NotLowered):
            ways.append(cut_up(launch, copied))
    found = cut_up(launch, with_copies(target, sections))
    return faster(launch, *ways, found) if ways else found


def cut_up(launch: Launch, sections: Sequence[Section]) -> Written:
    """The program of the sections by their best cut. Raises NotLowered if there is none."""
    target, ps = launch.target, tuple(p for s in sections for p in s.shapes)
    if is_free():
        cut = best_cut(ps, target)
    else:
        cut = chosen(lambda: all_cuts(ps, target), partial(cycles, Counter(ps), target))
    if cut is None:
        raise no_room(least_bytes(ps), target)
    return with_parts(launch, sections, cut)


def with_parts(launch: Launch, sections: Sequence[Section], cut: MatmulCut) -> Written:
    """The program, whose cores share terms of sums where that is faster, and fits."""
    if (shared := with_splits(launch.target, sections, cut)) is not None:
        try:
            return fitting(launch, *shared)
        except NotLowered:
            pass  # whole sums may fit
    return fitting(launch, sections, cut)


def faster(launch: Launch, *programs: Written) -> Written:
    """The program that takes less time by the estimate of what is written."""

    def us(written: Written) -> float:
        program = written.program or program_of(launch, "asked", written)
        return figures(program, launch.target).total_us

    return min((replace(w, program=program_of(launch, "asked", w)) for w in programs), key=us)


def fitting(launch: Launch, sections: Sequence[Section], cut: MatmulCut) -> Written:
    """The program, in which sums pass to the vector cores in parts that fit. Raises NotLowered
    where none does."""
    rows, most = gcd(cut.m, *(s.part_rows for s in sections)), MOST
    unit, early = lcm(*(s.row_unit for s in sections)), copied_first(sections, cut, launch.target)
    while True:
        for copies in (2, 1):
            written = MatmulPlan(launch, sections, cut, rows, most, copies, early).written()
            if len(sections) == 1 and not sections[0].has_vector_cores:
                return written
            if (found := fitted(launch, written)) is not None:
                return found
        left = bytes_left(launch, written)
        if most == LEAST or min(n for m, n in left.items() if m is not Memory.UB) < 0:
            missing = ", ".join(f"{-n} bytes of {m}" for m, n in left.items() if n < 0)
            raise NotLowered(f"its program needs {missing} more than there are")
        rows, most = part_of(rows, rows // 2, unit), most // 2


def with_copies(target: Target, sections: Sequence[Section]) -> Sequence[Section]:
    """The sections with copies of operands, if these take less time than they save."""
    (first, *others) = sections
    firsts = {at for _, at in first.terms}
    sides = [
        i
        for i in (0, 1)
        if all(may_be_copied(t.operands[i], firsts == {0}, target) for t, _ in first.terms)
    ]
    if others or not sides or first.is_computed:
        return sections

    def cycles_of(section: Section) -> float:
        cut = best_cut(section.shapes, target)
        return inf if cut is None else cycles(Counter(section.shapes), target, cut)

    least, best = cycles_of(first), first
    for copied_sides in choices(sides):
        section = replace(first, copied=copied_sides)
        time = cycles_of(section) + sum(copying(o, target) for o in section.copied_operands)
        if not first.has_vector_cores:
            time += Core.of(target).late("mixed", "cube")
        if time < least:
            least, best = time, section
    return [best]


def computed_once(launch: Launch, sections: Sequence[Section]) -> Sequence[Section] | None:
    """The sections where copies have what vector cores compute of operands; None where they compute
    none, or a cut is asked for. Vector cores with ops behind the products would compute operands of
    a block behind what follows the block before, while the cube waits."""
    computed = any(s.is_computed for s in sections)
    if not computed or any(s.product.groups for s in sections):
        return None
    if not launch.target.split_cores or not is_own_choice():
        return None
    copied = [
        replace(s, copied=frozenset({0, 1} - {i for i, o in s.operands if not o.ops}))
        for s in sections
    ]
    return copied if any(s.copied for s in copied) else None


def copied_first(sections: Sequence[Section], cut: MatmulCut, target: Target) -> int:
    """Number of columns of blocks of the first section for which its operand is copied first: all
    other copies are made beside these blocks. 0 where all copies had better come first."""
    first, cores = sections[0], target.cube_cores
    rhs = {t.rhs for t, _ in first.terms}
    plain = first.p.batch == first.splits == cut.run == 1
    if 1 not in first.copied or not plain or any(o.is_plain or o.comes_apart for o in rhs):
        return 0
    (down, across), each = cut.counts(first.p), pace(cut, first.p, target)[0]
    blocks, unit = sum(cut.blocks(p) for s in sections for p in s.shapes), 1
    while any(unit * cut.n % o.units[1] for o in rhs):
        unit += 1
    times = {o: copying(o, target) for s in sections for o in s.copied_operands}
    mine = sum(times[o] for o in rhs)

    def cycles_with(columns: int) -> float:
        before, beside = down * columns, sum(times.values()) - mine
        early, late = mine * columns / across, mine * (across - columns) / across
        behind = ceil((blocks - before) / cores) * each
        return early + max(ceil(before / cores) * each, late + beside) + behind

    best = min(range(unit, across, unit), key=cycles_with, default=0)
    at_once = sum(times.values()) + ceil(blocks / cores) * each
    return best if best and cycles_with(best) < at_once else 0


def with_splits(
    target: Target, sections: Sequence[Section], cut: MatmulCut
) -> tuple[list[Section], MatmulCut] | None:
    """The sections and cut with cores that share the terms of sums; None if that takes no less
    time, or the program is for any number of blocks."""
    if is_open() or not all(map(may_share, sections)):
        return None
    ps = tuple(s.p for s in sections)
    least = cycles(Counter(ps), target, cut)
    if not any(s.has_vector_cores for s in sections):  # they would have to be started
        least -= Core.of(target).late("mixed", "cube")
    if ps[0].m > FRACTAL:
        return with_last_wave(target, sections, least)
    found = None
    for splits in SPLITS:
        shared_terms = [replace(s, splits=splits) for s in sections]
        ps = tuple(s.p for s in shared_terms)
        new = best_cut(ps, target)
        if new is not None and (time := cycles(Counter(ps), target, new)) < least:
            least, found = time, (shared_terms, new)
    return found


def with_last_wave(
    target: Target, sections: Sequence[Section], least: float
) -> tuple[list[Section], MatmulCut] | None:
    """The cut where cores share the blocks left after each core has had as many as the others; None
    if it is not faster."""
    (section, *others) = sections
    if others or len(section.terms) > 1:
        return None
    if (wave := best_shared_wave(section.p, target, (1 - UNSURE) * least)) is None:
        return None
    return [replace(section, splits=wave[1], last_wave=True)], wave[0]


def may_share(section: Section) -> bool:
    """True if cores may share the terms of its sums: of few rows if these are side by side in the
    results."""
    p = section.p
    rotated = any(isinstance(op, RotaryEmbeddingOp) for op in section.ops)
    if section.reduces or p.n == 1 or p.element == i8 or section.product.groups:
        return False
    return not (p.batch > 1 or section.part_rows) if p.m <= FRACTAL else not rotated
