"""`ge.tile`: kernels by hand."""

from ge.lowering.tiles.api import *  # noqa: F403
