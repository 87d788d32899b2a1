"""Sessions that run streams of batches, and runs in a thread of their own: numbers, order, errors,
and no thread that stays."""

import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import load, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array
from ge.runtime.device import streaming
from ge.runtime.device.binding import DeviceArray
from ge.runtime.device.function import Function, Staged
from ge.runtime.device.profiler import Profiler
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session

MODELS = Path(__file__).parents[1] / "models"

TEXT = """
func.func @main(%x: tensor<2x8xf32> {graph.name = "x"}, %y: tensor<8xf16> {graph.name = "y"},
                %i: tensor<2xi64> {graph.name = "i"})
    -> (tensor<2x8xf32> {graph.name = "a"}, tensor<8xf16> {graph.name = "b"},
        tensor<2xi64> {graph.name = "c"}) {
  %0 = graph.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.add %y, %y : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  %2 = graph.add %i, %i : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  func.return %0, %1, %2 : tensor<2x8xf32>, tensor<8xf16>, tensor<2xi64>
}
"""


def session_of(path: Path | str, lowered: bool = True, **options: Any) -> Session:
    loaded = load(str(path))
    cast = options.pop("cast_inputs", False)
    if lowered:
        lower(loaded.module, Options(**options))
    return Session(loaded.module, loaded.payload, poison=True, cast_inputs=cast)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.mlir"
    path.write_text(TEXT)
    return path


@pytest.fixture(params=["caller", "threads"])
def either_way(request: pytest.FixtureRequest) -> None:
    if request.param == "threads":
        request.getfixturevalue("at_once")


def batch_of(number: float) -> dict[str, Array]:
    return {
        "x": np.full((2, 8), number, np.float32),
        "y": np.full(8, number, np.float16),
        "i": np.full(2, number, np.int64),
    }


def same(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert list(got) == list(want)
    for name in want:
        assert got[name].tobytes() == want[name].tobytes(), name


def threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name in ("ge feed", "ge compute")}


# ---- run_many --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "share_io"),
    [
        pytest.param("llama_7b_decode.fp16.tiny", False, marks=pytest.mark.soak),
        ("loop_rnn.tiny", False),
        ("if_cond.tiny", True),
    ],
)
@pytest.mark.usefixtures("either_way")
def test_the_numbers_are_those_of_single_runs(name: str, share_io: bool):
    session = session_of(MODELS / f"{name}.onnx", share_io=share_io)
    batches = [random_inputs(session.module, seed) for seed in range(3)]
    want = [session.run(b) for b in batches]
    for prefetch in (1, 2):
        got = list(session.run_many(iter(batches), prefetch))
        for g, w in zip(got, want, strict=True):
            same(g, w)


@pytest.mark.usefixtures("either_way")
def test_modules_of_the_graph_level_stream_too(text: Path):
    session = session_of(text, lowered=False)
    for number, got in enumerate(session.run_many(map(batch_of, range(4)))):
        same(got, session.run(batch_of(number)))


class Tensor:
    """What torch's tensors have of what counts here."""

    def __init__(self, array: Array, fails: str = "") -> None:
        self.array, self.fails = array, fails

    def detach(self) -> "Tensor":
        return self

    def numpy(self) -> Array:
        if self.fails:
            raise TypeError(self.fails)
        return self.array


class Loader:
    """Makes its batches anew in each pass, as torch's DataLoader does."""

    def __iter__(self) -> Iterator[list[Tensor]]:
        return ([Tensor(a) for a in batch_of(n).values()] for n in range(3))


def test_batches_are_dicts_tuples_lists_of_arrays_or_tensors(text: Path):
    session = session_of(text)
    want = [session.run(batch_of(n)) for n in range(3)]
    tuples = [tuple(batch_of(n).values()) for n in range(3)]
    for batches in (Loader(), Loader(), tuples):
        for got, w in zip(session.run_many(batches), want, strict=True):
            same(got, w)
    one = session_of(MODELS / "if_cond.tiny.onnx")
    (x,) = random_inputs(one.module).values()
    same(next(one.run_many([x])), one.run({one.input_names[0]: x}))
    assert list(session.run_many([])) == []


