"""Numbers in device memory that are said to be distinct: rows go to places that a table names."""

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.building import tile_kernels as tile
from ge.lowering.building.tile_kernels import Tensor, TileProgram
from ge.lowering.driver.compiler import context
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.runtime.check.tiles import KernelProof, check_kernel, check_kernels

TARGET = Target.load("910b2")


@tile.kernel(distinct=True, each=2, step=2)
def placed(c: Any, x: Any, table: Any, out: Any, distinct: bool, each: int, step: int) -> None:
    """Blocks of `each` rows, `step` rows apart in the result for each number of the table."""
    t = c.ub(each, 64, "f32", copies=2)
    for i in c.share(8):
        c.load(t[i], x[i * each :], pad=0)
        c.store(out[c.read(table[i], below=8, distinct=distinct) * step :], t[i])


def program(**parameters: Any) -> TileProgram:
    x, table = Tensor((16, 64), "f32"), Tensor((8,), "i64")
    return placed.on(x, table, x, cores=4, target="910b2", **parameters)


def proof(**parameters: Any) -> KernelProof:
    return check_kernel(program(**parameters).kernel, TARGET)


def test_proved_for_distinct_numbers() -> None:
    found = proof()
    assert not found.problems
    assert found.summary.endswith(
        ", for the least and the largest of each number that it reads, not for all, "
        "provided that no two elements of %table are the same, that the numbers of %table are in "
        "the ranges that it states"
    )


@pytest.mark.parametrize("wrong", [{"distinct": False}, {"step": 1}])
def test_numbers_that_may_be_equal_are_a_race(wrong: dict[str, Any]) -> None:
    """And so are distinct ones whose rows overlap."""
    assert {p.kind for p in proof(**wrong).problems} >= {"race"}


def test_a_run_refuses_equal_numbers() -> None:
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    table = np.array([3, 1, 0, 2, 7, 5, 4, 6])
    out = np.zeros_like(x)
    program().run(x, table, out)
    assert np.array_equal(out.reshape(8, 2, 64)[table], x.reshape(8, 2, 64))
    table[5] = 4
    with pytest.raises(GeError, match="is 4, as is another element"):
        program().run(x, table, out)


TYPES = ("1x2x32x16xf32", "1x2x5x16xf32", "i64", "8xi64")
TENSORS = [f"tensor<{t}>" for t in TYPES]
MEMREFS = [f'memref<{t}, "hbm">' for t in TYPES]
PAGED = f"""
npu_task.kernel @append on vector {{
^bb0({", ".join(f"%{i}: {t}" for i, t in enumerate(TENSORS))}):
  %4 = graph.append %0, %1 at %2 table %3 axis 2 : ({", ".join(TENSORS)}) -> {TENSORS[0]}
  npu_task.return %4 : {TENSORS[0]}
}}
func.func @main({", ".join(f"%{i}: {t}" for i, t in enumerate(MEMREFS))}) {{
  npu_task.launch @append on 0 ins(%0, %1, %2, %3 : {", ".join(MEMREFS)}) outs(%0 : {MEMREFS[0]})
  func.return
}}
"""


def test_rows_are_appended_to_several_blocks() -> None:
    module = parse_module(context(), SourceText("paged", PAGED))
    LowerKernelsPass("910b2", finish=True).apply(Context(), module)
    (found,) = check_kernels(module, TARGET)
    assert not found.problems
    assert "provided that no two elements of %in3 are the same" in found.summary


def test_places_in_a_slot_that_other_numbers_say_are_refused() -> None:
    """Two rows of a slot may be one where each has a number of its own."""

    def kernel(c: Any, x: Any, table: Any, rows: Any, out: Any) -> None:
        t = c.ub(1, 64)
        for i in c.share(4):
            slot = c.read(table[i // 2], below=2, distinct=True)
            row = (c.read(rows[i], below=8) + i) % 4
            c.load(t, x[i, 0:])
            c.store(out[slot * 4 + row, 0:], t)

    args = [((4, 64), "f32"), ((2,), "i64"), ((4,), "i64"), ((8, 64), "f32")]
    program = tile.kernel(kernel).on(*(Tensor(*a) for a in args), cores=2)
    texts = [problem.message for problem in program.check().problems]
    assert any("two cores store to the same elements" in text for text in texts)
