"""Random ops: the generator against published vectors and numpy's, the distributions, and the same
numbers at every level, in every schedule and for every way in which shapes are known."""

from collections.abc import Mapping, Sequence
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto
from onnx.parser import parse_model
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import ge
from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import context, lower
from ge.lowering.onnx.importer import import_model
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session
from ge.runtime.numbers.random import MASK, drawn, halves, philox, words

# ---- the generator


def philox_by_the_paper(
    counter: Sequence[int], key: Sequence[int], factors: Sequence[int], steps: Sequence[int], w: int
) -> list[int]:
    """Philox 4 x w, 10 rounds, with Python's integers."""
    mask = (1 << w) - 1
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        low, high = a * factors[0], c * factors[1]
        a, b, c, d = (high >> w) ^ b ^ k, high & mask, (low >> w) ^ d ^ m, low & mask
        k, m = (k + steps[0]) & mask, (m + steps[1]) & mask
    return [a, b, c, d]


OF_32 = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 32
OF_64 = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B), 64

# Of Random123's kat_vectors: counter, key, result
KNOWN = [
    ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_published_vectors(counter: str, key: str, result: str) -> None:
    c, k, want = ([int(word, 16) for word in text.split()] for text in (counter, key, result))
    assert philox_by_the_paper(c, k, *OF_32) == want
    assert philox(np.array(c, np.uint64)[:, None], (k[0], k[1]))[:, 0].tolist() == want


word = st.integers(0, MASK)


@given(st.lists(word, min_size=4, max_size=4), word, word)
def test_arrays_of_counters_are_as_the_paper_has_it(counter: list[int], k: int, m: int) -> None:
    got = philox(np.array([counter, counter[::-1]], np.uint64).T, (k, m))
    assert got[:, 0].tolist() == philox_by_the_paper(counter, (k, m), *OF_32)
    assert got[:, 1].tolist() == philox_by_the_paper(counter[::-1], (k, m), *OF_32)


def test_numpys_generator_is_the_same_one_of_64_bits() -> None:
    """It counts up before it draws."""
    key = [0x0123456789ABCDEF, 0xFEDCBA9876543210]
    numbers = np.random.Philox(key=np.array(key, np.uint64)).random_raw(8).tolist()
    for i in (1, 2):
        assert philox_by_the_paper([i, 0, 0, 0], key, *OF_64) == numbers[4 * i - 4 : 4 * i]


@given(st.integers(0, 1 << 40), st.integers(1, 9), st.integers(0, 8))
def test_a_part_of_a_stream_is_that_part(first: int, count: int, skip: int) -> None:
    key, skip = (1, 2), min(skip, count - 1)
    whole = words(key, first, count)
    assert np.array_equal(words(key, first + skip, count - skip), whole[:, skip:])
    assert whole[:, 0].tolist() == philox_by_the_paper([*halves(first), 0, 0], key, *OF_32)


@given(st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_a_longer_tensor_begins_with_the_shorter_one(a: int, b: int, wide: bool) -> None:
    def pair(u: Array, v: Array) -> Array:
        return np.stack([u, v])

    short, long = (drawn((3, 4), n, wide, pair) for n in sorted((a, b)))
    assert np.array_equal(short, long[: len(short)])


# ---- modules


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


DRAWS = """
func.func @main(%seed: tensor<2xi64> {graph.name = "seed", graph.seed})
    -> (tensor<250x400xELEMENT> {graph.name = "y"}) {
  %0 = graph.OP ELEMENT, %seed SOURCE shape [250, 400] PARAMS : (tensor<2xi64>)
       -> tensor<250x400xELEMENT>
  func.return %0 : tensor<250x400xELEMENT>
}
"""


def numbers(
    op: str, element: str = "f32", source: str = "stream 1", params: str = "", runs: int = 1,
    seed: int = 0,
) -> list[Array]:  # fmt: skip
    text = DRAWS.replace("ELEMENT", element).replace("OP", op)
    text = text.replace("SOURCE", source).replace("PARAMS", params)
    session = Session(parse(text), seed=seed)
    return [session.run({})["y"] for _ in range(runs)]


def distance(sample: Array, cdf: Any) -> float:
    """Of Kolmogorov and Smirnov."""
    x = np.sort(sample.astype(np.float64).reshape(-1))
    steps = np.arange(len(x) + 1) / len(x)
    values = np.array([cdf(v) for v in x])
    return float(max(np.max(steps[1:] - values), np.max(values - steps[:-1])))


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_uniform(element: str) -> None:
    (y,) = numbers("random_uniform", element, params="low -1.0 high 3.0")
    limit = 1.95 / sqrt(y.size)  # exceeded once in a thousand
    rounding = {"f16": 2**-11, "bf16": 2**-8}.get(element, 0.0)
    assert distance(y[:100], lambda v: (v + 1) / 4) < 1.95 / sqrt(40000) + rounding
    assert y.min() >= -1
    assert y.max() <= 3 if rounding else y.max() < 3
    left, right = (part.reshape(-1).astype(float) for part in (y[:, :-1], y[:, 1:]))
    assert abs(np.corrcoef(left, right)[0, 1]) < 2 * limit


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_normal(element: str) -> None:
    (y,) = numbers("random_normal", element, params="mean 2.0 scale 0.5")
    z = (y[:100] - 2) / 0.5
    assert distance(z, lambda v: (1 + erf(v / sqrt(2))) / 2) < 1.95 / sqrt(40000)
    assert 4 < np.abs((y - 2) / 0.5).max() < 6


def test_streams_seeds_and_runs_differ() -> None:
    first, second = numbers("random_uniform", runs=2)
    others = [
        second,
        *numbers("random_uniform", source="stream 2"),
        *numbers("random_uniform", source="own 1"),
        *numbers("random_uniform", seed=1),
        *numbers("random_uniform", seed=-1),
    ]
    for i, a in enumerate([first, *others]):
        for b in others[i:]:
            assert abs(np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1]) < 0.012
    assert np.array_equal(first, numbers("random_uniform")[0])


def test_a_seed_of_its_own_is_that_of_no_session() -> None:
    a, b = (numbers("random_normal", source="own 7", runs=2, seed=s) for s in (0, 5))
    assert np.array_equal(a, b)
    assert not np.array_equal(a[0], a[1])


def test_no_elements() -> None:
    text = DRAWS.replace("ELEMENT", "f32").replace("OP", "random_normal").replace("PARAMS", "")
    text = text.replace("SOURCE", "stream 0").replace("[250, 400]", "[250, 0]")
    (y,) = Session(parse(text.replace("250x400", "250x0"))).run({}).values()
    assert y.shape == (250, 0)


def test_a_run_again() -> None:
    text = DRAWS.replace("ELEMENT", "f32").replace("OP", "random_normal")
    session = Session(parse(text.replace("SOURCE", "stream 3").replace("PARAMS", "")), seed=9)
    runs = [session.run({})["y"] for _ in range(3)]
    session.seed.run = 1
    assert np.array_equal(session.run({})["y"], runs[1])
    assert np.array_equal(session.run({})["y"], runs[2])


@pytest.mark.parametrize("seed", [1.5, "1", True, 1 << 63])
def test_seeds_that_are_none(seed: Any) -> None:
    text = DRAWS.replace("ELEMENT", "f32").replace("OP", "random_normal").replace("PARAMS", "")
    with pytest.raises(GeError, match="the seed is an integer of 64 bits, not"):
        Session(parse(text.replace("SOURCE", "stream 3")), seed=seed)


def test_an_argument_that_is_no_seed() -> None:
    text = "func.func @main(%x: tensor<2xf32> {graph.seed}) -> tensor<2xf32> {\n"
    text += "  func.return %x : tensor<2xf32>\n}"
    with pytest.raises(GeError, match=r"'arg0: float32\[2\]' is marked as the seed"):
        Session(parse(text))


# ---- models


def model(body: str, inputs: str, outputs: str, opset: int = 15) -> ModelProto:
    header = f'<ir_version: 8, opset_import: ["": {opset}]>'
    return parse_model(f"{header} g ({inputs}) => ({outputs}) {{ {body} }}")


ALL = model(
    """
    a = RandomNormal<shape = [3, 50], mean = 1.0, scale = 2.0>()
    b = RandomUniform<shape = [2, 9], dtype = 10, seed = 3.0>()
    r = RandomUniformLike<low = -1.0, high = 3.0>(x)
    z = RandomNormalLike<dtype = 11>(x)
    y = Add(x, r)
    c = Multinomial<sample_size = 7, dtype = 7>(x)
    ratio = Constant<value_float = 0.3>()
    training = Constant<value = bool {1}>()
    d, mask = Dropout(x, ratio, training)
    p = Sigmoid(x)
    e = Bernoulli<dtype = 6>(p)
    """,
    "float[n, 5] x",
    "float[n, 5] y, float[3, 50] a, float16[2, 9] b, double[n, 5] z, int64[n, 7] c, "
    "float[n, 5] d, bool[n, 5] mask, int32[n, 5] e",
)


def outputs(
    proto: ModelProto, inputs: Mapping[str, Array], level: str = "graph", runs: int = 2,
    tiles: str = "", target: str = "910_merged", **fixed: Any,
) -> list[dict[str, Array]]:  # fmt: skip
    imported = import_model(proto, **fixed)
    if level == "program":
        lower(imported.module, Options(target=target, tiles=bool(tiles)))
    session = Session(imported.module, imported.payload, target, seed=5, tiles=tiles)
    if level == "program":
        session.fuzz_schedule(inputs, 2)
    return [session.run(inputs) for _ in range(runs)]


def assert_same(a: Sequence[Mapping[str, Array]], b: Sequence[Mapping[str, Array]]) -> None:
    for first, second in zip(a, b, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], name)