@pytest.mark.usefixtures("at_once")
def test_stages_overlap(text: Path, monkeypatch: pytest.MonkeyPatch):
    """The next batches are read and loaded while one is computed, and one is computed while the
    caller has the last one; no more of them than prefetch says."""
    log: list[str] = []
    computing, read = threading.Event(), threading.Event()
    compute = Staged.compute

    def slow(self: Staged, *args: Any, **memory: Any) -> None:
        computing.set()
        assert read.wait(10), "no batch is read while one is computed"
        compute(self, *args, **memory)
        log.append("computed")

    def batches() -> Iterator[dict[str, Array]]:
        yield batch_of(0)
        assert computing.wait(10)
        log.append("read while batch 0 is computed")
        read.set()
        yield batch_of(1)
        for n in range(2, 9):
            log.append("read")
            yield batch_of(n)

    monkeypatch.setattr(Staged, "compute", slow)
    stream = session_of(text).run_many(batches())
    next(stream)
    deadline = time.monotonic() + 10
    while log.count("computed") < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert log[0] == "read while batch 0 is computed"
    assert log.count("computed") >= 2, "nothing is computed while the caller has a result"
    time.sleep(0.02)  # what would run too far ahead
    assert log.count("computed") <= 3
    assert log.count("read") <= 5
    assert len(list(stream)) == 8


@pytest.mark.parametrize("error", ["", "read", "computed"])
def test_threads_are_there_where_they_save_time(
    text: Path, monkeypatch: pytest.MonkeyPatch, error: str
):
    """Batches that are quick are read and computed by the caller's thread; where both take long
    threads come, and go again. Numbers and errors are the same. The clock of a thread counts what
    is said to take long alone, so that a busy machine changes nothing."""
    names: list[str] = []
    clock = threading.local()

    def take(seconds: float) -> float:
        clock.seconds = getattr(clock, "seconds", 0.0) + seconds
        return clock.seconds

    monkeypatch.setattr(streaming, "perf_counter", partial(take, 0.0))
    execute, slow, count = Function.execute, range(20, 50), 90

    def computed(self: Function, *args: Any, **driver: Any) -> None:
        if error == "computed" and len(names) == 70:
            raise GeError("the device is on fire")
        take(0.003 if len(names) in slow else 0)
        names.append(threading.current_thread().name)
        execute(self, *args, **driver)

    def batches() -> Iterator[Any]:
        for number in range(count):
            take(0.003 if number in slow else 0)
            yield {} if error == "read" and number == 70 else batch_of(number % 8)

    session = session_of(text)
    want = [session.run(batch_of(number)) for number in range(8)]
    monkeypatch.setattr(Function, "execute", computed)
    got = list[dict[str, Array]]()
    with nullcontext() if not error else pytest.raises(GeError, match="batch 70: "):
        got.extend(session.run_many(batches()))
    assert len(got) == (70 if error else count)
    for number, outputs in enumerate(got):
        same(outputs, want[number % 8])
    caller = threading.current_thread().name
    assert [names[i] for i in (0, 19, 49, 69)] == [caller, caller, "ge compute", caller]
    assert not threads()


@pytest.mark.usefixtures("either_way")
def test_a_profiler_counts_the_batches(text: Path):
    session = session_of(text)
    with Profiler() as profiler:
        list(session.run_many(map(batch_of, range(3))))
    report = profiler.report()
    assert [r["runs"] for r in report["runs"]] == [3]
    shapes = {"x": [2, 8], "y": [8], "i": [2]}
    assert [r["inputs"] for r in report["per_run"]] == [shapes] * 3


@pytest.mark.usefixtures("either_way")
def test_what_is_beside_the_inputs_is_left_out(text: Path):
    """The labels of a data set, which no array need hold."""
    session = session_of(text)
    batches = [batch_of(number) for number in range(3)]
    want = list(session.run_many(batches))
    for labelled in (
        [{"label": "cat", **batch} for batch in batches],
        [[*batch.values(), ["cat", "dog"]] for batch in batches],
    ):
        for got, outputs in zip(session.run_many(labelled), want, strict=True):
            same(got, outputs)


# ---- errors ----------------------------------------------------------------------------------


