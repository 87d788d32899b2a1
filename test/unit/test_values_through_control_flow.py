"""Sequences and optionals that pass branches and loops which are decided at run time; numbers of
onnxruntime."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ge
from ge.runtime.data.arrays import Array

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def saved(text: str, folder: Path) -> str:
    onnx.save(onnx.parser.parse_model(HEAD + text), folder / "m.onnx")
    return str(folder / "m.onnx")


def check(text: str, folder: Path, **fed: Array | np.generic) -> None:
    path = saved(text, folder)
    got = ge.compile(path).session().run({k: np.asarray(v) for k, v in fed.items()})
    want = onnxruntime.InferenceSession(path).run(None, {k: np.asarray(v) for k, v in fed.items()})
    for a, b in zip(got.values(), want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5)


# ---- sequences in loops of unknown length ------------------------------------------------------

LOOP = """g (int64 n, float[N, 3] x) => (float[] y)
    <int64 zero = {0}, int64 one = {1}, int64 m = {-1}> {
  first = START
  q = Loop (n, "", first) <body: graph = body (int64 i, bool c, seq(float[]) s)
      => (bool co, seq(float[]) so) {
    co = Identity (c)
    f = Cast <to = 1> (i)
    t = Mul (x, f)
    BODY
  }>
  END
}"""

APPEND = "so = SequenceInsert (s, t)"
EMPTY = "SequenceEmpty <dtype = 1> ()"
ENDS = {
    "joined": "y = ConcatFromSequence <axis = 0> (q)",
    "joined across": "y = ConcatFromSequence <axis = 1> (q)",
    "stacked": "y = ConcatFromSequence <axis = -1, new_axis = 1> (q)",
    "one": "y = SequenceAt (q, m)",
    "counted": "k = SequenceLength (q)\n y = Cast <to = 1> (k)",
}
BODIES = {
    "once": APPEND,
    "twice": "s1 = SequenceInsert (s, t)\n so = SequenceInsert (s1, x)",
    "in branches": """k = Less (i, one)
      so = If (k) <then_branch = a () => (seq(float[]) p) { p = SequenceInsert (s, t) },
                   else_branch = b () => (seq(float[]) r) { r = SequenceInsert (s, x) }>""",
}


def loop(start: str = EMPTY, body: str = APPEND, end: str = ENDS["joined"]) -> str:
    return LOOP.replace("START", start).replace("BODY", body).replace("END", end)


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
@pytest.mark.parametrize("start", [EMPTY, "SequenceConstruct (x, x)"], ids=["empty", "two"])
def test_what_rounds_append_is_a_scan_result(start: str, end: str, tmp_path: Path) -> None:
    check(loop(start, end=end), tmp_path, n=np.int64(3), x=X)


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize("rounds", [1, 4])
def test_several_tensors_a_round(body: str, rounds: int, tmp_path: Path) -> None:
    check(loop(body=body), tmp_path, n=np.int64(rounds), x=X)


def test_no_round_leaves_what_was_there(tmp_path: Path) -> None:
    check(loop("SequenceConstruct (x, x)"), tmp_path, n=np.int64(0), x=X)


def test_a_queue_of_one_length_is_carried(tmp_path: Path) -> None:
    body = """a = SequenceAt (s, zero)
      b = SequenceAt (s, one)
      r = Add (a, b)
      so = SequenceConstruct (b, r)"""
    check(loop("SequenceConstruct (x, x)", body), tmp_path, n=np.int64(5), x=X)


@pytest.mark.parametrize(
    "body",
    ["so = SequenceInsert (s, t, zero)", "so = SequenceErase (s)", "so = SequenceConstruct (t, t)"],
)
def test_other_changes_of_length_are_refused(body: str, tmp_path: Path) -> None:
    with pytest.raises(ge.GeError, match=r"the loop can append to its end, and nothing else"):
        ge.compile(saved(loop("SequenceConstruct (x)", body), tmp_path))


def test_known_rounds_do_what_a_loop_cannot(tmp_path: Path) -> None:
    text = loop(body="so = SequenceInsert (s, t, zero)").replace("int64 n, ", "")
    check(text.replace("int64 one", "int64 n = {3}, int64 one"), tmp_path, x=X)


# ---- branches ----------------------------------------------------------------------------------

OPTIONAL = """g (bool c, float[N, 3] x) => (float[] y) {
  o = If (c) <then_branch = t () => (optional(float[]) p) { p = Optional (x) },
              else_branch = f () => (optional(float[]) r) { r = Optional <type = float[]> () }>
  k = OptionalHasElement (o)
  y = If (k) <then_branch = t2 () => (float[] a) { a = OptionalGetElement (o) },
              else_branch = f2 () => (float[] b) { b = Neg (x) }>
}"""
UNGUARDED = OPTIONAL[: OPTIONAL.index("  k = ")] + "  y = OptionalGetElement (o)\n}"


@pytest.mark.parametrize("there", [True, False])
def test_an_optional_comes_out_of_a_branch(there: bool, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(OPTIONAL, tmp_path, c=np.bool_(there), x=X)


def test_an_empty_optional_has_no_element(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="a run ends in an error if the optional of 'y' is empty"):
        session = ge.compile(saved(UNGUARDED, tmp_path)).session()
    np.testing.assert_array_equal(session.run({"c": np.bool_(True), "x": X})["y"], X)
    with pytest.raises(ge.GeError, match="the optional of 'y' is empty"):
        session.run({"c": np.bool_(False), "x": X})


def test_branches_of_other_forms_are_named(tmp_path: Path) -> None:
    text = """g (bool c, float[2, 3] x) => (float[] y) {
      s = If (c) <then_branch = t () => (seq(float[]) p) { p = SequenceConstruct (x, x) },
                  else_branch = f () => (seq(float[]) r) { r = SequenceConstruct (x, x, x) }>
      y = ConcatFromSequence <axis = 0> (s)
    }"""
    with pytest.raises(ge.GeError, match="a sequence of 2 tensors or a sequence of 3 tensors"):
        ge.compile(saved(text, tmp_path))
