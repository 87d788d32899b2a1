"""Samples, the table of decisions, and what passes see of samples."""

import sys
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, normal, written

from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.stated import DIMS
from ge.dialects.support.diagnostics import Diagnostic, diagnostic_handler
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.types import DYNAMIC
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import Array
from ge.transforms.quantization.calibrate import CalibratePass, range_of
from ge.transforms.quantization.data import (
    CHUNK,
    Calibration,
    Samples,
    calibrating,
)
from ge.transforms.quantization.layers import activations, layers, numbered
from ge.transforms.quantization.observe import ObservedOp, Observer, exact_sum
from ge.transforms.quantization.sources import Files, samples_of
from ge.transforms.quantization.table import Table, parsed, read_table


def read_samples(paths: Sequence[Path], main: FuncOp) -> Samples:
    return samples_of(Files(paths), main)


def main_of(module: ModuleOp) -> FuncOp:
    main = main_function(module)
    assert main is not None
    return main


def network(batch: int = DYNAMIC) -> ModuleOp:
    """Two layers with a function between them."""

    def formula(x: Expr) -> Expr:
        return (x @ x.lift(normal(4, 6, seed=1))).tanh() @ x.lift(normal(6, 3, seed=2))

    return written(formula, Tensor(batch, 4))


def with_dims(module: ModuleOp, *dims: tuple[str, ...]) -> ModuleOp:
    """Name the dimensions of the inputs."""
    main = main_of(module)
    assert main.arg_attrs is not None
    main.arg_attrs = ArrayAttr(
        type(a)({**a.data, DIMS: ArrayAttr([StringAttr(d) for d in names])})
        for a, names in zip(main.arg_attrs.data, dims, strict=True)
    )
    return module


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def save(name: str = "x.npz", **arrays: Any) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return save


def calibrated(module: ModuleOp, *paths: Path) -> Table:
    calibration = Calibration(samples=read_samples(paths, main_of(module)))
    with calibrating(calibration):
        CalibratePass().apply(context(), module)
    return calibration.table


# ---- samples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["in0", "in:in0"])
def test_samples_by_input_with_and_without_prefix(save: Callable[..., Path], key: str):
    x = normal(40, 4)
    samples = read_samples(
        [save(**{key: x, "label": np.arange(7), "out:y": x})], main_of(network())
    )
    assert samples.count == 40
    assert samples.chunk == CHUNK
    first, last = samples.chunks()
    np.testing.assert_array_equal(first.inputs["in0"], x[:CHUNK])
    assert (first.count, last.first, last.count, last.size) == (32, 32, 8, 32)
    np.testing.assert_array_equal(last.inputs["in0"], x[np.arange(32, 64) % 40])


def test_a_fixed_batch_is_the_chunk(save: Callable[..., Path]):
    samples = read_samples([save(in0=normal(5, 4))], main_of(network(batch=2)))
    assert [c.count for c in samples.chunks()] == [2, 2, 1]
    assert samples.shapes() == {"in0": (2, 4)}


def test_the_batch_is_where_its_name_is(save: Callable[..., Path]):
    module = written(
        lambda x, y, z: x + y.reduce("sum", 0, keep=False) + z,
        Tensor(DYNAMIC, 3), Tensor(2, DYNAMIC, 3), Tensor(3),
    )  # fmt: skip
    main = main_of(with_dims(module, ("N", ""), ("", "N", ""), ("",)))
    samples = read_samples([save(in0=normal(9, 3), in1=normal(2, 9, 3), in2=normal(3))], main)
    assert samples.count == 9
    assert samples.shapes() == {"in0": (9, 3), "in1": (2, 9, 3), "in2": (3,)}


def test_dimensions_that_each_have_a_name_of_their_own_are_one_batch(save: Callable[..., Path]):
    """As some exporters name each one that they do not know; if counts differ, the names hold."""
    open_ = Tensor(DYNAMIC, 3)
    module = written(lambda x, y: x.tanh() + y.reduce("sum", 0), open_, open_)
    main = main_of(with_dims(module, ("unk__1", ""), ("unk__2", "")))
    samples = read_samples([save(in0=normal(5, 3), in1=normal(5, 3))], main)
    assert samples.shapes() == {"in0": (5, 3), "in1": (5, 3)}
    samples = read_samples([save(in0=normal(5, 3), in1=normal(4, 3))], main)
    assert samples.shapes() == {"in0": (5, 3), "in1": (4, 3)}