def bad_batches(what: str) -> Iterator[Any]:
    yield from map(batch_of, range(3))
    match what:
        case "shape":
            yield {**batch_of(3), "x": np.zeros((3, 8), np.float32)}
        case "type":
            yield {**batch_of(3), "i": np.zeros(2, np.int32)}
        case "missing":
            yield {"x": batch_of(3)["x"]}
        case "unknown":
            yield {"z" if name == "i" else name: array for name, array in batch_of(3).items()}
        case "count":
            yield list(batch_of(3).values())[:2]
        case "tensor":
            yield {**batch_of(3), "x": Tensor(np.zeros(1), "can't convert cuda:0 device type")}
        case _:
            raise ValueError("no more data")
    yield from map(batch_of, range(3))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("shape", "batch 3: input 'x' has shape .3, 8., not float32.2, 8."),
        ("type", "batch 3: input 'i' is int32, not int64"),
        ("missing", "batch 3: input 'y' is missing; input 'i' is missing"),
        ("unknown", "batch 3: there is no input 'z'; input 'i' is missing"),
        ("count", "batch 3: 2 arrays for 3 inputs.*a batch is a dict by these names"),
        ("tensor", "batch 3: input 'x' cannot be read as an array: can't convert cuda:0"),
        ("raise", "no more data"),
    ],
)
def test_a_bad_batch_fails_when_its_turn_has_come(text: Path, what: str, message: str):
    session, results = session_of(text), list[dict[str, Array]]()
    with pytest.raises((GeError, ValueError), match=message):
        results.extend(session.run_many(bad_batches(what)))
    assert len(results) == 3
    assert not threads()
    same(session.run(batch_of(1)), results[1])  # the session is as before
    same(next(session.run_many([batch_of(2)])), results[2])


@pytest.mark.usefixtures("either_way")
def test_the_first_error_comes_out(text: Path, monkeypatch: pytest.MonkeyPatch):
    """The device fails at batch 1; that the iterable fails at batch 3 is not said."""
    session, calls = session_of(text), list[int]()
    execute = Function.execute

    def failing(self: Function, *args: Any, **driver: Any) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise GeError("the device is on fire", "here")
        execute(self, *args, **driver)

    monkeypatch.setattr(Function, "execute", failing)
    results: list[Any] = []
    with pytest.raises(GeError, match="batch 1: the device is on fire") as error:
        results.extend(session.run_many(bad_batches("raise")))
    assert len(results) == 1
    assert error.value.where == "here"
    assert not threads()


@pytest.mark.usefixtures("at_once")
def test_a_caller_who_stops_leaves_no_threads(text: Path):
    def endless() -> Iterator[dict[str, Array]]:
        while True:
            yield batch_of(1)

    for result in session_of(text).run_many(endless()):
        assert len(result) == 3
        break
    stream = session_of(text).run_many(endless())
    next(stream)
    assert threads()
    stream.close()
    assert not threads()


