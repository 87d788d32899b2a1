"""The `tile` dialect: the program of one kernel on the cores, by instruction. `kernel.py` shows
a kernel and where its ops stand, `docs/rationale/tile.md` gives the reasons, and the limits.
"""

from xdsl.ir import Dialect

from ge.dialects.support.definitions import attributes_of, ops_of
from ge.dialects.tile import buffers, compute, kernel, transfers, types, unfold

FAMILIES = (types, kernel, buffers, transfers, unfold, compute)

Tile = Dialect("tile", ops_of(*FAMILIES), attributes_of(*FAMILIES))
