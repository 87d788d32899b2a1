"""The `tile` dialect: see `kernel.py`."""

from xdsl.ir import Dialect

from ge.dialects.support.modules import attributes_of, ops_of
from ge.dialects.tile import buffers, compute, kernel, transfers, types

FAMILIES = (types, kernel, buffers, transfers, compute)

Tile = Dialect("tile", ops_of(*FAMILIES), attributes_of(*FAMILIES))
