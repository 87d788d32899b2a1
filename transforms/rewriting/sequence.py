"""Names of passes that are several passes in a row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


class PassSequence(ModulePass, ABC):
    """A name for passes that run one after the other: the default pipeline lists its parts."""

    @abstractmethod
    def parts(self) -> Sequence[ModulePass]: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for part in self.parts():
            part.apply(ctx, op)
