"""`ge.tile`: kernels by hand."""

from ge.lowering.building.tile_kernels import *  # noqa: F403
