"""How the values of devices differ: forms, and those of the same elements in another shape or view
(see `device_values.py`).

To transpose dimensions that have one element on a device moves nothing, and a view of memory does
not say which ops made it. So a value may have one of several forms: ops and collectives go on with
those that they can be right with, and where none is left there is a fault."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from math import prod
from typing import Any, TypeAlias

from ge.dialects.graph.sharding import Unseen
from ge.dialects.npu_task.memory import MemoryView
from ge.dialects.support.digits import Axes, all_digits
from ge.dialects.support.mesh import SUM, Axis, Mesh, Sharding
from ge.dialects.support.types import Shape

Numbers: TypeAlias = Mapping[int, Any]  # the elements of a value, on some devices

MOST_KNOWN = 1 << 14  # elements of a value that are computed
MOST_FORMS = 32  # that a value may have


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts along a dimension, by digits from major to minor. `whole` is the size of the dimension
    on all devices, if known; `fill` what stands behind the last element, None for what means
    nothing. `step` is how far the first elements of two parts lie apart, 0 for as many elements as
    each part has; `edges` the number of elements at both ends that are none of the whole's. `minor`
    parts have every so many elements: one of each row of a dimension that is part of this one."""

    axes: Axes
    dim: int
    whole: int | None = None
    fill: float | None = None
    step: int = 0
    edges: tuple[int, int] = (0, 0)
    minor: bool = False

    @property
    def is_part(self) -> bool:
        """True if parts follow each other."""
        return not self.step and self.edges == (0, 0) and not self.minor

    @property
    def wrong(self) -> str:
        """Words for what is no part."""
        text, (first, last) = f"cut along {names(self.axes)}, and", self.edges
        if first or last:
            return (
                f"{text} {first} first and {last} last elements of a part are none of the whole's"
            )
        if self.minor:
            return f"{text} the elements of a part do not follow each other"
        return f"{text} its parts, {self.step} elements apart, do not follow each other"

    def of_step(self, step: int, size: int) -> "Cut":
        """This cut, for parts of some size that lie so far apart."""
        return replace(self, step=0 if step == size else step)

    def beside(self, other: "Cut") -> "Cut":
        """Return this cut, of elements of which some are cut as another one is."""
        low, high = map(max, self.edges, other.edges)
        return replace(self, whole=None, fill=None, edges=(low, high))

    def scaled(self, dim: int, size: int, other: int) -> "Cut":
        """This cut, of a dimension that has the same elements, of another size or the same one."""
        if size == other:
            return replace(self, dim=dim)
        # what has one of such elements is none of the whole's either
        step, low, high = (-(-n * other // size) for n in (self.step, *self.edges))
        return Cut(self.axes, dim, step=step, edges=(low, high))

    def padded(self, each: int) -> bool:
        return self.whole is not None and self.whole < each * prod(a.size for a in self.axes)


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of devices differ. `free`: made of constants and places alone. `loose`: made
    of a constant of equal elements too, so that what is the same may be parts as well."""

    cuts: tuple[Cut, ...] = ()
    terms: Axes = ()
    kind: str = SUM
    varies: Axes = ()
    free: bool = False
    loose: bool = False
    unsure: frozenset[Axis] = frozenset()  # by which it may be cut in any other way
    drawn: bool = False  # random numbers, which are the same in two parts by chance alone
    hole: bool = False  # some elements are not there yet: another exchange puts them onto it
    known: Numbers | None = field(default=None, compare=False)

    @property
    def axes(self) -> set[Axis]:
        return {*self.terms, *self.varies, *(a for cut in self.cuts for a in cut.axes)}

    @property
    def places(self) -> list[tuple[Axes, int]]:
        """By what each dimension is cut that is."""
        return [(cut.axes, cut.dim) for cut in self.cuts]

    def cut_of(self, axis: Axis) -> Cut | None:
        return next((cut for cut in self.cuts if axis in cut.axes), None)

    def lacks(self, axes: Axes, dim: int) -> bool:
        """Tell whether devices along some axes surely have the same, and no equal parts along a
        dimension, which others may cut."""
        is_loose = self.loose and not any(cut.dim == dim for cut in self.cuts)
        return not (self.free or is_loose or self.axes >= {*axes})

    def contradicts(self, axes: Axes) -> bool:
        """Return whether parts are in another order than that of axes, in whichever dimensions."""
        own = sorted(self.cuts, key=lambda cut: cut.dim)
        found = tuple(a for cut in own for a in cut.axes if a in axes)
        is_all = bool(axes) and {*found} == {*axes} and not {*axes} & {*self.varies}
        return is_all and found != axes

    def after(self, other: "Kind") -> "Kind":
        """This form, which follows from another one."""
        return replace(self, unsure=other.unsure & self.axes, loose=other.loose)

    def varying(self) -> "Kind":
        """The form of some of the elements."""
        form = everywhere(self.axes - {*self.terms}, self.free)
        return replace(form, terms=self.terms, kind=self.kind)

    def of_ones(self, shape: Shape, unseen: Unseen) -> "Forms":
        """The forms of a value that comes from elsewhere: a cut of one element that is moved
        unseen may be that of any dimension of one, and elements between those of parts may be taken
        away."""
        ones = [d for d, size in enumerate(shape) if size == 1]
        ways = list[list[Cut]]()
        for cut in self.cuts:
            is_one, axes = shape[cut.dim] == 1, {*cut.axes}
            found = [cut]
            if is_one and cut.step and axes <= unseen.resized:
                found.append(replace(cut, step=0, whole=None))
            dims = ones if is_one and unseen.moved & axes else ()
            ways.append([replace(x, dim=d) for x in found for d in dict.fromkeys((x.dim, *dims))])
        return self.placed(ways) if any(len(own) > 1 for own in ways) else (self,)

    def placed(
        self, ways: Sequence[Sequence[Cut]], are_new: bool = False, are_fewer: bool = False
    ) -> "Forms":
        """The forms in which each cut is one of several, no two of them of one dimension unless
        there `are_fewer`; or of dimensions that `are_new` shared out to these. One of which there
        is none is lost."""
        lost = [a for x, own in zip(self.cuts, ways, strict=True) if not own for a in x.axes]
        varies, unsure = (*self.varies, *lost), self.unsure | {*lost}
        base = replace(self, varies=varies, unsure=unsure, known=None)
        split = shared if are_new else singly
        found = [sum(way, ()) for way in product(*(split(own) for own in ways if own))]
        apart = [cuts for cuts in found if len({x.dim for x in cuts}) == len(cuts)]
        kept = apart or [beside_each_other([own[0] for own in ways if own])]
        if are_fewer and all(x.is_part for own in ways for x in own):
            kept += map(beside_each_other, product(*(own for own in ways if own)))
        return forms(replace(base, cuts=cuts) for cuts in kept)

    def restated(self, cuts: tuple[Cut, ...], shape: Shape) -> "Kind":
        """This form with other cuts, if these are those of the same elements: a reshape to what
        has the same shape on each device is not in a program."""
        if all(x.is_part and not x.padded(shape[x.dim]) for x in (*self.cuts, *cuts)) and \
                digits_of(self.cuts, shape) == digits_of(cuts, shape):  # fmt: skip
            return replace(self, cuts=cuts)
        return self

    def cut_at(self, dim: int, axes: Axes) -> Cut | None:
        """The cut of a dimension, that by some axes if there are several."""
        own = [cut for cut in self.cuts if cut.dim == dim]
        return next((cut for cut in own if cut.axes == axes), own[0] if own else None)


def singly(own: Sequence[Cut]) -> list[tuple[Cut, ...]]:
    """The ways in which a cut is one of several."""
    return [(x,) for x in own]


def shared(own: Sequence[Cut]) -> list[tuple[Cut, ...]]:
    """The ways in which a dimension whose parts may be those of some others becomes these: the
    parts are of one of them, or, by their major digits, of one before that of the others."""
    ways, axes, dims = singly(own), own[0].axes, sorted({x.dim for x in own})
    if not all(x.is_part for x in own):
        return ways
    for ends in combinations_with_replacement(range(len(axes) + 1), len(dims) - 1):
        pairs = zip((0, *ends), (*ends, len(axes)), dims, strict=True)
        cuts = tuple(Cut(axes[i:j], d) for i, j, d in pairs if i < j)
        ways += [cuts] if len(cuts) > 1 else []
    return ways


def beside_each_other(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """Cuts of one dimension as one, the first ones as its major digits."""
    found = dict[int, Cut]()
    for x in cuts:
        own = found.get(x.dim)
        found[x.dim] = x if own is None else Cut((*own.axes, *x.axes), x.dim)
    return tuple(found.values())


Forms: TypeAlias = tuple[Kind, ...]  # that a value may have, the likely one first


def forms(found: Iterable[Kind]) -> Forms:
    """Those of some kinds that differ; of too many only where the value differs."""
    kinds = tuple(dict.fromkeys(found))
    return kinds if len(kinds) <= MOST_FORMS else (kinds[0].varying(),)


def axes_of(kinds: Forms) -> set[Axis]:
    """By which a value may differ."""
    return {a for kind in kinds for a in kind.axes}


def digits_of(cuts: Sequence[Cut], shape: Shape) -> list[Axis | int]:
    """By what elements follow each other, from major to minor: places of devices, and dimensions of
    a part."""
    found = list[Axis | int]()
    for dim, size in enumerate(shape):
        found += [a for cut in cuts if cut.dim == dim for a in cut.axes]
        found += [size] if size > 1 else []
    return found


EMPTY = Kind(free=True, loose=True)
"""The form of a value without elements."""


def form_of(sharding: Sharding, mesh: Mesh, whole: Shape | None = None) -> Kind:
    dims = [all_digits(map(mesh.resolved, own)) for own in sharding.dims]
    cuts = [Cut(own, i, None if whole is None else whole[i]) for i, own in enumerate(dims) if own]
    return Kind(tuple(cuts), all_digits(map(mesh.resolved, sharding.unreduced)), sharding.kind)


def everywhere(axes: set[Axis], free: bool = False) -> Kind:
    """The form of a value of which only is known where it differs."""
    return Kind(varies=tuple(sorted(axes)), free=free, unsure=frozenset(axes))


def joined(first: Kind, other: Kind, is_sure: bool = False) -> Kind:
    """The form of a value that is one of two, or put together of them: in no way cut along one
    dimension where these `is_sure`ly are so in two ways."""
    free, pairs = first.free and other.free, list(zip(first.cuts, other.cuts, strict=False))
    terms = first.terms if (first.terms, first.kind) == (other.terms, other.kind) else ()
    if first.places == other.places and terms == first.terms and first.varies == other.varies:
        same_step = all((a.step, a.edges) == (b.step, b.edges) for a, b in pairs)
        cuts = tuple(a if a == b else a.beside(b) for a, b in pairs)
        unsure = first.unsure | other.unsure | frozenset(() if same_step else first.axes)
        return replace(first, cuts=cuts, free=free, unsure=unsure, known=None)
    form = everywhere((first.axes | other.axes) - {*terms}, free)
    unsure = first.unsure | other.unsure if is_sure else form.unsure
    return replace(form, terms=terms, kind=first.kind, unsure=unsure)


def together(parts: Sequence[Forms], are_apart: bool = False) -> Forms:
    """The forms of a value that is one of several, or put together of them, which `are_apart`: all
    are cut alike, if they may be."""
    first, *others = [own for own in parts if any(f.axes or not f.free for f in own)] or parts
    for other in others:
        pairs = list(product(first, other))
        alike = [(a, b) for a, b in pairs if a.places == b.places]
        is_sure = are_apart and all(a.axes and b.axes for a, b in pairs)
        first = forms(joined(a, b, is_sure) for a, b in alike or pairs[:1])
    loose = any(f.loose for own in parts for f in own)
    return tuple(replace(f, loose=loose) for f in first)


def seats(cut: Cut, source: Shape, target: Shape, is_unseen: bool) -> list[Cut]:
    """The cuts that one of a shape may be in another shape of the same elements: before as many of
    these, or of any dimension of one element if it is moved `unseen`; one of one element then is
    merged with any dimension. Where as many dimensions as before are there, it stays with its own;
    a dimension of one element that is gone was one of the dimension before or behind it."""
    end = prod(source[cut.dim + cut.minor :])
    before, after = ([d for d in range(len(x)) if prod(x[d:]) == end] for x in (source, target))
    size, is_same = source[cut.dim], len(before) == len(after) and not is_unseen
    if is_same and not cut.minor:
        own = after[before.index(cut.dim)]
        return [cut.scaled(own, size, target[own])]
    dims = [] if is_same else [*after]
    if is_unseen:
        dims += [d for d, n in enumerate(target) if d not in after and 1 in (n, size)]
    found = [Cut(cut.axes, d) if cut.minor else cut.scaled(d, size, target[d]) for d in dims]
    if cut.minor or (size == 1 and len(after) < len(before)):
        ends = [d for d, n in enumerate(target) if n > 1 and prod(target[d + 1 :]) == end]
        found += [Cut(cut.axes, d, minor=True) for d in ends]
    return found


def reshaped(form: Kind, source: Shape, target: Shape, unseen: Unseen) -> Forms:
    """The forms of a value of another shape, where some parts are moved or combined `unseen`."""
    if 0 in source or not form.axes:
        return (replace(form, known=None),)
    cuts = sorted(form.cuts, key=lambda cut: (cut.dim, cut.minor))
    ways = [seats(cut, source, target, bool(unseen.moved & {*cut.axes})) for cut in cuts]
    # one element may be a term that is left of a sum, too
    doubt = {a for cut in cuts if source[cut.dim] == 1 for a in cut.axes} & unseen.combined
    # a layout of one row or column may be turned by what is no op of the graph
    for cut, own in zip(cuts, ways, strict=True):
        is_turned = source[cut.dim] == 1 in target and all(x.minor for x in own)
        doubt |= {*cut.axes} if is_turned else set()
    are_fewer = len(target) < len(source)
    found = replace(form, cuts=tuple(cuts)).placed(ways, are_new=True, are_fewer=are_fewer)
    return forms(replace(kind, unsure=kind.unsure | doubt) for kind in found)


def part_of_view(form: Kind, held: MemoryView, view: MemoryView) -> Forms:
    """The forms of some of the elements in a view of other dimensions: a cut stays with the one
    that has elements along it, in the same steps; of some of these it is that, or that of the
    dimension of one before it, which counts parts; or, which is less sure, with the one that has
    those between them too, as its dimension and the next ones are one there."""
    ways, doubt = list[list[Cut]](), set[Axis]()
    for cut in form.cuts:
        size, step = held.sizes[cut.dim], held.strides[cut.dim]
        sizes = list(enumerate(zip(view.sizes, view.strides, strict=True)))
        same = [i for i, dim in sizes if dim == (size, step) and size > 1]
        along = [i for i, (n, s) in sizes if n > 1 and step <= s < step * size]
        some = [i for i in along if view.strides[i] == step]
        merged = [i for i, (n, s) in sizes if n > 1 and s < step < n * s <= size * step]
        if size == 1:
            ways.append([Cut(cut.axes, i) for i, (n, _) in sizes if n == 1])
        elif same:
            ways.append([replace(cut, dim=d) for d in same])
        elif not cut.minor and some == along != []:
            (dim,), start = some, (view.offset - held.offset) // step % size
            part = replace(piece(cut, size, view.sizes[dim], start), dim=dim)
            ones = [dim - 1] if dim and view.sizes[dim - 1] == 1 else []
            ways.append([part, *(Cut(cut.axes, i) for i in ones)])
        elif not cut.minor and len(merged) == 1:
            ways.append([piece_of_merged(cut, held, view, merged[0])])
            doubt |= {*cut.axes}
        else:
            ways.append([])
    found = form.placed(ways)
    return forms(replace(kind, unsure=kind.unsure | doubt) for kind in found)


def piece_of_merged(cut: Cut, held: MemoryView, view: MemoryView, dim: int) -> Cut:
    """The cut of some of the elements of its dimension and those inside of it, which are one
    dimension of a view. A view of more than what is held begins before it."""
    size, step = held.sizes[cut.dim], held.strides[cut.dim]
    count, each = view.sizes[dim], view.strides[dim]
    whole, start = size * step // each, max(view.offset - held.offset, 0)
    for above in sorted((s for s in held.strides if s > step), reverse=True):
        start %= above
    merged = cut.scaled(dim, size, whole)
    return merged if count == whole else piece(merged, whole, count, start // each)


def piece(cut: Cut, size: int, count: int, start: int) -> Cut:
    """The cut of some of the elements, or of more than these. These lie as far apart as parts do;
    but equal pieces of parts, and what these fill together, follow each other in the order of
    devices as parts do. How many elements there are of all is not known."""
    if cut.minor:
        return replace(cut, whole=None)
    is_equal = not cut.step and (not count % size or not size % count)
    step = count if is_equal or (count > size and not count % size) else cut.step or size
    low, high = cut.edges
    if count > size:  # of all elements those before and behind are taken for edges
        edges = (low and low - start, high and high + count - size + start)
    else:
        edges = (max(low - start, 0), max(high - (size - start - count), 0))
    return replace(Cut(cut.axes, cut.dim).of_step(step, count), edges=edges)


def viewed(form: Kind, held: MemoryView, view: MemoryView, unseen: Unseen) -> Forms:
    """The forms of the same elements in another view, as in another shape. In one whose elements
    are in another order a cut stays with the dimension of the longest steps among those inside of
    its own, or with one of size 1 above these."""
    if (held.sizes, held.strides) == (view.sizes, view.strides):
        return (form,)
    if in_order(held) and in_order(view):
        return reshaped(form, held.sizes, view.sizes, unseen)
    own, ways = list(zip(view.sizes, view.strides, strict=True)), list[list[Cut]]()
    is_new = sum(n == 1 for n in view.sizes) > sum(n == 1 for n in held.sizes)
    for cut in form.cuts:
        step, size = held.strides[cut.dim], held.sizes[cut.dim]
        end = step * size
        dims = [d for d, (n, s) in enumerate(own) if n > 1 and n * s == end]
        if size == 1:
            dims = [d for d, (n, _) in enumerate(own) if n == 1]
        elif is_new and cut.is_part:
            dims += [d for d, (n, s) in enumerate(own) if n == 1 and s % end == 0]
        ways.append([cut.scaled(d, size, view.sizes[d]) for d in dims])
    return form.placed(ways, is_new)


def in_order(view: MemoryView) -> bool:
    """True if the last dimension counts fastest, as in a tensor."""
    steps = [s for n, s in zip(view.sizes, view.strides, strict=True) if n > 1]
    return steps == sorted(steps, reverse=True)


def names(axes: Iterable[Axis]) -> str:
    return ", ".join(dict.fromkeys(a.name for a in axes))