def test_a_model_without_batch_has_a_sample_in_each_file(save: Callable[..., Path]):
    module = written(lambda x, y: x.tanh() @ y.tanh(), Tensor(2, 3), Tensor(3, 4))
    x, y = normal(2, 2, 3), normal(2, 3, 4)
    paths = [save(f"{i}.npz", in0=x[i], in1=y[i]) for i in (0, 1)]
    samples = read_samples(paths, main_of(module))
    assert samples.shapes() == {"in0": (2, 3), "in1": (3, 4)}
    assert samples.count == 2
    table = calibrated(module, *paths)
    assert table.ranges["graph.tanh"] == pytest.approx((np.tanh(x).min(), np.tanh(x).max()))
    with pytest.raises(GeError, match=r"shape \[4, 3\], not in0: float32\[2, 3\]"):
        read_samples([save("b.npz", in0=normal(4, 3), in1=y[0])], main_of(module))


def test_what_has_no_batch_is_one_for_all_samples(save: Callable[..., Path]):
    module = written(lambda x, y: x + y, Tensor(DYNAMIC, 3), Tensor(3))
    main = main_of(with_dims(module, ("N", ""), ("",)))
    paths = [save(f"{i}.npz", in0=normal(5, 3), in1=normal(3, seed=i)) for i in (0, 1)]
    with pytest.raises(GeError, match="several values of input 'in1'"):
        read_samples(paths, main)


def test_several_files_are_one(save: Callable[..., Path]):
    x = normal(7, 4)
    paths = save("a.npz", in0=x[:3]), save("b.npz", in0=x[3:])
    samples = read_samples(paths, main_of(network()))
    np.testing.assert_array_equal(samples.arrays["in0"], x)


def bad(x: Array, where: tuple[int, ...], value: float) -> Array:
    x = x.copy()
    x[where] = value
    return x


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"in1": normal(3, 4)}, "input 'in0' is missing; expected in0: float32[samples, 4]; there "
         "is 'in1'"),
        ({"in0": normal(3, 4, dtype=np.float64)}, "input 'in0' is float64, not float32"),
        ({"in0": normal(3, 5)}, "input 'in0' has shape [3, 5], not in0: float32[samples, 4]"),
        ({"in0": normal(3)}, "input 'in0' has shape [3], not in0: float32[samples, 4]"),
        ({"in0": normal(0, 4)}, "there are no samples"),
        ({"in0": bad(normal(3, 4), (2, 1), np.nan)}, "sample 2 of input 'in0' has nan at [2, 1]"),
        ({"in0": bad(normal(3, 4), (1, 0), -np.inf)}, "sample 1 of input 'in0' has -inf at [1, 0]"),
    ],
)  # fmt: skip
def test_samples_that_do_not_fit(
    save: Callable[..., Path], arrays: Mapping[str, Array], message: str
):
    path = save(**arrays)
    with pytest.raises(GeError) as error:
        read_samples([path], main_of(network()))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_inputs_with_other_numbers_of_samples(save: Callable[..., Path]):
    module = written(lambda x, y: x + y, Tensor(DYNAMIC, 3), Tensor(DYNAMIC, 3))
    path = save(in0=normal(2, 3), in1=normal(4, 3))
    with pytest.raises(GeError, match="2 samples of input 'in0', but 4 of 'in1'"):
        read_samples([path], main_of(module))


def test_files_with_samples_of_other_shapes(save: Callable[..., Path]):
    module = written(lambda x: x.exp(), Tensor(DYNAMIC, DYNAMIC))
    paths = save("a.npz", in0=normal(2, 3)), save("b.npz", in0=normal(2, 4))
    with pytest.raises(GeError, match=r"samples of 'in0' of several shapes: \[3\] and \[4\]"):
        read_samples(paths, main_of(module))


def test_a_file_that_is_no_npz(tmp_path: Path):
    with pytest.raises(GeError, match="cannot open"):
        read_samples([tmp_path / "none.npz"], main_of(network()))


# ---- ranges ----------------------------------------------------------------------------------


def test_ranges_of_activations(save: Callable[..., Path]):
    module, x = network(), normal(40, 4)
    table = calibrated(module, save(in0=x))
    hidden = np.tanh(x @ normal(4, 6, seed=1))
    assert list(table.ranges) == ["in0", "graph.tanh"]
    assert table.ranges["in0"] == pytest.approx((x.min(), x.max()))
    assert table.ranges["graph.tanh"] == pytest.approx((hidden.min(), hidden.max()))
    (first, second) = layers(main_of(module))
    assert range_of(first.input) == table.ranges["in0"]
    assert range_of(second.input) == table.ranges["graph.tanh"]


