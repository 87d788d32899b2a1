"""How the windows of a convolution overlap."""

from dataclasses import dataclass
from math import ceil

from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.support.window import Window
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import shape_of


@dataclass(frozen=True, slots=True)
class Windows:
    """How the windows of a convolution overlap in the last two spatial dimensions."""

    columns: int  # places of the window in a row of the output
    strides: tuple[int, int]
    extents: tuple[int, int]  # input elements that a window spans
    taps: int  # kernel elements in these dimensions

    @classmethod
    def of(cls, op: TensorOp) -> "Windows | None":
        """Those of a convolution; None for other ops and where no windows overlap."""
        if not isinstance(op, ConvOp):
            return None
        window, columns = op.window(), shape_of(op.result)[-1]
        strides, extents, taps = _last_two(window)
        return None if taps == 1 else cls(columns, strides, extents, taps)

    def read(self, m: int) -> float:
        """Input elements that m places of the window in a row need, for each channel."""
        rows, columns = max(ceil(m / self.columns), 1), min(m, self.columns)
        high = (rows - 1) * self.strides[0] + self.extents[0]
        wide = (columns - 1) * self.strides[1] + self.extents[1]
        return min(high * wide, m * self.taps)


def _last_two(window: Window) -> tuple[tuple[int, int], tuple[int, int], int]:
    last = window.rank - 1
    if not last:
        return (1, window.strides[0]), (1, window.extent(0)), window.kernel[0]
    taps = window.kernel[last - 1] * window.kernel[last]
    extents = window.extent(last - 1), window.extent(last)
    return (window.strides[last - 1], window.strides[last]), extents, taps
