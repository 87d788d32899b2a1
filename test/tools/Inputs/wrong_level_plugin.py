"""A plugin for tests: its pass states a level that there is not."""

from dataclasses import dataclass

from xdsl.passes import ModulePass


@dataclass(frozen=True)
class LostPass(ModulePass):
    """Never runs."""

    name = "lost"
    LEVEL = "grpah"
