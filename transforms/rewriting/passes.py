"""Bases of passes: those that go function by function, and names for several passes in a row.

A pass that states `LOCAL = True` changes each function by what stands in it alone: it may be nested
in a pipeline, `builtin.module(func.func(infer-shapes))`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ge.dialects.support.functions import defined_functions


class FunctionPass(ModulePass, ABC):
    """A pass over each function that has a body."""

    LOCAL: ClassVar[bool] = True

    @abstractmethod
    def run(self, func: FuncOp) -> None: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in defined_functions(op):
            self.run(func)


class PassSequence(ModulePass, ABC):
    """A name for passes that run one after the other: the default pipeline lists its parts."""

    @abstractmethod
    def parts(self) -> Sequence[ModulePass]: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for part in self.parts():
            part.apply(ctx, op)
