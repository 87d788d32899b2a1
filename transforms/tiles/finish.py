"""Bring tile programs to what cores run: loops without branches, flags, places of buffers."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ge.transforms.tiles.tile_flags import TileFlagsPass
from ge.transforms.tiles.tile_plan import TilePlanPass
from ge.transforms.tiles.tile_split_loops import TileSplitLoopsPass


def finish(module: ModuleOp, target: str = "") -> None:
    """Run the passes that come before programs run: loops without branches, flags between pipes,
    offsets of buffers; for the target that the module names, or another one. Raises GeError and
    VerifyException if that fails."""
    for rewrite in (TileSplitLoopsPass(), TileFlagsPass(target), TilePlanPass(target)):
        rewrite.apply(Context(), module)