@pytest.mark.usefixtures("at_once")
def test_an_iterable_that_hangs_does_not_keep_the_caller(
    text: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ge.runtime.device.streaming.PATIENCE", 0.01)
    released = threading.Event()

    def hanging() -> Iterator[dict[str, Array]]:
        yield batch_of(1)
        released.wait(10)
        yield batch_of(2)

    stream = session_of(text).run_many(hanging())
    next(stream)
    stream.close()
    assert [t.name for t in threads()] == ["ge feed"]
    released.set()
    for thread in threads():
        thread.join(10)
    assert not threads()


@pytest.mark.usefixtures("either_way")
def test_the_first_batch_is_looked_at_too(text: Path):
    session = session_of(text)
    for batch in ({}, None, [1, 2], "abc", {"x": object()}, {"x": None, "y": None, "i": None}):
        with pytest.raises(GeError, match="batch 0: "):
            list(session.run_many([batch]))
    with pytest.raises(GeError, match="inputs are arrays by name, not of type NoneType"):
        session.run_async(None).result(10)  # pyright: ignore[reportArgumentType]
    assert not threads()


@pytest.mark.parametrize(
    "prefetch", [0, 1.5, *(pytest.param(n, marks=pytest.mark.soak) for n in (-1, True))]
)
def test_prefetch_is_a_number_of_batches(text: Path, prefetch: Any):
    with pytest.raises(GeError, match="prefetch is a number of batches, at least 1, not"):
        session_of(text).run_many([], prefetch)
    with pytest.raises(GeError, match="batches are no iterable, but of type int"):
        session_of(text).run_many(3)  # pyright: ignore[reportArgumentType]


# ---- run_async -------------------------------------------------------------------------------


def test_async_runs_keep_their_order(text: Path):
    session, done = session_of(text), list[int]()
    futures = [session.run_async(batch_of(n)) for n in range(6)]
    for n, future in enumerate(futures):
        future.add_done_callback(lambda _, n=n: done.append(n))
    for n, future in enumerate(futures):
        same(future.result(10), session.run(batch_of(n)))
    assert done == sorted(done)


def test_errors_come_out_of_the_future(text: Path):
    session = session_of(text)
    before, bad = session.run_async(batch_of(1)), session.run_async({})
    after = session.run_async(batch_of(2))
    assert isinstance(bad.exception(10), GeError)
    same(before.result(10), session.run(batch_of(1)))
    same(after.result(10), session.run(batch_of(2)))
    out = {"a": np.empty((2, 8), np.float32)}
    assert session.run_async(batch_of(3), out).result(10)["a"] is out["a"]


@pytest.mark.usefixtures("at_once")
def test_runs_of_several_threads_do_not_mix(text: Path):
    session = session_of(text)
    stream = session.run_many(map(batch_of, range(40)))
    futures = [session.run_async(batch_of(n)) for n in range(40)]
    for n, got in enumerate(stream):
        same(got, futures[n].result(10))


# ---- cast_inputs -----------------------------------------------------------------------------


def test_inputs_are_converted(text: Path):
    session = session_of(text, cast_inputs=True)
    given = {
        "x": np.full((2, 8), 0.1, np.float64),
        "y": np.array([1.0, np.inf, -np.inf, np.nan, 65504.0, 1e-9, 0.1, -2.0], np.float32),
        "i": np.array([-(2**31), 7], np.int32),
    }
    types = {"x": np.float32, "y": np.float16, "i": np.int64}
    want = session.run({n: a.astype(types[n]) for n, a in given.items()})
    same(session.run(given), want)
    same(next(session.run_many([given])), want)
    same(session.run_async(given).result(10), want)
    unsigned = {**given, "i": np.array([2**63 - 1, 0], np.uint64)}
    assert session.run(unsigned)["c"][1] == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("y", np.full(8, 70000.0, np.float32), "input 'y' has 70000.0, which float16 does not"),
        ("x", np.full((2, 8), 1e300), "input 'x' has 1e.300, which float32 does not hold"),
        ("i", np.full(2, 2**63, np.uint64), "input 'i' has 9223372036854775808, which int64"),
        ("i", np.zeros(2, np.float32), "input 'i' is float32, not int64"),
        ("x", np.zeros((2, 8), np.int64), "input 'x' is int64, not float32"),
        ("x", np.zeros((2, 8), bool), "input 'x' is bool, not float32"),
    ],
)
def test_what_would_lose_its_range_is_refused(text: Path, name: str, value: Array, message: str):
    session = session_of(text, cast_inputs=True)
    with pytest.raises(GeError, match=message):
        session.run({**batch_of(1), name: value})
    with pytest.raises(GeError, match=f"batch 1: {message}"):
        list(session.run_many([batch_of(1), {**batch_of(1), name: value}]))


# ---- state -----------------------------------------------------------------------------------

COUNTER = """
func.func @main(%s: tensor<4xf32> {graph.name = "s"}, %x: tensor<4xf32> {graph.name = "x"})
    -> (tensor<4xf32> {graph.name = "y"}, tensor<4xf32> {graph.name = "t"}) {
  %0 = graph.add %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %0 : tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("kept", ["tensors", "host", "device"])
def test_state_goes_from_batch_to_batch(tmp_path: Path, kept: str):
    """Kept by the session, of tensors or of a program's arguments, or in the device's memory."""
    path = tmp_path / "counter.mlir"
    state = ', graph.state = "t"' if kept == "device" else ""
    path.write_text(COUNTER.replace('"s"}', f'"s"{state}}}'))
    loaded = load(str(path))
    if kept != "tensors":
        lower(loaded.module, Options())
    patterns = {} if kept == "device" else {"s": "t"}
    session = Session(loaded.module, loaded.payload, poison=True, state=patterns)
    batches = [{"x": np.full(4, n, np.float32)} for n in range(1, 4)]
    session.run(batches[0])
    for got, batch in zip(session.run_many(batches), batches, strict=True):
        same(got, {"y": np.exp(batch["x"])})
    assert session.state["s"].tolist() == [7.0] * 4
    session.bind({"x": DeviceArray.of(batches[2]["x"])}).run()
    assert session.state["s"].tolist() == [10.0] * 4
    assert session.run_async(batches[0]).result(10)
    assert session.state["s"].tolist() == [11.0] * 4
