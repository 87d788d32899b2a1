"""Tile programs of states with a capacity: appending, and attention of the rows that there are."""

from pathlib import Path

import numpy as np
import pytest

from ge.dialects.graph.attention import AppendOp, AttentionOp
from ge.dialects.npu_task.ops import KernelOp
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.tiles import check_kernels
from ge.runtime.device.session import Session

MODEL = Path(__file__).parents[1] / "models" / "gpt2_decode.dynamic.onnx"
FIRST, STEPS = 15, 2  # rows that there are; more than a block of 16 in the end


@pytest.mark.parametrize("layout", [pytest.param("contiguous", marks=pytest.mark.soak), "paged:16"])
def test_states_grow_on_tiles(layout: str) -> None:
    """What lies behind the rows is garbage."""
    program = load(str(MODEL), dims={"batch": 1})
    options = Options(
        target="910b2",
        tiles=True,
        tile_cache="off",  # else texts are written and read again
        state=(r"past_key_values\.(.*)=present.\1",),
        state_capacity="past=48",
        state_layout=layout,
    )
    lower(program.module, options)
    for kernel in program.module.ops:
        if isinstance(kernel, KernelOp):
            kinds = {type(op) for op in kernel.walk()}
            assert kernel.tiles is not None or not kinds & {AppendOp, AttentionOp}
    assert not any(proof.problems for proof in check_kernels(program.module))
    plain = Session(program.module, program.payload, poison=True)
    tiled = Session(program.module, program.payload, poison=True, tiles="all")
    rng = np.random.default_rng(0)
    rows = {n: rng.standard_normal((1, 4, FIRST, 16), np.float32) for n in plain.state.names}
    for session in (plain, tiled):
        session.state.write(rows)
    for step in range(FIRST, FIRST + STEPS):
        inputs = {
            "input_ids": rng.integers(0, 400, (1, 1)),
            "attention_mask": np.ones((1, step + 1), np.int64),
            "position_ids": np.full((1, 1), step),
        }
        want, got = (session.run(inputs)["logits"] for session in (plain, tiled))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    for name in plain.state.names:
        np.testing.assert_allclose(tiled.state[name], plain.state[name], rtol=1e-4, atol=1e-4)
