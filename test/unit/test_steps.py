"""`--validate` of states that grow: modules run step by step, before they have a capacity and
after; planted faults of lengths and of the table of blocks are found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.graph.stated import BLOCK, STEP
from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import PassManager
from ge.runtime.check.proof import check_program
from ge.runtime.device.session import Session, main_of
from ge.runtime.device.trials import KINDS, GrowingTrials, Trials, runner_for
from ge.tools.debugging.validation import Validation
from ge.transforms.state.grow_state import GrowStatePass

DECODER = """
func.func @main(%q: tensor<1x2x1x4xf32> {graph.name = "q"},
                %new: tensor<1x2x1x4xf32> {graph.name = "new"},
                %k: tensor<1x2x?x4xf32> {graph.name = "k", graph.dims = ["", "", "past", ""],
                                         graph.state = "a"},
                %m: tensor<1x?xf32> {graph.name = "m", graph.dims = ["", "past + 1"]})
    -> (tensor<1x2x1x4xf32> {graph.name = "y"}, tensor<1x2x?x4xf32> {graph.name = "a"}) {
  %0 = graph.concat %k, %new axis 2
     : (tensor<1x2x?x4xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x?x4xf32>
  %1 = graph.attention %q, %0, %0 mask %m
     : (tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>,
        tensor<1x?xf32>) -> tensor<1x2x1x4xf32>
  func.return %1, %0 : tensor<1x2x1x4xf32>, tensor<1x2x?x4xf32>
}
"""
PAGED = GrowStatePass("past=8", "paged:2")


def decoder() -> ModuleOp:
    return parse_module(context(), SourceText("decoder.mlir", DECODER))


def validated(output: Path, *passes: ModulePass) -> Validation:
    validation = Validation(runner_for, context(), {}, str(output), seconds=1.0)
    PassManager(passes, [validation]).run(context(), decoder())
    return validation


def a_pass(change: Callable[[ModuleOp], None], base: type[ModulePass] = ModulePass) -> Any:
    """A pass called `wrong`, which makes the change after what its base does."""

    def apply(self: ModulePass, ctx: Context, module: ModuleOp) -> None:
        if base is not ModulePass:
            PAGED.apply(ctx, module)
        change(module)

    return type("APass", (base,), {"name": "wrong", "apply": apply})


def replaced(module: ModuleOp, kind: type[Operation], make: Callable[[Any], Operation]) -> None:
    for op in [op for op in module.walk() if isinstance(op, kind)]:
        new = make(op)
        assert op.parent is not None
        op.parent.insert_op_before(new, op)
        op.results[0].replace_all_uses_with(new.results[0])
        op.detach()
        op.erase()


def appended_in_order(module: ModuleOp) -> None:
    """Rows are written where they would lie without blocks."""
    replaced(module, AppendOp, lambda op: AppendOp.create(
        operands=op.operands[:3], properties=op.properties, result_types=[op.result.type]
    ))  # fmt: skip


def attention(op: AttentionOp, *last: Any) -> Operation:
    params: dict[str, Any] = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"}
    return AttentionOp.of(op.query, op.key, op.value, [*op.masks], None, None, *last, **params)


def read_in_order(module: ModuleOp) -> None:
    replaced(module, AttentionOp, lambda op: attention(op, op.length, None))


def read_whole(module: ModuleOp) -> None:
    replaced(module, AttentionOp, lambda op: attention(op, None, None))


def counted(name: str, number: int) -> Callable[[ModuleOp], None]:
    """Another number in an attribute of arguments."""

    def change(module: ModuleOp) -> None:
        main = main_of(module)
        assert main.arg_attrs is not None
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({**t.data, name: IntegerAttr(number, i64)}) if name in t.data else t
            for t in main.arg_attrs
        )

    return change


def test_steps_are_compared_from_before_the_capacity_on(tmp_path: Path) -> None:
    for layout, rows in (("contiguous", [0, 5, 0, 5]), ("paged:2", [0, 1, 5, 0])):
        validation = validated(tmp_path / "t.mlir", GrowStatePass("past=8", layout))
        assert isinstance(runner := validation.runner, GrowingTrials)
        assert validation.passes == 1
        assert [t.kind for t in runner.trials] == [*KINDS]
        assert [t.rows for t in runner.trials] == rows
        names = {"y of run 0", "y of run 1", "y of run 2", "state k"}
        assert all(not isinstance(o, GeError) and o.keys() == names for o in runner.first)
    assert isinstance(runner_for(decoder(), {}), Trials)


@pytest.mark.parametrize(
    "change", [appended_in_order, read_in_order, read_whole, counted(STEP, 2), counted(BLOCK, 4)]
)
def test_planted_faults_are_found(change: Callable[[ModuleOp], None], tmp_path: Path) -> None:
    """After the pass that gives states a capacity, and in it."""
    for passes in ((PAGED, a_pass(change)()), (a_pass(change, GrowStatePass)("past=8"),)):
        with pytest.raises(GeError) as error:
            validated(tmp_path / "t.mlir", *passes)
        assert "'wrong' " in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (appended_in_order, "no table comes with state 'k'"),
        (read_in_order, "no table comes with state 'k'"),
        (counted(STEP, 2), "1 rows, not 2, are appended to state 'k'"),
        (counted(BLOCK, 4), "a table of 16 rows, for 8 of state 'k'"),
    ],
)
def test_planted_faults_of_programs_are_found(
    change: Callable[[ModuleOp], None], message: str
) -> None:
    """Faults of the graph go through the compiler as they are."""
    for planted in (False, True):
        module = decoder()
        PAGED.apply(context(), module)
        if planted:
            change(module)
        lower(module, Options())
        messages = "\n".join(p.message for p in check_program(module).problems)
        assert message in messages if planted else not messages


def test_a_table_is_of_all_rows() -> None:
    module = decoder()
    PAGED.apply(context(), module)
    counted(BLOCK, 4)(module)
    with pytest.raises(GeError, match="4 blocks of 4 rows are not the 8 of state 'k'"):
        Session(module)