def test_ranges_are_the_same_for_any_order_and_batch(save: Callable[..., Path]):
    x = normal(75, 4)
    shuffled = np.random.default_rng(3).permutation(x)
    texts = {
        calibrated(network(), save(in0=x)).text(),
        calibrated(network(), save(in0=shuffled)).text(),
        calibrated(network(), save("a.npz", in0=x[:11]), save("b.npz", in0=x[11:])).text(),
    }
    assert len(texts) == 1


def test_what_the_table_has_is_not_observed(save: Callable[..., Path]):
    module = network()
    table = Table(ranges={"in0": (-9.0, 9.0)})
    samples = read_samples([save(in0=normal(3, 4))], main_of(module))
    with calibrating(Calibration(table, samples)):
        CalibratePass().apply(context(), module)
    assert table.ranges["in0"] == (-9.0, 9.0)
    assert "graph.tanh" in table.ranges


def test_a_value_that_is_not_finite_has_no_range(save: Callable[..., Path]):
    module = written(lambda x: x.log() @ x.lift(normal(4, 4)), Tensor(DYNAMIC, 4))
    x = np.ones((40, 4), np.float32)
    x[35, 2] = 0
    told: list[Diagnostic] = []
    with diagnostic_handler(told.append):
        table = calibrated(module, save(in0=x))
    assert not table.ranges
    assert [d.message for d in told] == [
        "calibrate: 'graph.log' is not finite for sample 35: what it is used in stays float"
    ]


def test_a_pass_reads_samples_itself(save: Callable[..., Path]):
    module = network()
    CalibratePass(str(save(in0=normal(3, 4)))).apply(context(), module)
    assert all(range_of(layer.input) for layer in layers(main_of(module)))


# ---- evaluation ------------------------------------------------------------------------------


def test_values_are_freed_after_their_last_use(save: Callable[..., Path]):
    def formula(x: Expr) -> Expr:
        for _ in range(40):
            x = x.tanh()
        return x @ x.lift(normal(1000, 2))

    main = main_of(written(formula, Tensor(250, 1000)))
    samples = read_samples([save(in0=normal(250, 1000))], main)
    (layer,) = layers(main)
    tracemalloc.start()
    Observer(main).run(samples, {layer.op: lambda step: None})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 250 * 1000 * 4


def test_results_are_computed_in_operands_that_nobody_holds(save: Callable[..., Path]):
    main = main_of(written(lambda x: (x.exp() + 1).tanh() @ x.lift(normal(4, 2)), Tensor(3, 4)))
    samples, steps = read_samples([save(in0=normal(3, 4))], main), list[ObservedOp]()
    exp, add, tanh, product = (op for op in main.body.block.ops if op.operands and op.results)
    Observer(main).run(samples, {add: steps.append, product: steps.append})
    added, multiplied = steps
    np.testing.assert_allclose(added.operands[0] + 1, added.results[0])
    np.testing.assert_allclose(np.tanh(added.results[0]), multiplied.operands[0], rtol=1e-6)
    found = list[Array]()
    Observer(main).run(samples, {exp: lambda s: found.append(s.results[0][:1].copy())})
    Observer(main).run(samples, {tanh: lambda s: found.append(s.operands[0][:1] - 1)})
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


CONTROL = """
func.func @main(%x: tensor<2x2xf32> {graph.name = "x"}) -> tensor<2x2xf32> {
  %n = graph.constant dense<3> : tensor<i64>
  %w = graph.constant dense<2.0> : tensor<2x2xf32>
  %t = graph.constant dense<1> : tensor<i1>
  %0, %s = graph.loop (%i, %go) trip %n : tensor<i64> carry (%c = %x : tensor<2x2xf32>)
      -> (tensor<2x2xf32>, tensor<3x2x2xf32>) {
    %1 = graph.add %c, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    graph.yield %go, %1, %c : tensor<i1>, tensor<2x2xf32>, tensor<2x2xf32>
  }
  %r = graph.reduce sum %s axes [0] keep_dims false : (tensor<3x2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.if %t : (tensor<i1>) -> tensor<2x2xf32> {
    %3 = graph.add %0, %r : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    graph.yield %3 : tensor<2x2xf32>
  } else {
    graph.yield %x : tensor<2x2xf32>
  }
  %4 = graph.matmul %2, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %4 : tensor<2x2xf32>
}
"""


