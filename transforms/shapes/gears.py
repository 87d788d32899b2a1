"""The gears that a program is to have: sizes of its dynamic dimensions, for each a body of its
own.

`--dynamic-batch "1,2,4"` has the sizes of the first dimension of inputs, `--dynamic-image-size
"224,224;512,512"` those of height and width of images, and `--dynamic-dims "1,256;1,512"` those of
all other dynamic dimensions, in the order of the inputs: one for each name, or one for each
dimension that is dynamic (GE's way). Of several options the product counts.

The numbers of errors are those of GE.

Gears may also be chosen to waste least, by how often each size comes. A size runs in the smallest
gear that is as large in each dimension. The waste is the number of elements that the gear has more,
as products of sizes, times how often. For one dimension the best gears are computed exactly, by
dynamic programming over the sizes; for several they are chosen one by one, the largest first and
then the size that saves most.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from xdsl.dialects.func import FuncOp

from ge.dialects.graph.stated import DIM_RANGES, input_name
from ge.dialects.support.dims import size_of, symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import DYNAMIC, shape_of
from ge.transforms.shapes.sizes import Place, named_dims

FEWEST, MOST = 2, 100  # gears


@dataclass(frozen=True)
class Request:
    """The gears that options ask for, as users write them."""

    batch: str = ""
    image_size: str = ""
    dims: str = ""

    def __bool__(self) -> bool:
        return bool(self.batch or self.image_size or self.dims)


@dataclass(frozen=True)
class Gears:
    """The dynamic dimensions by name, where each is, and the sizes of each gear."""

    places: Mapping[str, Sequence[Place]]
    rows: Sequence[tuple[int, ...]]

    @property
    def names(self) -> list[str]:
        return list(self.places)

    def sizes(self, row: Sequence[int]) -> dict[Place, int]:
        return {
            place: size
            for places, size in zip(self.places.values(), row, strict=True)
            for place in places
        }

    def listed(self, row: Sequence[int]) -> str:
        """`batch=1, sequence=256`"""
        return ", ".join(f"{n}={size}" for n, size in zip(self.places, row, strict=True))


def fail(number: int, message: str, hint: str = "") -> GeError:
    return GeError(f"E{number}: {message}", hint=hint)


def follows(name: str, names: Collection[str]) -> bool:
    """Return whether a dimension has the size that others decide (`past + 1`)."""
    of = symbols(name)
    return of != (name,) and all(n in names for n in of)


# ---- what users write ------------------------------------------------------------------------


def read_gears(
    text: str, option: str, between: str, inside: str, least: int = 1
) -> list[tuple[int, ...]]:
    """The sizes of each gear of an option, some of which may be -1 if that is `least`. Raises
    GeError for a text that is no list of them."""
    rows: list[tuple[int, ...]] = []
    for position, part in enumerate(text.split(between), 1):
        where = f"gear {position} of {option}"
        if not part.strip():
            raise fail(10011, f"{where} is empty in '{text}'", f"separate gears by one '{between}'")
        values: list[int] = []
        for value in part.split(inside) if inside else [part]:
            if not re.fullmatch(r" *-?[0-9]{1,18} *", value, re.ASCII):
                raise fail(
                    10002, f"{where} has '{value.strip()}', where a whole number is expected"
                )
            if int(value) < least or int(value) == 0:
                raise fail(10038, f"{where} has {int(value)}; sizes are at least 1")
            values.append(int(value))
        rows.append(tuple(values))
    return rows


def check_rows(rows: Sequence[tuple[int, ...]], option: str) -> None:
    """Raises GeError for too few gears, too many, or the same one twice."""
    if len(rows) < FEWEST:
        hint = "a program of one size is compiled with --shape or --dim"
        raise fail(10035, f"{option} has {len(rows)} gear; at least {FEWEST} are expected", hint)
    if len(rows) > MOST:
        raise fail(10036, f"{option} has {len(rows)} gears; at most {MOST} are expected")
    for position, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            sizes = f"gear {position} of {option} has {len(row)} sizes, and gear 1 {len(rows[0])}"
            raise fail(10037, f"{sizes}: all have as many")
        if (first := rows.index(row) + 1) < position:
            same = ",".join(map(str, row))
            raise fail(10039, f"gear {position} of {option} is {same}, as gear {first} is")


# ---- which dimension each size is of ---------------------------------------------------------


@dataclass(frozen=True)
class GearAxis:
    """A dimension of the gears: an option's value number `column`, and the names that it sizes."""

    option: str
    names: tuple[str, ...]


def batch_axes(func: FuncOp, dims: Mapping[str, list[Place]]) -> list[GearAxis]:
    names = [n for n, places in dims.items() if any(axis == 0 for _, axis in places)]
    if not names:
        raise fail(10012, "--dynamic-batch needs an input whose first dimension is dynamic (-1)",
                   "import the model with that dimension left open")  # fmt: skip
    for name in names:
        if elsewhere := [p for p in dims[name] if p[1]]:
            i, axis = elsewhere[0]
            what = f"dimension {axis} of input '{input_name(func, i)}'"
            raise fail(10018, f"--dynamic-batch sizes the first dimension alone, and {what} is "
                       f"'{name}' too", "use --dynamic-dims")  # fmt: skip
    return [GearAxis("--dynamic-batch", tuple(names))]


