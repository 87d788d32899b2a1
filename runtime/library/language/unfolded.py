"""Windows of an image in L1, as an operand of `mmad`."""

from dataclasses import dataclass, replace

from ge.dialects.tile.unfold import Unfolding
from ge.runtime.library.language.values import Shape, Tile


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A matrix of `depth` x `count`: a column for each window over a tile in L1, whose rows are
    pixels and whose columns are channels; with `turned` its transposition. `pad`: what is left and
    right of an image."""

    tile: Tile
    windows: Unfolding
    depth: int
    count: int
    pad: float | None = None
    turned: bool = False

    @property
    def T(self) -> "Unfolded":
        return replace(self, turned=not self.turned)

    @property
    def shape(self) -> Shape:
        return (self.count, self.depth) if self.turned else (self.depth, self.count)
