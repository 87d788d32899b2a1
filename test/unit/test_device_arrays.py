"""Inputs and outputs that stay on the device: same numbers, no copies, bad arrays refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge.dialects.npu_task.ops import CopyOp
from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.runtime.device.binding import DeviceArray
from ge.runtime.device.profiler import Profiler, timeline_of
from ge.runtime.device.session import Session

# An output of its own, an input that is an output too, a part of a joined output, a constant
TEXT = """
func.func @main(%x: tensor<2x8xf32> {graph.name = "x"}, %p: tensor<4x8xf32> {graph.name = "p"})
    -> (tensor<2x8xf32> {graph.name = "y"}, tensor<2x8xf32> {graph.name = "x_again"},
        tensor<6x8xf32> {graph.name = "joined"}, tensor<2xf32> {graph.name = "c"}) {
  %0 = graph.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.tanh %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = graph.concat %p, %1 axis 0 : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  %3 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.return %0, %x, %2, %3 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<6x8xf32>, tensor<2xf32>
}
"""

SHAPES = {"x": (2, 8), "p": (4, 8)}


@pytest.fixture(scope="module", params=[False, True], ids=["copied", "shared"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("program") / "text.mlir"
    path.write_text(TEXT)
    loaded = load(str(path))
    lower(loaded.module, Options(share_io=request.param))
    return loaded


@pytest.fixture
def session(program: Program) -> Session:
    return Session(program.module, program.payload, poison=True)


def given(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(shape, np.float32) for n, shape in SHAPES.items()}


def empty(shape: tuple[int, ...] = (2, 8)) -> DeviceArray:
    return DeviceArray(shape, np.float32)


@pytest.mark.parametrize("inputs", [(), ("x",), ("p",), ("x", "p")])
@pytest.mark.parametrize("outputs", [(), ("y",), ("x_again", "joined"), ("y", "joined", "c")])
def test_same_numbers(session: Session, inputs: tuple[str, ...], outputs: tuple[str, ...]):
    shapes = {p.name: tuple(p.shape) for p in session.outputs}
    ins = {n: empty(SHAPES[n]) for n in inputs}
    outs = {n: empty(shapes[n]) for n in outputs}
    binding = session.bind(ins, outs)
    for seed in range(2):
        arrays = given(seed)
        for name, array in ins.items():
            array.write(arrays[name])
        got = binding.run({n: a for n, a in arrays.items() if n not in ins})
        for name, want in session.run(arrays).items():
            assert (got[name] is outs[name]) if name in outs else type(got[name]) is np.ndarray
            assert np.asarray(got[name]).tobytes() == want.tobytes(), name
        for name, array in ins.items():
            assert np.array_equal(array.numpy(), arrays[name])


def test_results_that_are_not_bound_are_new_each_time(session: Session):
    x = DeviceArray.of(given(0)["x"])
    binding = session.bind({"x": x})
    first = binding.run({"p": given(0)["p"]})
    kept = {n: a.copy() for n, a in first.items()}
    x.write(given(1)["x"])
    binding.run({"p": given(1)["p"]})
    assert all(np.array_equal(first[n], kept[n]) for n in kept)


def test_an_output_is_the_input_of_the_next(session: Session):
    """y of one session is x of another one, and that of a third one."""
    arrays, hidden = given(3), empty()
    session.bind(outputs={"y": hidden}).run(arrays)
    again = empty()
    session.bind({"x": hidden}, {"y": again}).run({"p": arrays["p"]})
    want = session.run({**arrays, "x": session.run(arrays)["y"]})["y"]
    assert np.array_equal(again.numpy(), want)
    assert np.array_equal(np.asarray(hidden, np.float64), session.run(arrays)["y"])


def test_the_clock_counts_no_copies_of_what_is_bound(session: Session):
    plain = timeline_of(session)
    binding = session.bind({"x": empty()}, {"y": empty()})
    bound = timeline_of(binding)
    copies = [t for t in plain.tasks if isinstance(t.op, CopyOp)]
    left = [t for t in bound.tasks if isinstance(t.op, CopyOp)]
    shared = not any(t.engine == "dma_in" for t in plain.tasks)
    assert len(copies) - len(left) == (0 if shared else 2)
    assert shared or bound.latency_us < plain.latency_us
    assert binding.latency_us == bound.latency_us <= plain.latency_us


def test_a_profiler_sees_bindings_apart(session: Session):
    binding = session.bind({"x": empty(), "p": empty((4, 8))})
    with Profiler() as profiler:
        session.run(given(0))
        binding.run()
        binding.run()
    runs = profiler.report()["runs"]
    assert [r["runs"] for r in runs] == [1, 2]
    assert runs[1]["time"]["latency_us"] <= runs[0]["time"]["latency_us"]


def test_what_does_not_fit_is_refused(session: Session):
    x, y = empty(), empty()
    for ins, outs, message in (
        ({"xx": x}, {}, "there is no input 'xx' .did you mean 'x'"),
        ({}, {"z": x}, "there is no output 'z'"),
        ({"x": np.zeros((2, 8), np.float32)}, {}, "input 'x' is bound to no ge.DeviceArray.*of"),
        ({"x": empty((3, 8))}, {}, r"input 'x' has shape \[3, 8\], not float32"),
        ({"x": DeviceArray((2, 8), np.float16)}, {}, "input 'x' is float16, not float32"),
        ({}, {"y": empty((8, 2))}, r"output 'y' has shape \[8, 2\]"),
        ({"x": x}, {"y": x}, "output 'y' shares memory"),
        ({}, {"y": y, "x_again": y}, "output 'x_again' shares memory"),
    ):
        with pytest.raises(GeError, match=message):
            session.bind(ins, outs)  # pyright: ignore[reportArgumentType]
    with pytest.raises(GeError, match="input 'x' is bound; write to its device array"):
        session.bind({"x": x}).run(given(0))
    with pytest.raises(GeError, match="input 'p' is missing"):
        session.bind({"x": x}).run()


def test_sizes_that_are_known_when_it_runs(tmp_path: Path):
    path = tmp_path / "dynamic.mlir"
    path.write_text(TEXT.replace("2x8", "?x8").replace("6x8", "?x8"))
    loaded = load(str(path))
    lower(loaded.module, Options())
    session = Session(loaded.module, loaded.payload)
    x = DeviceArray.of(given(0)["x"])
    got = session.bind({"x": x}).run({"p": given(0)["p"]})
    for name, want in session.run(given(0)).items():
        assert got[name].tobytes() == want.tobytes()
    with pytest.raises(GeError, match=r"the size of output 'y: .*' is known only when it runs"):
        session.bind(outputs={"y": empty()})


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((-1, 2), np.float32, "sizes are at least 0"),
        ((1.5,), np.float32, "is a tuple of sizes"),
        (3, np.float32, "is a tuple of sizes, not 3"),
        ((2,), "nonsense", "'nonsense' is no type of elements"),
        ((2,), object, "the device has no elements of type object"),
        ((1 << 50,), np.float32, "the device array"),
    ],
)
def test_bad_device_arrays(shape: Any, dtype: Any, message: str):
    with pytest.raises(GeError, match=message):
        DeviceArray(shape, dtype)


def test_writing_another_shape_or_type_is_refused():
    array = DeviceArray.of(np.arange(3))
    assert repr(array) == "DeviceArray(int64[3])"
    assert array.nbytes == 24
    for other in (np.zeros(3), np.zeros(4, np.int64)):
        with pytest.raises(GeError, match=r"is written to the device array int64\[3\]"):
            array.write(other)
    with pytest.raises(GeError, match="a device array cannot hold this"):
        DeviceArray.of([[1], [2, 3]])
    array.numpy()[:] = 7
    assert array.numpy().tolist() == [0, 1, 2]
