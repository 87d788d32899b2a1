"""Loops, Scan, and values of which not even the rank is known, from ONNX models."""

import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.ir import Operation

from ge.dialects.support.errors import GeError
from ge.lowering.driver.binding import Binder
from ge.lowering.driver.cache import compile_model
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import FUSION_MODES
from ge.runtime.device.session import Session

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import random_loops

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

UNRANKED = {
    "reshape": """g (float[2,3] x, int64[k] s) => (float[] y, float[2,3] z) {
        t = Exp(x)
        u = Relu(t)
        z = Neg(u)
        y = Reshape(u, s)
    }""",
    "gather_nd": """g (float[a,b] x, int64[n,k] i) => (float[] y, float[a,b] z) {
        t = Relu(x)
        y = GatherND(t, i)
        z = Exp(t)
    }""",
}


@pytest.mark.parametrize("seed", range(24))
def test_loops(seed: int) -> None:
    _, error = random_loops.check(seed)
    assert error is None, error


@pytest.mark.parametrize("mode", FUSION_MODES)
@pytest.mark.parametrize("memory", [1, 3])
@pytest.mark.parametrize("kind", UNRANKED)
def test_values_without_rank_are_refused(kind: str, memory: int, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + UNRANKED[kind]), path)
    message = f"dimensions of the result of graph.{kind} is not known"
    with pytest.raises(GeError, match=message) as e:
        compile_model(str(path), fusion=mode, memory=memory)
    assert e.value.where == 'loc("y")'


LOOP = """g (float[2,3] x, int64 n, int64[k] s) => (float[p,q] y) {
    y = Loop(n, , x) <body = body (int64 i, bool go, float[p,q] v) => (bool g2, float[p,q] t) {
        g2 = Identity(go)
        t = Reshape(v, s)
    }>
}"""


def test_the_rank_that_a_loop_declares(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + LOOP), path)
    program = compile_model(str(path))
    session = Session(program.module, program.payload)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = {"x": x, "n": np.array(2)}
    y = session.run({**inputs, "s": np.array([6, 1])})["y"]
    np.testing.assert_array_equal(y, x.reshape(6, 1))
    with pytest.raises(GeError, match=r"gives tensor<6xf32> where tensor<\?x\?xf32> is declared"):
        session.run({**inputs, "s": np.array([6])})
    y = session.run({**inputs, "n": np.array(0), "s": np.array([6])})["y"]
    np.testing.assert_array_equal(y, x)


IF = """g (float[2,3] x, bool c, int64[k] s) => (float[p,q] y) {
    y = If(c) <
        then_branch = a () => (float[p,q] t) { t = Reshape(x, s) },
        else_branch = b () => (float[p,q] e) { e = Relu(x) }
    >
}"""


@pytest.mark.parametrize("text", [IF, LOOP])
def test_sizes_that_give_one_value_two_ranks_stay_open(text: str, tmp_path: Path) -> None:
    """The branch may not be taken, and the loop may have no round."""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    program = compile_model(str(path))
    binder = Binder(program, program.compilation.options)
    assert binder.at({"k": 2}) is not program
    assert all(binder.at({"k": size}) is program for size in (1, 3))


def test_a_body_that_is_imported_again_leaves_no_uses_behind() -> None:
    text = """g (float[a,b] x, float[1,1] s0, int64 n) => (float[p,q] y) {
        k = Constant<value_float = 2.0>()
        y = Loop(n, , s0) <body = body (int64 i, bool go, float[p,q] s) => (bool g2, float[p,q] t) {
            g2 = Identity(go)
            u = Mul(s, k)
            t = Add(u, x)
        }>
    }"""
    module = import_model(onnx.parser.parse_model(HEAD + text)).module
    values = [v for op in module.walk() for v in op.results]
    users = {use.operation for v in values for use in v.uses}
    assert users
    assert all(top(user) is module for user in users)


def top(op: Operation) -> Operation:
    while (parent := op.parent_op()) is not None:
        op = parent
    return op


def test_unknown_sizes_are_shown_as_such() -> None:
    text = """g (float[1,2,h,w] x, float[2,3,k,l] f) => (float[1,3,p,q] y) {
        y = ConvTranspose<strides = [2, 2], output_shape = [3, 3]>(x, f)
    }"""
    for fixed in ({}, {"h": 4, "w": 4}, {"h": 4, "w": 4, "k": 2}):
        with pytest.raises(GeError) as e:
            import_model(onnx.parser.parse_model(HEAD + text), dims=fixed)
        assert not re.search(r"\d{6}", e.value.message)
