"""How the values of devices differ: forms, and those of the same elements in another shape or view
(see `device_values.py`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

from ge.dialects.npu_task.memory import MemoryView
from ge.dialects.support.boxes import groups
from ge.dialects.support.digits import Axes, all_digits
from ge.dialects.support.mesh import SUM, Axis, Mesh, Sharding
from ge.dialects.support.types import Shape

Numbers: TypeAlias = Mapping[int, Any]  # the elements of a value, on some devices

MOST_KNOWN = 1 << 14  # elements of a value that are computed


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts along a dimension, by digits from major to minor. After a reshape there may be several
    dimensions of which it is one, the likely one first. `whole` is the size of the dimension on all
    devices, if known; `fill` what stands behind the last element, None for what means nothing.
    `step` is how far the first elements of two parts lie apart, 0 for as many elements as each part
    has; `edges` the number of elements at both ends that are none of the whole's."""

    axes: Axes
    dims: tuple[int, ...]
    whole: int | None = None
    fill: float | None = None
    step: int = 0
    edges: tuple[int, int] = (0, 0)

    @property
    def is_sure(self) -> bool:
        return len(self.dims) == 1

    @property
    def is_part(self) -> bool:
        """True if parts follow each other."""
        return not self.step and self.edges == (0, 0)

    @property
    def wrong(self) -> str:
        """Words for what is no part."""
        text, (first, last) = f"cut along {names(self.axes)}, and", self.edges
        if first or last:
            return (
                f"{text} {first} first and {last} last elements of a part are none of the whole's"
            )
        return f"{text} its parts, {self.step} elements apart, do not follow each other"

    def of_step(self, step: int, size: int) -> "Cut":
        """This cut, for parts of some size that lie so far apart."""
        return replace(self, step=0 if step == size else step)

    def beside(self, other: "Cut") -> "Cut":
        """Return this cut, of elements of which some are cut as another one is."""
        low, high = map(max, self.edges, other.edges)
        return replace(self, whole=None, fill=None, edges=(low, high))

    def likely(self, sizes: Sequence[int]) -> int:
        """Return the first of its dimensions that has elements besides those at both ends."""
        return next((d for d in self.dims if sizes[d] > sum(self.edges)), self.dims[0])

    def scaled(self, dims: tuple[int, ...], size: int, other: int) -> "Cut":
        """This cut, of dimensions of another size that have the same elements."""
        low, high = (e * other // size for e in self.edges)
        return Cut(self.axes, dims, step=self.step * other // size, edges=(low, high))

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
    unsure: frozenset[Axis] = frozenset()  # by which it is not known which dimension is cut
    drawn: bool = False  # random numbers, which are the same in two parts by chance alone
    hole: bool = False  # some elements are not there yet: another exchange puts them onto it
    known: Numbers | None = field(default=None, compare=False)

    @property
    def axes(self) -> set[Axis]:
        return {*self.terms, *self.varies, *(a for cut in self.cuts for a in cut.axes)}

    def cut_of(self, axis: Axis) -> Cut | None:
        return next((cut for cut in self.cuts if axis in cut.axes), None)

    def lacks(self, axes: Axes, dim: int) -> bool:
        """Tell whether devices along some axes surely have the same, and no equal parts along a
        dimension, which others may cut."""
        is_loose = self.loose and not any(dim in cut.dims for cut in self.cuts)
        return not (self.free or is_loose or self.axes >= {*axes})

    def contradicts(self, axes: Axes) -> bool:
        """Return whether parts are in another order than that of axes, in whichever dimension."""
        cut = self.cut_of(axes[0]) if axes else None
        if cut is None or not {*axes} <= {*cut.axes} or {*cut.axes} & {*self.varies}:
            return False
        return tuple(a for a in cut.axes if a in axes) != axes

    def after(self, other: "Kind") -> "Kind":
        """This form, which follows from another one."""
        return replace(self, unsure=other.unsure & self.axes)

    def varying(self) -> "Kind":
        """The form of some of the elements."""
        form = everywhere(self.axes - {*self.terms}, self.free)
        return replace(form, terms=self.terms, kind=self.kind)

    def of_ones(self, shape: Shape) -> "Kind":
        """This form, of a value that comes from elsewhere: to transpose dimensions of one element
        moves nothing, and is not in a program. So a cut of one may be that of any of them."""
        if not any(shape[cut.dims[0]] == 1 for cut in self.cuts):
            return self
        ones = [d for d, size in enumerate(shape) if size == 1]
        cuts = [
            replace(cut, dims=tuple(dict.fromkeys((*cut.dims, *ones))))
            if shape[cut.dims[0]] == 1
            else cut
            for cut in self.cuts
        ]
        return replace(self, cuts=tuple(cuts))

    def restated(self, cuts: tuple[Cut, ...], shape: Shape) -> "Kind":
        """This form with other cuts, if these are those of the same elements: a reshape to what
        has the same shape on each device is not in a program."""
        if all(x.is_part and not x.padded(shape[x.dims[0]]) for x in (*self.cuts, *cuts)) and \
                digits_of(self.cuts, shape) == digits_of(cuts, shape):  # fmt: skip
            return replace(self, cuts=cuts)
        return self

    def cut_at(self, dim: int, stated: Mapping[int, Axes]) -> Cut | None:
        """The cut of a dimension, one as is stated if there are several that it may have."""
        own = [cut for cut in self.cuts if dim in cut.dims]
        exact = next((cut for cut in own if cut.axes == stated.get(dim)), None)
        elsewhere = [x for x in own if any(x.axes == stated.get(d) for d in x.dims)]
        return exact or next((cut for cut in own if cut not in elsewhere), None)


def digits_of(cuts: Sequence[Cut], shape: Shape) -> list[Axis | int]:
    """By what elements follow each other, from major to minor: places of devices, and dimensions of
    a part."""
    found = list[Axis | int]()
    for dim, size in enumerate(shape):
        found += [a for cut in cuts if cut.dims[0] == dim for a in cut.axes]
        found += [size] if size > 1 else []
    return found


EMPTY = Kind(free=True, loose=True)
"""The form of a value without elements."""


def form_of(sharding: Sharding, mesh: Mesh, whole: Shape | None = None) -> Kind:
    dims = [all_digits(map(mesh.resolved, own)) for own in sharding.dims]
    cuts = [
        Cut(own, (i,), None if whole is None else whole[i]) for i, own in enumerate(dims) if own
    ]
    return Kind(tuple(cuts), all_digits(map(mesh.resolved, sharding.unreduced)), sharding.kind)


def everywhere(axes: set[Axis], free: bool = False) -> Kind:
    """The form of a value of which only is known where it differs."""
    return Kind(varies=tuple(sorted(axes)), free=free, unsure=frozenset(axes))


def joined(forms: Sequence[Kind]) -> Kind:
    """The form of a value that is one of several, or put together of them."""
    first, *others = [f for f in forms if f.axes or not f.free] or forms
    for other in others:
        free, pairs = first.free and other.free, list(zip(first.cuts, other.cuts, strict=False))
        same = len(first.cuts) == len(other.cuts) and all(
            (a.axes, a.dims) == (b.axes, b.dims) for a, b in pairs
        )
        terms = first.terms if (first.terms, first.kind) == (other.terms, other.kind) else ()
        if same and terms == first.terms and first.varies == other.varies:
            same_step = all((a.step, a.edges) == (b.step, b.edges) for a, b in pairs)
            cuts = tuple(a if a == b else a.beside(b) for a, b in pairs)
            unsure = first.unsure | other.unsure | frozenset(() if same_step else first.axes)
            first = replace(first, cuts=cuts, free=free, unsure=unsure, known=None)
        else:
            form = everywhere((first.axes | other.axes) - {*terms}, free)
            first = replace(form, terms=terms, kind=first.kind)
    return replace(first, loose=any(f.loose for f in forms))


def reshaped(form: Kind, source: Shape, target: Shape) -> Kind:
    """The form of a value of another shape. A cut stays with the major dimension of those that a
    dimension becomes."""
    if 0 in source or not form.axes:
        return replace(form, known=None)
    kept = 0
    while kept < min(len(source), len(target)) and source[kept] == target[kept]:
        kept += 1
    cuts, varies, lost = list[Cut](), list(form.varies), set(form.unsure)
    ends = [(i + 1, i + 1) for i in range(kept)]
    ends += [(i + kept, j + kept) for i, j in groups(source[kept:], target[kept:])]
    # a dimension of one element that comes first is of the dimension behind it
    ends = [e for e, last in zip(ends, [(0, 0), *ends], strict=False) if e[1] > last[1]]
    ends = [*ends[:-1], (len(source), len(target))]
    first = begin = 0
    for i, j in ends:
        own = [cut for cut in form.cuts if first <= cut.dims[0] < i]
        for cut in own:
            leading = next((d for d in range(begin, j) if target[d] > 1), j - 1)
            dims = tuple(range(begin, leading + 1))
            if source[first:i] == target[begin:j]:
                cuts.append(replace(cut, dims=(cut.dims[0] - first + begin,)))
            elif len(own) > 1 or prod(source[first : cut.dims[0]]) > 1 or not dims:
                varies += cut.axes
                lost |= set(cut.axes)
            else:
                cuts.append(cut.scaled(dims, source[cut.dims[0]], target[leading]))
                # one element may be a term that is left of a sum, too
                is_open = len(dims) > 1 or source[cut.dims[0]] == 1
                lost |= set(cut.axes) if is_open else set()
        first, begin = i, j
    form = replace(form, cuts=tuple(cuts), varies=tuple(varies), known=None)
    return replace(form, unsure=frozenset(lost))


def part_of_view(form: Kind, held: MemoryView, view: MemoryView) -> Kind:
    """The form of some of the elements in a view of other dimensions: a cut stays with the one
    that has all elements along it, in the same steps; or, which is less sure, with the one that
    begins anew where its own does."""
    cuts, lost, doubt = list[Cut](), list[Axis](), set[Axis]()
    for cut in form.cuts:
        likely = cut.likely(held.sizes)
        size, step = held.sizes[likely], held.strides[likely]
        sizes = list(enumerate(zip(view.sizes, view.strides, strict=True)))
        same = [i for i, dim in sizes if dim == (size, step) and size > 1]
        wider = [i for i, (n, s) in sizes if size > 1 and s < step and n * s == size * step]
        if len(same) == 1 and (cut.is_sure or any(cut.edges)):
            cuts.append(replace(cut, dims=(same[0],)))
            doubt |= set() if cut.is_sure else {*cut.axes}
        elif cut.is_part and len(one := same or wider) == 1:
            cuts.append(Cut(cut.axes, (one[0],)))
            doubt |= {*cut.axes}
        else:
            lost += cut.axes
    varies, unsure = (*form.varies, *lost), form.unsure | {*lost, *doubt}
    return replace(form, cuts=tuple(cuts), varies=varies, unsure=unsure, known=None)


def viewed(form: Kind, held: MemoryView, view: MemoryView) -> Kind:
    """The form of the same elements in another view. A cut stays with the dimension of the longest
    steps among those inside of its own, or with one of size 1 above these."""
    if (held.sizes, held.strides) == (view.sizes, view.strides):
        return form
    if len(view.sizes) < len(held.sizes) and in_order(held) and in_order(view):
        found = reshaped(form, held.sizes, view.sizes)
        ones = {a for x in form.cuts if held.sizes[x.dims[0]] == 1 for a in x.axes}
        return replace(found, unsure=found.unsure | ones)
    cuts, lost = list[Cut](), list[Axis]()
    for cut in form.cuts:
        likely = cut.likely(held.sizes)
        step, size = held.strides[likely], held.sizes[likely]
        end = step * size
        own = [(n, s) for n, s in zip(view.sizes, view.strides, strict=True)]
        ones = [d for d, (n, s) in enumerate(own) if n == 1 and s % end == 0]
        if sum(n == 1 for n in view.sizes) <= sum(n == 1 for n in held.sizes) and size > 1:
            ones = []  # none is new
        main = [d for d, (n, s) in enumerate(own) if n > 1 and n * s == end]
        if size == 1:
            main = [d for d, (n, _) in enumerate(own) if n == 1 and d not in ones]
        dims = (*ones, *main)
        if dims:
            is_same = len(dims) == 1 and view.sizes[dims[0]] == size
            new = cut.scaled(dims, size, view.sizes[dims[-1]])
            cuts.append(replace(cut, dims=dims) if is_same else new)
        else:
            lost += cut.axes
    varies = (*form.varies, *lost)
    unsure = {*form.unsure, *lost, *(a for x in cuts if not x.is_sure for a in x.axes)}
    return replace(form, cuts=tuple(cuts), varies=varies, unsure=frozenset(unsure), known=None)


def in_order(view: MemoryView) -> bool:
    """True if the last dimension counts fastest, as in a tensor."""
    steps = [s for n, s in zip(view.sizes, view.strides, strict=True) if n > 1]
    return steps == sorted(steps, reverse=True)


def names(axes: Iterable[Axis]) -> str:
    return ", ".join(dict.fromkeys(a.name for a in axes))
