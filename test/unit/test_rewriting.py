"""The rewriting driver: dispatch, locations, counts, and patterns that do not end."""

from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import Builtin, FusedLoc, ModuleOp, i32
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ge.dialects.support.editing import MOST_LOCATIONS, fuse_locations
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.transforms.rewriting.driver import Table, op_classes, rewrite


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (Builtin, arith.Arith, test.Test):
        ctx.load_dialect(dialect)
    return parse_module(ctx, SourceText("x.mlir", text))


ADDS = """\
%0 = arith.constant 1 : i32
%1 = arith.addi %0, %0 : i32 loc("first")
%2 = arith.addi %1, %0 : i32 loc("second")
%3 = arith.subi %2, %0 : i32
"test.op"(%3) : (i32) -> ()
"""


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.ops]


class AddToMul(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, arith.MuliOp(op.lhs, op.rhs))


class FuseAdds(RewritePattern):
    """add(add(a, b), c) -> test.op(a, b, c)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        inner = op.lhs.owner
        if isinstance(inner, arith.AddiOp) and inner.result.has_one_use():
            fused = test.TestOp(operands=[*inner.operands, op.rhs], result_types=[i32])
            rewriter.replace(op, fused)
            rewriter.erase(inner)


class Visit(RewritePattern):
    """Notes which ops it is tried on."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        self.seen.append(op.name)


class VisitStated(Visit):
    ops: ClassVar[tuple[type[Operation], ...]] = (arith.SubiOp, arith.ConstantOp)


def test_new_ops_get_the_location_of_what_they_replace():
    module = parse(ADDS)
    counts = rewrite(module, [AddToMul()])
    assert counts == {AddToMul: 2}
    muls = [op for op in module.ops if isinstance(op, arith.MuliOp)]
    assert [str(op.location) for op in muls] == ['loc("first")', 'loc("second")']


def test_one_op_for_several_gets_all_their_locations():
    module = parse(ADDS)
    assert rewrite(module, [FuseAdds()]) == {FuseAdds: 1}
    fused = next(op for op in module.ops if op.name == "test.op" and op.results)
    assert str(fused.location) == 'loc(fused["second", "first"])'
    assert str(fuse_locations([fused, fused])) == str(fused.location)


def test_an_op_that_many_become_keeps_the_first_locations():
    lines = ["%0 = arith.constant 1 : i32"]
    lines += [f'%{i + 1} = arith.addi %{i}, %{i} : i32 loc("n{i}")' for i in range(200)]
    ops = list(parse("\n".join(lines)).ops)[1:]
    fused = fuse_locations(ops)
    assert isinstance(fused, FusedLoc)
    assert list(fused.locations) == [op.location for op in ops[:MOST_LOCATIONS]]


def test_patterns_are_tried_on_their_ops_only():
    anything, stated = Visit(), VisitStated()
    rewrite(parse(ADDS), [anything, stated])
    assert len(anything.seen) == 5
    assert stated.seen == ["arith.constant", "arith.subi"]


def test_patterns_are_looked_up_once_for_a_class():
    """Or for a class and those below it, where one of its patterns asks for these."""

    class Below(VisitStated):
        below = (arith.AddiOp,)

    asks, stated = Below(), VisitStated()
    table = Table([asks, stated])
    found = [table.of(op) for op in parse(ADDS + "%4 = arith.subi %0, %0 : i32").ops]
    assert found == [[stated], [], [], [asks, stated], [], [stated]]
    assert found[1] is found[2]
    sums = frozenset([arith.AddiOp, arith.ConstantOp])
    of_subtraction = {(arith.SubiOp, sums), (arith.SubiOp, frozenset([arith.ConstantOp]))}
    of_constant = {(arith.ConstantOp, frozenset())}
    assert {*table.known} == {arith.AddiOp, test.TestOp, *of_subtraction, *of_constant}


def test_op_classes_of_decorated_patterns():
    class Either(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(
            self, op: arith.AddiOp | arith.SubiOp, rewriter: PatternRewriter, /
        ) -> None: ...

    assert op_classes(AddToMul()) == (arith.AddiOp,)
    assert op_classes(Either()) == (arith.AddiOp, arith.SubiOp)
    assert op_classes(Visit()) == (Operation,)


def test_the_first_pattern_that_rewrites_wins():
    module = parse(ADDS)
    assert rewrite(module, [FuseAdds(), AddToMul()]) == {AddToMul: 2}  # program order


def test_a_pattern_that_does_not_end_is_named():
    class Swap(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
            rewriter.replace(op, arith.AddiOp(op.rhs, op.lhs))

    with pytest.raises(GeError, match=r"pattern Swap was applied \d+ times") as e:
        rewrite(parse(ADDS), [Swap()])
    assert e.value.where == 'loc("second")' or e.value.where == 'loc("first")'


def test_errors_of_a_pattern_pass_unchanged():
    class Fail(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.SubiOp, rewriter: PatternRewriter, /) -> None:
            raise GeError("no")

    with pytest.raises(GeError) as e:
        rewrite(parse(ADDS), [Fail()])
    assert not getattr(e.value, "__notes__", None)


def test_ops_in_regions_of_new_ops_are_located_too():
    class Wrap(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.SubiOp, rewriter: PatternRewriter, /) -> None:
            from xdsl.ir import Block, Region

            inner = test.TestOp()
            outer = test.TestOp(
                operands=op.operands, result_types=[i32], regions=[Region(Block([inner]))]
            )
            rewriter.replace(op, outer)

    module = parse(ADDS)
    rewrite(module, [Wrap()])
    located = [str(o.location) for o in module.walk() if isinstance(o, test.TestOp)]
    assert located[0] == located[1] == 'loc("x.mlir":4:6)'


@pytest.mark.parametrize("scope", ["module", "region"])
def test_scope(scope: str):
    module = parse(ADDS)
    rewrite(module if scope == "module" else module.body, [AddToMul()])
    assert names(module).count("arith.muli") == 2
