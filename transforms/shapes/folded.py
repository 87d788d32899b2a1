"""Values in which a padded axis and axes before it are one, as in [batch * length, 16]: each row
stays apart from the others, and a view has the axis again."""

from collections.abc import Sequence
from dataclasses import dataclass

from ge.transforms.analysis.dimensions import Size, volume
from ge.transforms.shapes.fills import Fill

Axes = dict[int, Fill]  # padded axis -> what is there


@dataclass(frozen=True)
class Folded:
    """A value that has a padded axis and axes before it as one, in which padded elements lie
    between valid ones: the rows of all samples, one sample after another. Its sizes and padded axes
    as if it had them apart: those from `at` on, as many as `count`, are its axis `at`; with a count
    of 0 that is not known."""

    sizes: Sequence[Size]
    axes: Axes
    at: int = 0
    count: int = 0

    @property
    def group(self) -> tuple[Sequence[Size], set[int]]:
        """The sizes that are one, and the padded ones of them."""
        inside = {a - self.at for a in self.axes}
        return tuple(self.sizes[self.at : self.at + self.count]), inside

    def moved(self, axis: int, sizes: Sequence[Size], fill: Fill) -> "Folded":
        """A value of these sizes, whose axis has the same ones as one, and holds this."""
        group, inside = self.group
        apart = (*sizes[:axis], *group, *sizes[axis + 1 :])
        return Folded(apart, {axis + i: fill for i in inside}, axis, self.count)


def fold(origin: Folded, sizes: Sequence[Size]) -> Folded:
    """A view of a value that has axes as one."""
    source, count = tuple(origin.sizes), len(origin.sizes) - len(sizes) + 1
    for at, size in enumerate(sizes):
        end = at + count
        inside = all(at <= axis < end for axis in origin.axes)
        if count > 1 and inside and size == volume(source[at:end]):
            if tuple(sizes[:at]) == source[:at] and tuple(sizes[at + 1 :]) == source[end:]:
                return Folded(source, origin.axes, at, count)
    return Folded(source, origin.axes)