def image_axes(func: FuncOp, dims: Mapping[str, list[Place]]) -> list[GearAxis]:
    of_place = {place: name for name, places in dims.items() for place in places}
    sides: list[tuple[str, str]] = []
    for i, arg in enumerate(func.body.block.args):
        shape = shape_of(arg)
        if DYNAMIC not in shape[1:]:
            continue
        if len(shape) != 4:
            rank = f"input '{input_name(func, i)}' has {len(shape)} dimensions"
            raise fail(10049, f"--dynamic-image-size is of images of 4 dimensions; {rank}")
        height = 2 if shape[1] != DYNAMIC else 1
        both = (of_place.get((i, height)), of_place.get((i, height + 1)))
        others = [a for a in range(1, 4) if a not in (height, height + 1) and (i, a) in of_place]
        if others or None in both:
            axis = f"of input '{input_name(func, i)}' {list(shape)}"
            raise fail(10019, f"--dynamic-image-size sizes height and width alone, both dynamic; "
                       f"{axis} other dimensions are", "use --dynamic-dims")  # fmt: skip
        sides.append((str(both[0]), str(both[1])))
    if not sides:
        raise fail(10031, "--dynamic-image-size needs an image whose height and width are dynamic "
                   "(-1)", "import the model with them left open")  # fmt: skip
    heights, widths = (tuple(dict.fromkeys(s)) for s in zip(*sides, strict=True))
    if set(heights) & set(widths):
        raise fail(10019, f"height and width have one name, '{heights[0]}'", "use --dynamic-dims")
    return [GearAxis("--dynamic-image-size", heights), GearAxis("--dynamic-image-size", widths)]


def gears_of(func: FuncOp, request: Request) -> Gears:
    """The gears of a program. Raises GeError for what does not fit its inputs."""
    dims = named_dims(func)
    if not dims:
        number = 10012 if request.batch else 10031 if request.image_size else 10040
        raise fail(number, "gears need dynamic dimensions (-1), and all sizes are known",
                   "import the model with these dimensions left open")  # fmt: skip
    if DIM_RANGES in func.attributes:
        raise fail(10040, "gears need dimensions that are -1, not ranges such as 1~10",
                   "drop the ranges, or the gears")  # fmt: skip
    free = {n: places for n, places in dims.items() if not follows(n, dims)}
    axes: list[GearAxis] = []
    options: list[list[tuple[int, ...]]] = []
    if request.batch:
        axes += batch_axes(func, free)
        options.append(read_gears(request.batch, "--dynamic-batch", ",", ""))
        check_rows(options[-1], "--dynamic-batch")
    if request.image_size:
        axes += image_axes(func, free)
        options.append(read_gears(request.image_size, "--dynamic-image-size", ";", ","))
        check_rows(options[-1], "--dynamic-image-size")
        if len(options[-1][0]) != 2:
            count = len(options[-1][0])
            raise fail(10037, f"gear 1 of --dynamic-image-size has {count} sizes; height and width "
                       "are expected")  # fmt: skip
    if request.dims:
        rest, rows = dims_rows(request.dims, dims, free, axes)
        axes += rest
        options.append(rows)
    check_covered(axes, free)
    if (count := prod(map(len, options))) > MOST:
        raise fail(10036, f"the options together make {count} gears; at most {MOST} are expected")
    rows = [tuple(v for part in parts for v in part) for parts in product(*options)]
    return complete(dims, axes, rows)


def dims_rows(
    text: str,
    dims: Mapping[str, list[Place]],
    free: Mapping[str, list[Place]],
    before: Sequence[GearAxis],
) -> tuple[list[GearAxis], list[tuple[int, ...]]]:
    """The dimensions of --dynamic-dims, and the rows of sizes."""
    option = "--dynamic-dims"
    sized = {n for axis in before for n in axis.names}
    columns = [i for i, n in enumerate(free) if n in sized]
    rows = without_placeholders(read_gears(text, option, ";", ",", -1), columns, len(free))
    if any(size < 1 for row in rows for size in row):
        read_gears(text, option, ";", ",")  # says where
    check_rows(rows, option)
    rest = [n for n in free if n not in sized]
    axes = [GearAxis(option, (n,)) for n in rest]
    count, places = len(rows[0]), [(p, n) for n in dims for p in dims[n]]
    if rest and count == len(rest):
        return axes, rows
    if count == len(free) or (count == len(places) and sized):
        other = before[0].option if before else option
        left = ", ".join(rest) or "nothing"
        raise fail(10009, f"{option} and {other} both size '{next(iter(sized), '')}'",
                   f"with {other}, {option} has the sizes of {left}")  # fmt: skip
    if before or count != len(places):
        total = f", or {len(places)}, one for each -1" if not before else ""
        raise fail(10045, f"gear 1 of {option} has {count} sizes; {len(rest)} are expected "
                   f"({', '.join(rest)}){total}")  # fmt: skip
    order = [n for _, n in sorted(places)]
    sizes: list[tuple[int, ...]] = []
    for position, row in enumerate(rows, 1):
        known: dict[str, int] = {}
        for name, value in zip(order, row, strict=True):
            if known.setdefault(name, value) != value:
                raise fail(10046, f"gear {position} of {option} has two sizes of '{name}': "
                           f"{known[name]} and {value}")  # fmt: skip
        own = {n: known[n] for n in rest}
        for name, value in known.items():
            if (size := size_of(name, own)) != value:
                raise fail(10046, f"gear {position} of {option} has {value} for '{name}', which is "
                           f"{size} there")  # fmt: skip
        sizes.append(tuple(own.values()))
    return axes, sizes


