"""Passes of three kinds: a step down, a rule of the graph level, a fusion."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

import ge
from acme_npu.ops import ClippedOp, TwiceOp
from ge.dialects.graph.elementwise import AbsOp, AddOp, MinimumOp
from ge.dialects.support.constraints import FLOATS
from ge.dialects.support.types import constant_value
from ge.runtime.data.arrays import Array
from ge.transforms.rewriting.driver import rewrite
from ge.transforms.rewriting.matching import Match, Number, Op, Value
from ge.transforms.rewriting.rules import Emit, Rule


class LowerTwice(Rule):
    """acme.twice x = x + x"""

    name = "acme-lower-twice"
    pattern = Op(TwiceOp, Value("x"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        return emit(AddOp, match["x"], match["x"])


@dataclass(frozen=True)
class LowerTwicePass(ModulePass):
    """Write acme.twice as an addition: before constants are folded, so that these see it.

    acme.twice %x  ->  graph.add %x, %x
    """

    name = "acme-lower-twice"
    LEVEL: ClassVar = "graph"
    BEFORE: ClassVar = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerTwice()])


def is_float(x: SSAValue) -> bool:
    """its elements are floats"""
    return FLOATS.verifies(x.type)


class FindClipped(Rule):
    """min(|x|, number) = acme.clipped x, of floats"""

    name = "acme-find-clipped"
    pattern = Op(MinimumOp, Op(AbsOp, Value("x", where=is_float)), Number(name="limit"))

    def replace(self, match: Match, emit: Emit) -> SSAValue | None:
        number = constant_value(match["limit"])
        return None if number is None else emit(ClippedOp, match["x"], limit=number.get_values()[0])


@dataclass(frozen=True)
class FindClippedPass(ModulePass):
    """Find what Acme's vector unit has one instruction for.

    graph.minimum (graph.abs %x), 3.0  ->  acme.clipped %x limit 3.0 : f64
    """

    name = "acme-find-clipped"
    LEVEL: ClassVar = "graph"
    AFTER: ClassVar = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [FindClipped()])


def clipped_matmul(x: Array, w: Array) -> Array:
    return np.minimum(np.abs(x @ w), 6).astype(x.dtype)


def has_two_operands(op: Operation) -> bool:
    """A kernel takes each value once."""
    return len(set(op.operands)) == 2


@dataclass(frozen=True)
class FuseClippedPass(ModulePass):
    """A product with acme.clipped behind it is one launch of Acme's kernel, which clips at 6.

    acme.clipped (graph.matmul %x, %w)  ->  fused_op.custom "AcmeClippedMatmul"(%x, %w)
    """

    name = "acme-fuse-clipped"
    LEVEL: ClassVar = "fused"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        product = ge.OpType("MatMul", where=has_two_operands)
        pattern = ge.Pattern([product, ge.OpType(ClippedOp, attributes=(("limit", 6.0),))])
        fused = ge.FusedOp("AcmeClippedMatmul", kernel=clipped_matmul, check=1e-2)
        ge.Graph(op, self.name).apply_pattern(pattern, lambda nodes: fused)