X = {"x": np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)}


def test_every_level_and_schedule_has_the_same_numbers() -> None:
    graph = outputs(ALL, X)
    assert not np.array_equal(graph[0]["a"], graph[1]["a"])
    assert_same(graph, outputs(ALL, X, "program"))
    assert_same(graph, outputs(ALL, X, shapes={"x": (4, 5)}))
    assert_same(graph, outputs(ALL, X, "program", shapes={"x": (4, 5)}))


def test_tile_programs_have_the_same_numbers() -> None:
    graph = outputs(ALL, X)
    on_tiles = outputs(ALL, X, "program", tiles="all", target="910b2", shapes={"x": (4, 5)})
    for name in ("a", "b", "c", "mask", "e"):  # others are sums and products of floats
        np.testing.assert_array_equal(graph[0][name], on_tiles[0][name], name)


def test_what_models_draw() -> None:
    (got,) = outputs(ALL, X, runs=1)
    assert {name: str(a.dtype) for name, a in got.items()} == {
        "y": "float32", "a": "float32", "b": "float16", "z": "float64", "c": "int64",
        "d": "float32", "mask": "bool", "e": "int32",
    }  # fmt: skip
    drawn = got["y"] - X["x"]
    assert -1 <= drawn.min() < drawn.max() < 3
    kept = np.where(got["mask"], X["x"] * np.float32(1 / np.float32(0.7)), 0)
    np.testing.assert_allclose(got["d"], kept, rtol=1e-6)
    assert set(np.unique(got["e"])) <= {0, 1}


