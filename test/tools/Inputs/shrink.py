"""A pass that finds what a reducer looks for."""

from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ShrinkException


class ShrinksPass(ModulePass):
    name = "shrinks"

    def apply(self, ctx, op):
        raise ShrinkException