def test_loops_and_branches_run(save: Callable[..., Path]):
    main = main_of(parse_module(context(), SourceText("control.mlir", CONTROL)))
    x = normal(2, 2)
    steps: list[ObservedOp] = []
    (layer,) = layers(main)
    Observer(main).run(read_samples([save(x=x)], main), {layer.op: steps.append})
    np.testing.assert_allclose(steps[0].operands[0], 4 * x + 12, rtol=1e-5)


def test_a_missing_weight_is_told(save: Callable[..., Path]):
    text = """func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %w = graph.constant #graph.weight<"w"> : tensor<2x2xf32>
      %0 = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      func.return %0 : tensor<2x2xf32>
    }"""
    main = main_of(parse_module(context(), SourceText("w.mlir", text)))
    (layer,) = layers(main)
    with pytest.raises(GeError, match="weight 'w' is not in the payload"):
        Observer(main, {}).run(
            read_samples([save(x=normal(2, 2))], main), {layer.op: lambda step: None}
        )


def test_rows_are_those_of_new_samples(save: Callable[..., Path]):
    main = main_of(network(batch=4))
    *_, last = read_samples([save(in0=normal(6, 4))], main).chunks()
    array = np.arange(24).reshape(12, 2)
    rows = last.rows(array)
    assert rows is not None
    np.testing.assert_array_equal(rows, array.reshape(4, 3, 2)[:2])
    assert last.rows(np.zeros((5, 2))) is None


def test_a_sum_in_any_order():
    parts = [normal(3, seed=i) * 10.0 ** (i % 20) for i in range(50)]
    np.testing.assert_array_equal(exact_sum(parts), exact_sum(reversed(parts)))


# ---- layers and names ------------------------------------------------------------------------


def test_names_that_come_again_are_numbered():
    assert [*numbered(["a", "b", "a", "a"])] == ["a", "b", "a#2", "a#3"]


def test_axes_of_weights():
    def formula(x: Expr) -> list[Expr]:
        w = x.lift(normal(5, 4))
        turned = x.op(MatmulOp, x, w, transpose_rhs=True)
        return [turned, x @ x.lift(normal(4, 3)), x.lift(normal(7, 2)) @ x]

    main = main_of(written(formula, Tensor(2, 4)))
    first, second, third = layers(main)
    assert (first.channel_axis, first.input_axis) == (0, 1)
    assert (second.channel_axis, second.input_axis) == (1, 0)
    assert (third.weight, third.channel_axis, third.input_axis) == (0, 0, 1)
    assert list(activations([first, second, third]).values()) == ["in0"]


# ---- the table -------------------------------------------------------------------------------


def test_a_table_is_read_as_it_was_written(tmp_path: Path):
    table = Table("c0ffee", layers={'odd "name"\n\\': "float"})
    table.set_range("/Relu", 0.1, 1 / 3)
    table.set_vector("correct-bias", "fc", np.array([1e-9, -2.5, 3e20], np.float32))
    path = tmp_path / "t.toml"
    path.write_text(table.text(), "utf-8")
    assert read_table(path) == table
    assert np.float32(table.ranges["/Relu"][1]) == np.float32(1 / 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ranges", "this is no calibration table"),
        ("[range]\n", "there is no section 'range'; did you mean 'ranges'?"),
        ("[ranges]\na = 3\n", "'a' has a list of numbers, not 3"),
        ("[ranges]\na = [1.0, nan]\n", "'a' has a list of numbers"),
        ("[ranges]\na = [1.0]\n", "a range is [smallest, largest], not [1.0] for 'a'"),
        ("[ranges]\na = [1.0, 0.5]\n", "a range is [smallest, largest]"),
        (
            "[layers]\na = 'int3'\n",
            "a layer is one of float, int8, int16,",
        ),
        ("ranges = 3\n", "'ranges' is a section, not 3"),
        ("model = 3\n", "'model' is a text, not 3"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, text: str, message: str):
    path = tmp_path / "t.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(GeError) as error:
        read_table(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_table_of_another_model():
    table = parsed('model = "a"\n[ranges]\n"relu#2" = [0.0, 1.0]\n')
    table.check("a", ["relu"], "t.toml")
    with pytest.raises(GeError, match="the table is that of another model"):
        table.check("b", ["relu"], "t.toml")
    with pytest.raises(GeError, match=r"nothing named 'relu#2'; did you mean 'relu1'\?"):
        table.check("a", ["relu1"], "t.toml")