@pytest.mark.usefixtures("at_once")
def test_many_runs_and_the_runs_of_a_stream_are_the_same() -> None:
    imported = import_model(ALL, shapes={"x": (4, 5)})
    lower(imported.module, Options())
    sessions = [Session(imported.module, imported.payload, seed=5) for _ in range(2)]
    batches = [{"x": X["x"] + i} for i in range(4)]
    assert_same([sessions[0].run(b) for b in batches], list(sessions[1].run_many(batches)))


def test_another_node_changes_no_numbers() -> None:
    """Streams are chosen by name."""
    alone = model("a = RandomNormal<shape = [9]>()", "", "float[9] a")
    both = model("b = RandomNormal<shape = [9]>() a = RandomNormal<shape = [9]>()", "",
                 "float[9] a, float[9] b")  # fmt: skip
    (first,), (second,) = outputs(alone, {}, runs=1), outputs(both, {}, runs=1)
    assert np.array_equal(first["a"], second["a"])
    assert not np.array_equal(second["a"], second["b"])


def test_two_nodes_of_one_seed_draw_the_same() -> None:
    text = "a = RandomNormal<shape = [9], seed = 4.0>() b = RandomNormal<shape = [9], seed = 4.0>()"
    (got,) = outputs(model(text, "", "float[9] a, float[9] b"), {}, runs=1)
    assert np.array_equal(got["a"], got["b"])