def without_placeholders(
    rows: list[tuple[int, ...]], columns: Sequence[int], count: int
) -> list[tuple[int, ...]]:
    """The rows of --dynamic-dims without the sizes of dimensions that another option sizes, where
    each row has a size for all `count` dimensions, and at these `columns` 1 or -1 in every one:
    "1,256;1,512" beside a --dynamic-batch is 256;512."""
    if any(len(row) != count for row in rows) or any(
        row[i] not in (1, -1) for row in rows for i in columns
    ):
        return rows
    return [tuple(size for i, size in enumerate(row) if i not in columns) for row in rows]


def check_covered(axes: Sequence[GearAxis], free: Mapping[str, object]) -> None:
    sized = {n for axis in axes for n in axis.names}
    if left := [n for n in free if n not in sized]:
        only = axes[-1].option
        number = {"--dynamic-batch": 10018, "--dynamic-image-size": 10019}.get(only, 10045)
        raise fail(number, f"dimension '{left[0]}' is dynamic, and {only} does not size it",
                   "size it with --dynamic-dims, or fix it with --dim")  # fmt: skip


def complete(
    dims: Mapping[str, list[Place]], axes: Sequence[GearAxis], rows: Sequence[tuple[int, ...]]
) -> Gears:
    """Return the gears with dimensions that follow from others (`past + 1`), in the order of the
    inputs."""
    column = {n: c for c, axis in enumerate(axes) for n in axis.names}
    every: list[tuple[int, ...]] = []
    for row in rows:
        known = {n: row[c] for n, c in column.items()}
        sizes = {n: known.get(n, size_of(n, known)) for n in dims}
        for name, size in sizes.items():
            if size is None or size < 1:
                given = ", ".join(f"{n}={value}" for n, value in known.items())
                raise fail(10038, f"'{name}' is {size} for {given}; sizes are at least 1")
        every.append(tuple(n or 0 for n in sizes.values()))
    return Gears(dims, every)


Size = tuple[int, ...]


def waste(gears: Sequence[Size], counts: Mapping[Size, int]) -> tuple[int, int]:
    """Elements that are wasted, and how many runs no gear takes."""
    wasted = missed = 0
    for size, count in counts.items():
        fitting = [g for g in gears if all(a >= b for a, b in zip(g, size, strict=True))]
        if fitting:
            wasted += count * (min(map(prod, fitting)) - prod(size))
        else:
            missed += count
    return wasted, missed


def best_gears(counts: Mapping[Size, int], k: int) -> tuple[list[Size], str]:
    """Return at most k gears that take all sizes with little waste, and the method that chose
    them."""
    if all(len(size) == 1 for size in counts):
        return [(n,) for n in exact({size[0]: n for size, n in counts.items()}, k)], "exact"
    return greedy(counts, k), "greedy"


def exact(counts: Mapping[int, int], k: int) -> list[int]:
    """Return the k best sizes, the largest among them, if each size takes the next larger one."""
    sizes = sorted(counts)
    runs, elements = [0], [0]
    for n in sizes:
        runs.append(runs[-1] + counts[n])
        elements.append(elements[-1] + counts[n] * n)

    def cost(first: int, last: int) -> int:
        """Return the cost of the sizes first, ..., last in a gear of the last."""
        return sizes[last] * (runs[last + 1] - runs[first]) - elements[last + 1] + elements[first]

    best: list[float] = [0.0, *(inf for _ in sizes)]
    chosen: list[list[int]] = []
    for _ in range(min(k, len(sizes))):
        after: list[float] = [0.0]
        before: list[int] = [0]
        for last in range(len(sizes)):
            costs = [best[first] + cost(first, last) for first in range(last + 1)]
            before.append(min(range(last + 1), key=costs.__getitem__))
            after.append(costs[before[-1]])
        best = after
        chosen.append(before)
    gears: list[int] = []
    end = len(sizes)
    while end and chosen:
        gears.append(sizes[end - 1])
        end = chosen.pop()[end]
    return sorted(gears)


def greedy(counts: Mapping[Size, int], k: int) -> list[Size]:
    gears = [tuple(map(max, zip(*counts, strict=True)))]
    while len(gears) < k:
        tries = [(waste([*gears, size], counts)[0], size) for size in counts if size not in gears]
        if not tries or min(tries)[0] >= waste(gears, counts)[0]:
            break
        gears.append(min(tries)[1])
    return sorted(gears)
