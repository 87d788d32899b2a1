"""The forms of what devices send each other (see `device_values.py`)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation

from ge.dialects.graph import collectives as c
from ge.dialects.graph.sharding import Unseen
from ge.dialects.graph.transfers import some_devices
from ge.dialects.support.digits import all_digits
from ge.dialects.support.mesh import SUM, Axis, Mesh
from ge.dialects.support.types import shape_of
from ge.runtime.check.device_forms import Cut, Kind, names


@dataclass
class Received:
    """Follows what devices send each other. Problems come with the rule and a text."""

    mesh: Mesh
    unseen: Unseen = field(default_factory=Unseen)
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __post_init__(self) -> None:
        self.devices = list(some_devices(self.mesh, self.mesh.sizes))

    def repeats(self, form: Kind, axes: Collection[Axis]) -> bool:
        """True if parts by some axes may be the same on all devices."""
        return form.loose or (bool(axes) and {*axes} <= self.unseen.repeated)

    def has_elements(self, cut: Cut, count: int) -> bool:
        """True if a dimension may have so many elements on all devices."""
        return cut.whole in (None, count) or {*cut.axes} <= self.unseen.resized

    def may_be_term(self, form: Kind, axis: Axis) -> bool:
        """True if elements that are equal on all devices may be terms of a sum."""
        is_same = form.loose and not form.free and axis not in form.axes
        return is_same and axis in self.unseen.summed

    def report(self, rule: str, op: Operation, text: str) -> None:
        self.problems.append((rule, f"{op.name}: {text}"))

    def moved(self, op: c.OfWhole, own: Sequence[Kind]) -> Kind:
        """The form of a result of boxes: as these are. Those that send are the devices along the
        axes that the value is cut by."""
        form, shape = own[0], op.whole
        has = [all_digits(axes) for axes in op.has.data.dims]
        senders, sure = {a for axes in has for a in axes}, set[Axis]()
        said = tuple(Cut(axes, d, shape[d]) for d, axes in enumerate(has) if axes)
        form = form.restated(said, shape_of(op.input))
        for dim, axes in enumerate(has):
            cut = form.cut_at(dim, axes)
            if cut is not None and cut.axes == axes:
                sure |= {*axes} - {*form.varies}
            both = {*axes, *(() if cut is None else cut.axes)}
            unknown = both & form.unsure and not form.lacks(axes, dim)
            is_loose = self.repeats(form, axes) and not form.axes & {*axes}
            is_one = shape[dim] <= shape_of(op.input)[dim]  # the first part is all there is
            unknown = unknown or (cut is None and (form.free or is_loose or is_one))
            unknown = unknown and not form.contradicts(axes)
            if not unknown and axes != (() if cut is None else cut.axes):
                what = "the same on all devices" if cut is None else f"cut by {names(cut.axes)}"
                text = f"dimension {dim} is {what}, and not cut by {names(axes) or 'nothing'}"
                self.report("D10", op, text)
            if cut is not None and not unknown and not self.has_elements(cut, shape[dim]):
                text = f"dimension {dim} has {cut.whole} elements on all devices, not {shape[dim]}"
                self.report("D10", op, text)
            if cut is not None and ((not unknown and not cut.is_part) or any(cut.edges)):
                self.report("D19", op, f"sends what is {cut.wrong}")
        if senders & set(form.terms):
            self.report("D12", op, "sends terms of a sum before they are combined")
        kept = tuple(a for a in form.varies if a not in senders)
        terms = tuple(a for a in form.terms if a not in senders)
        form = replace(form, unsure=form.unsure - sure)
        if isinstance(op, c.AllToAllOp):
            spans = [all_digits(axes) for axes in op.to.data.dims]
            cuts = [Cut(a, d, shape[d]) for d, a in enumerate(spans) if a]
            return Kind(tuple(cuts), terms, form.kind, kept).after(form)
        assert isinstance(op, c.ExchangeOp)
        fills_terms = op.fill is not None and (form.kind != SUM or op.fill.value.data != 0)
        sent = Kind((), terms, form.kind, kept)
        result = self.exchanged(op, sent.varying() if fills_terms and terms else sent)
        return result if op.onto is None else self.onto(op, result, own[1])

    def exchanged(self, op: c.ExchangeOp, form: Kind) -> Kind:
        fill = None if op.fill is None else float(op.fill.value.data)
        cuts, hole = list[Cut](), False
        for dim, ((place, size), whole) in enumerate(
            zip(op.needs.data.spans, op.whole, strict=True)
        ):
            firsts = [place.at(self.mesh, d) for d in self.devices]
            bare = op.fill is None and op.onto is None
            hole = hole or (bare and (min(firsts) < 0 or all(f + size > whole for f in firsts)))
            if whole and all(f + size <= 0 or f >= whole for f in firsts):
                text = f"no device gets an element of dimension {dim}: boxes begin at {min(firsts)}"
                self.report("D10", op, f"{text} of {whole}")
            terms = sorted(place.terms, key=lambda t: -abs(t[1]))
            axes = all_digits(a for a, _ in terms)
            if axes:
                step = terms[-1][1]
                # parts of other sizes are those of what has more elements, or fewer
                tiles = place.constant == 0 and step == size == -(-whole // self.mesh.parts(axes))
                cut = Cut(axes, dim, whole if tiles else None, fill).of_step(step, size)
                cuts.append(cut)
                places = [place.constant + step * self.mesh.index(axes, d) for d in self.devices]
                if places != firsts:
                    form = replace(form, unsure=form.unsure | {*axes})
        used = [a for cut in cuts for a in cut.axes]
        if len(set(used)) < len(used):
            cuts, form = [], replace(form, varies=tuple(dict.fromkeys((*form.varies, *used))))
        return replace(form, cuts=tuple(cuts), hole=hole)

    def onto(self, op: c.ExchangeOp, new: Kind, old: Kind) -> Kind:
        """A box put onto a value: parts where one of both is, as the other adds elements."""
        cuts = {cut.axes: replace(cut, whole=None) for cut in (*old.cuts, *new.cuts)}
        both = {*old.places} & {*new.places}
        varies = tuple(dict.fromkeys((*new.varies, *old.varies)))
        if old.terms or new.terms:
            self.report("D12", op, "takes terms of a sum before they are combined")
        form = Kind(tuple(cuts.values()), varies=varies)
        sure = {a for axes, _ in both for a in axes} - {*old.unsure, *new.unsure}
        return replace(form, unsure=frozenset(form.axes - sure))

    def gathered(self, op: c.AllGatherOp, form: Kind) -> Kind:
        axes, dim = all_digits(op.axes.data), op.dim.value.data
        cut = next((x for x in form.cuts if set(x.axes) & set(axes)), None)
        both = {*axes, *(() if cut is None else cut.axes)}
        doubt = both & form.unsure and not form.lacks(axes, dim)
        is_cut = any(x.dim == dim for x in form.cuts)  # by others
        doubt = doubt or (cut is None and (form.free or (self.repeats(form, axes) and not is_cut)))
        if set(axes) & set(form.terms):
            self.report("D12", op, "gathers terms of a sum before they are combined")
        elif cut is None and not doubt:
            what = "no part" if {*axes} & {*form.varies} else "the same on all devices"
            self.report("D11", op, f"gathers along {names(axes)} what is {what}")
        elif cut is not None:
            if dim != cut.dim and not doubt:
                text = f"gathers along dimension {dim} what is cut along {cut.dim}"
                self.report("D11", op, text)
            if (not cut.is_part and not doubt) or any(cut.edges):
                self.report("D19", op, f"gathers what is {cut.wrong}")
            # of digits in two dimensions, which may be, these are some in a row
            ends = [*range(len(axes), len(cut.axes))] if doubt else []
            rows = [cut.axes[i - len(axes) : i] for i in (*ends, len(cut.axes))]
            if axes not in rows and not both & {*form.varies}:
                text = f"gathers along {names(axes)} what is cut by {names(cut.axes)}"
                self.report("D11", op, f"{text}: in another order, or the wrong parts")
        gone = set(axes)
        cuts = [x for x in form.cuts if not set(x.axes) & gone]
        if cut is not None and (rest := tuple(a for a in cut.axes if a not in gone)):
            cuts.append(Cut(rest, cut.dim, cut.whole))
        varies = tuple(a for a in form.varies if a not in gone)
        terms = tuple(a for a in form.terms if a not in gone)
        return Kind(tuple(cuts), terms, form.kind, varies).after(form)

    def reduced(self, op: c.AllReduceOp | c.ReduceScatterOp, form: Kind) -> Kind:
        axes, kind = all_digits(op.axes.data), str(op.kind.data)
        for axis in axes:
            if axis in form.terms:
                if form.kind != kind:
                    text = f"combines by {kind} what are terms of a {form.kind}"
                    self.report("D12", op, text)
            elif self.may_be_term(form, axis):
                if kind != SUM:
                    text = f"combines by {kind} what may be terms of a sum"
                    self.report("D12", op, text)
            elif not form.free and axis not in form.axes and kind in (SUM, "prod"):
                text = f"combines along {axis.name} what is the same on all devices"
                self.report("D12", op, f"{text}: it is counted again for each")
        rest = tuple(a for a in form.terms if a not in axes)
        varies = tuple(a for a in form.varies if a not in axes)
        left = [(x, tuple(a for a in x.axes if a not in axes)) for x in form.cuts]
        cuts = [x if own == x.axes else Cut(own, x.dim) for x, own in left if own]
        if isinstance(op, c.ReduceScatterOp):
            dim = op.dim.value.data
            before = next((x for x in cuts if x.dim == dim), None)
            cuts = [x for x in cuts if x is not before]
            own = before.axes if before is not None else ()
            if before is not None and (before.minor or any(before.edges)):
                self.report("D19", op, f"scatters what is {before.wrong}")
            cuts.append(Cut((*own, *axes), dim))
        new = Kind(tuple(cuts), rest, form.kind, varies).after(form)
        return replace(new, loose=form.loose and not {*axes} & self.unseen.summed)