LOOP = """
    trips = Constant<value = int64 {4}>()
    go = Constant<value = bool {1}>()
    start = Constant<value = float[3] {0, 0, 0}>()
    last, y = Loop(trips, go, start)<body = inner (int64 i, bool c, float[3] s) =>
        (bool c2, float[3] s2, float[3] row) {
        c2 = Identity(c)
        row = RandomUniform<shape = [3] SEED>()
        s2 = Add(s, row)
    }>
"""


@pytest.mark.parametrize("seed", ["", ", seed = 2.0"])
def test_each_round_of_a_loop_draws_others(seed: str) -> None:
    proto = model(LOOP.replace("SEED", seed), "", "float[3] last, float[4, 3] y")
    runs = outputs(proto, {})
    rows = np.concatenate([got["y"] for got in runs])
    assert len({row.tobytes() for row in rows}) == 8
    np.testing.assert_allclose(runs[0]["last"], runs[0]["y"].sum(0), rtol=1e-6)
    assert_same(runs, outputs(proto, {}, "program"))


def test_a_function_in_a_loop_draws_others_in_each_round() -> None:
    """Bernoulli's name for what it draws is that of the node."""
    text = LOOP.replace("RandomUniform<shape = [3] SEED>()", "Bernoulli(p)")
    text = "p = Constant<value = float[3] {0.5, 0.5, 0.5}>()" + text
    proto = model(text, "", "float[3] last, float[4, 3] y")
    (got,) = outputs(proto, {}, runs=1)
    assert len({row.tobytes() for row in got["y"]}) > 1
    assert_same([got], outputs(proto, {}, "program", runs=1))


def test_branches_draw_from_their_own_streams() -> None:
    text = """
        y = If(c)<then_branch = a () => (float[5] t) { t = RandomNormal<shape = [5]>() },
                  else_branch = b () => (float[5] e) { e = RandomNormal<shape = [5]>() }>
    """
    proto = model(text, "bool c", "float[5] y")
    (yes,), (no,) = (outputs(proto, {"c": np.array(c)}, runs=1) for c in (True, False))
    assert not np.array_equal(yes["y"], no["y"])
    assert_same([yes], outputs(proto, {"c": np.array(True)}, "program", runs=1))


def test_an_input_may_be_called_seed() -> None:
    proto = model("r = RandomNormalLike(seed) y = Add(seed, r)", "float[2] seed", "float[2] y")
    imported = import_model(proto)
    session = Session(imported.module, imported.payload)
    assert session.input_names == ["seed"]
    assert session.run({"seed": np.zeros(2, np.float32)})["y"].any()


def test_gears_draw_the_numbers_of_the_shape_at_hand() -> None:
    proto = model("r = RandomNormalLike(x) y = Add(x, r)", "float[n, 3] x", "float[n, 3] y")
    imported = import_model(proto)
    lower(imported.module, Options(dynamic_dims="2;4"))
    session = Session(imported.module, imported.payload, seed=5)
    for rows in (2, 4):
        x = {"x": np.ones((rows, 3), np.float32)}
        session.seed.run = 0
        assert_same(outputs(proto, x, runs=1), [session.run(x)])


# ---- what is asked of ops


def frequencies(proto: ModelProto, inputs: Mapping[str, Array], count: int) -> Array:
    (got,) = outputs(proto, inputs, runs=1)
    return np.bincount(got["y"].reshape(-1), minlength=count) / got["y"].size


def test_multinomial_draws_classes_by_their_probabilities() -> None:
    proto = model("y = Multinomial<sample_size = 20000>(x)", "float[1, 5] x", "int32[1, 20000] y")
    probabilities = np.array([[0.5, 0.0, 0.25, 0.2, 0.05]])
    with np.errstate(divide="ignore"):
        x = (np.log(probabilities) + 7).astype(np.float32)
    found = frequencies(proto, {"x": x}, 5)
    assert found[1] == 0
    np.testing.assert_allclose(found, probabilities[0], atol=0.012)


def test_multinomial_never_draws_what_is_impossible() -> None:
    x = np.full((1, 4), -np.inf, np.float32)
    x[0, 1] = 0
    proto = model("y = Multinomial<sample_size = 100>(x)", "float[1, 4] x", "int32[1, 100] y")
    assert frequencies(proto, {"x": x}, 4).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bernoulli(dtype: type[np.floating]) -> None:
    name = {np.float32: "float", np.float64: "double"}[dtype]
    proto = model("y = Bernoulli(x)", f"{name}[3, 10000] x", f"{name}[3, 10000] y")
    x = np.repeat(np.array([[0], [0.3], [1]], dtype), 10000, 1)
    (got,) = outputs(proto, {"x": x}, runs=1)
    assert got["y"].dtype == dtype
    mean = got["y"].mean(1)
    assert mean[0] == 0
    assert mean[2] == 1
    assert abs(mean[1] - 0.3) < 0.015


DROPOUT = "y, mask = Dropout(x, ratio, training)"


@pytest.mark.parametrize("training", [True, False])
def test_dropout_whose_mode_is_known_when_it_runs(training: bool) -> None:
    proto = model(DROPOUT, "float[40, 50] x, float ratio, bool training",
                  "float[40, 50] y, bool[40, 50] mask")  # fmt: skip
    x = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    inputs = {"x": x, "ratio": np.array(0.25, np.float32), "training": np.array(training)}
    (got,) = outputs(proto, inputs, runs=1)
    if not training:
        assert got["mask"].all()
        assert np.array_equal(got["y"], x)
        return
    assert abs(got["mask"].mean() - 0.75) < 0.05
    np.testing.assert_allclose(got["y"], np.where(got["mask"], x / 0.75, 0), rtol=1e-6)


def test_dropout_of_a_ratio_that_leaves_nothing() -> None:
    text = "ratio = Constant<value_float = 1.0>() training = Constant<value = bool {1}>()" + DROPOUT
    with pytest.raises(GeError, match=r"a ratio of 1.0 is not in 0 to 1, 1 excluded"):
        import_model(model(text, "float[2] x", "float[2] y, bool[2] mask"))


def test_random_integers_are_refused_with_all_else() -> None:
    text = "a = RandomNormalLike(x) b = RandomUniform<shape = [2], dtype = 7>()"
    with pytest.raises(GeError) as caught:
        import_model(model(text, "int64[2] x", "int64[2] a, int64[2] b"))
    assert caught.value.message.splitlines() == [
        "2 nodes cannot be imported:",
        "  RandomNormalLike: random numbers are floats, not i64: 'a'",
        "  RandomUniform: random numbers are floats, not i64: 'b'",
    ]


def test_the_model_is_not_changed() -> None:
    before = ALL.SerializeToString()
    import_model(ALL)
    assert ALL.SerializeToString() == before
    assert onnx.checker.check_model(ALL) is None


@pytest.mark.parametrize("options", [{"precision": "fp16"}, {"quantize": "int8"}])
def test_the_seed_is_none_of_the_samples(
    options: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a calibration, nor of the random inputs that take its place."""
    proto = model("r = RandomNormalLike(x) z = Add(x, r) y = MatMul(z, w)", "float[n, 32] x",
                  "float[n, 32] y")  # fmt: skip
    weight = np.random.default_rng(2).standard_normal((32, 32)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "m.onnx")
    if "quantize" in options:
        x = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32)
        np.savez(tmp_path / "x.npz", x=x)
        options = {**options, "calibration": str(tmp_path / "x.npz")}
    program = ge.compile(str(tmp_path / "m.onnx"), dims={"n": 4}, **options)
    assert "random inputs" not in capsys.readouterr().err
    x = {"x": np.ones((4, 32), np.float32)}
    (want,), got = outputs(proto, x, runs=1), program.session(seed=5).run(x)
    scale = np.abs(want["y"]).max()
    assert 0 < np.abs(got["y"] - want["y"]).max() < 0.05 * scale
