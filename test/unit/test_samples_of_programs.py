"""`ge.quantize` with samples that a program gives: dicts, lists, generators and loaders."""

import io
import sys
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge
from ge.dialects.graph.stated import DIMS
from ge.dialects.support import effort as progress
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, normal, written

from ge.dialects.support.functions import main_function
from ge.dialects.support.types import DYNAMIC
from ge.transforms.quantization.sources import Files, Given, samples_of

X = normal(70, 4, seed=1)
Y = np.arange(70)


def main_of(batch: int = DYNAMIC) -> Any:
    module = written(
        lambda x, y: (x @ x.lift(normal(4, 6))) + (y @ y.lift(normal(3, 6))),
        Tensor(batch, 4), Tensor(batch, 3),
    )  # fmt: skip
    return main_function(module)


def one_input(*dims: int) -> Any:
    def formula(x: Expr) -> Expr:
        return x.tanh()

    return main_function(written(formula, Tensor(*dims)))


Z = normal(70, 3, seed=2)


class Loader:
    """What a DataLoader is: batches that can be gone through again, and their number."""

    def __init__(self, size: int, make: Callable[[slice], Any]) -> None:
        self.size, self.make = size, make

    def __len__(self) -> int:
        return -(-70 // self.size)

    def __iter__(self) -> Iterator[Any]:
        return (self.make(slice(i, i + self.size)) for i in range(0, 70, self.size))


class Reader:
    """A CalibrationDataReader of onnxruntime."""

    def __init__(self) -> None:
        self.rest = iter(Loader(1, lambda s: {"in0": X[s], "in1": Z[s]}))

    def get_next(self) -> Any:
        return next(self.rest, None)


KINDS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"in0": X, "in1": Z},
    "list of dicts": lambda: [{"in0": X[:7], "in1": Z[:7]}, {"in0": X[7:], "in1": Z[7:]}],
    "generator of samples": lambda: ({"in0": x, "in1": z} for x, z in zip(X, Z, strict=True)),
    "loader of tuples": lambda: Loader(16, lambda s: (X[s], Z[s], Y[s])),
    "loader of lists": lambda: Loader(16, lambda s: [X[s], Z[s]]),
    "reader": Reader,
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_samples_are_the_same_samples(kind: str):
    samples = samples_of(Given(KINDS[kind]()), main_of())
    assert samples.count == 70
    assert samples.is_free
    np.testing.assert_array_equal(samples.arrays["in0"], X)
    np.testing.assert_array_equal(samples.arrays["in1"], Z)


def test_what_is_behind_the_inputs_are_labels():
    loader = Loader(16, lambda s: (X[s], Z[s], Y[s]))
    samples = samples_of(Given(loader), main_of(), labels=True)
    np.testing.assert_array_equal(samples.labels["label"], Y)
    single = [{"in0": x, "in1": z, "of": y, "name": "a"} for x, z, y in zip(X, Z, Y, strict=True)]
    samples = samples_of(Given(single), main_of(), labels=True)
    np.testing.assert_array_equal(samples.picked([3, 1]).labels["of"], [3, 1])


def test_an_array_is_the_first_input_and_numbers_are_arrays():
    samples = samples_of(Given(X), one_input(DYNAMIC, 4))
    np.testing.assert_array_equal(samples.arrays["in0"], X)
    samples = samples_of(Given([{"in0": X[0]}, {"in0": X[1]}]), one_input(4))  # fixed, of size 4
    assert (samples.count, samples.shapes()) == (2, {"in0": (4,)}) or samples.count == 8


def test_samples_that_have_the_whole_shape_of_a_model_lie_apart():
    samples = samples_of(Given(Loader(10, lambda s: (X[s, None],))), one_input(1, 4))
    assert (samples.count, samples.chunk, samples.apart) == (70, 1, True)
    assert next(samples.chunks()).inputs["in0"].shape == (1, 4)


def test_a_batch_that_is_not_the_first_dimension():
    """It is stored first, and seen where the model has it."""
    module = written(lambda x, y: x + y.reduce("sum", 0, keep=False), Tensor(DYNAMIC, 3),
                     Tensor(2, DYNAMIC, 3))  # fmt: skip
    from xdsl.dialects.builtin import ArrayAttr, StringAttr

    main: Any = main_function(module)
    names = (("N", ""), ("", "N", ""))
    main.arg_attrs = ArrayAttr(
        type(a)({**a.data, DIMS: ArrayAttr([StringAttr(d) for d in dims])})
        for a, dims in zip(main.arg_attrs.data, names, strict=True)
    )
    y = normal(2, 70, 3, seed=3)
    samples = samples_of(Given(Loader(16, lambda s: (Z[s], y[:, s]))), main)
    np.testing.assert_array_equal(samples.arrays["in1"], y)
    *_, last = samples.chunks()
    assert last.inputs["in1"].shape == (2, 32, 3)


class Traced(np.ndarray[Any, Any]):
    """An array that can be counted."""


def is_mapped(array: Array) -> bool:
    """Return whether the elements are in a file."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    return base is not None


def test_a_generator_of_many_samples_has_two_alive_at_most():
    alive, most = 0, 0

    def note(change: int) -> None:
        nonlocal alive, most
        alive += change
        most = max(most, alive)

    def samples() -> Iterator[dict[str, Array]]:
        for i in range(200):
            x = np.full((1, 4), i, np.float32).view(Traced)
            note(1)
            weakref.finalize(x, note, -1)
            yield {"in0": x}
            del x

    found = samples_of(Given(samples()), one_input(DYNAMIC, 4))
    assert (alive, found.count) == (0, 200)
    assert most <= 2
    assert is_mapped(found.arrays["in0"])
    canonical = found.canonical
    assert canonical.arrays["in0"] is found.arrays["in0"]  # in another order, and not in memory
    seen = np.concatenate([c.inputs["in0"][: c.count] for c in canonical.chunks()])
    assert sorted(seen[:, 0]) == list(range(200))


def test_a_generator_may_use_its_memory_again():
    def samples() -> Iterator[Array]:
        x = np.empty((1, 4), np.float32)
        for i in range(3):
            x[:] = i
            yield x

    found = samples_of(Given(samples()), one_input(DYNAMIC, 4))
    np.testing.assert_array_equal(found.arrays["in0"][:, 0], [0, 1, 2])


def test_files_are_stored_one_by_one(tmp_path: Path):
    paths = [tmp_path / f"{i}.npz" for i in range(3)]
    for i, path in enumerate(paths):
        np.savez(path, **{"in:in0": X[i : i + 1]})
    found = samples_of(Files(paths), one_input(DYNAMIC, 4))
    assert is_mapped(found.arrays["in0"])
    np.testing.assert_array_equal(found.arrays["in0"], X[:3])


# ---- bad samples -----------------------------------------------------------------------------


def ends_in(error: Exception) -> Iterator[Any]:
    yield X[:2]
    yield X[2:3]
    raise error


def bad(place: tuple[int, int]) -> Array:
    x = X[:2].copy()
    x[place] = np.nan
    return x


GIVEN = "batch 2 of the samples: error:"

BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: iter(()), "there are no samples: the data ended at once; a generator is gone through "
     "once: give a new one to each call"),
    (lambda: ends_in(ValueError("no such image")), "the samples ended with ValueError at batch 3: "
     "no such image; 2 batches came before it"),
    (lambda: 3, "the samples are of type int"),
    (lambda: [X[:2], "a.png"], "batch 2 of the samples is of type str"),
    (lambda: [X[:2], {"x": X[:2]}], f"{GIVEN} input 'in0' is missing; expected "
     "in0: float32[samples, 4]; there is 'x'"),
    (lambda: [X[:2], {"in0": [None]}], "batch 2 of the samples: 'in0' is no array: its elements "
     "are of type NoneType"),
    (lambda: [X[:2], X[:2, :3]], f"{GIVEN} input 'in0' has shape [2, 3], not in0: "
     "float32[samples, 4]"),
    (lambda: [X[:2], X[:2].astype(np.float64)], f"{GIVEN} input 'in0' is float64, not float32"),
    (lambda: [X[:2], bad((1, 3))], f"{GIVEN} sample 1 of input 'in0' has nan at [1, 3]"),
    (lambda: [X[:0]], "batch 1 of the samples: error: there are no samples"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD)
def test_bad_samples_are_named(make: Callable[[], Any], message: str):
    with pytest.raises(GeError) as error:
        samples_of(Given(make()), one_input(DYNAMIC, 4))
    assert message in str(error.value)


def test_the_exception_of_a_generator_is_the_cause():
    with pytest.raises(GeError) as error:
        samples_of(Given(ends_in(KeyError("image"))), one_input(DYNAMIC, 4))
    assert isinstance(error.value.__cause__, KeyError)


# ---- ge.quantize -----------------------------------------------------------------------------


def graph() -> Any:
    g = ge.Graph()
    x = g.input("x", ("N", 4), "f32")
    hidden = g.tanh(x @ g.weight("first", normal(4, 16, seed=5)))
    g.output("y", hidden @ g.weight("second", normal(16, 3, seed=6)))
    return g


def layers_of(program: Any) -> list[str]:
    return [layer["scheme"] for layer in program.report()["quantization"]["layers"]]


@pytest.mark.usefixtures("without_programs")
def test_a_model_is_quantized_by_what_a_generator_gives(tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, x=X)
    program = ge.quantize(graph(), ({"x": x} for x in X))
    assert layers_of(program) == ["int8", "int8"]
    told = program.report()["quantization"]
    of_file = ge.quantize(graph(), path)
    assert told == of_file.report()["quantization"]
    assert str(program.module) == str(of_file.module)


@pytest.mark.usefixtures("without_programs")
def test_a_score_sees_the_labels_of_batches():
    seen: list[int] = []

    def score(outputs: Any, labels: Any) -> float:
        seen.append(len(labels["label"]))
        return 1.0

    ge.quantize(graph(), Loader(16, lambda s: (X[s], Y[s])), accuracy=score)
    assert set(seen) == {70}


# ---- a time limit ----------------------------------------------------------------------------


class Clock:
    """Time that passes as it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def limited(monkeypatch: pytest.MonkeyPatch, seconds: int, table: Path, **more: Any) -> Any:
    monkeypatch.setattr(progress, "time", Clock())
    return ge.quantize(
        graph(), Loader(16, lambda s: (X[s],)), table=table, time_limit=seconds, **more
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize("more", [{}, {"accuracy": "snr>=42"}])
def test_calls_with_a_limit_come_to_what_one_without_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
):
    """However little each decides, what it has is a table that compiles."""
    whole, parts = tmp_path / "whole.toml", tmp_path / "parts.toml"
    ge.quantize(graph(), Loader(16, lambda s: (X[s],)), table=whole, **more)
    states: list[str] = []
    for seconds in (*range(14, 400, 12), 10**6):
        limited(monkeypatch, seconds, parts, **more)
        states.append(parts.read_text())
        if "[unfinished]" not in states[-1]:
            break
    assert len(set(states)) > 3
    assert states[-1] == whole.read_text()


@pytest.mark.usefixtures("without_programs")
def test_what_a_limit_leaves_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.warns(UserWarning, match="14 s were over before all was decided") as told:
        program = limited(monkeypatch, 14, tmp_path / "t.toml")
    text = " ".join(str(w.message) for w in told)
    assert "ranges of samples after the first 64" in text
    assert "beside the samples goes on from there" in text
    assert layers_of(program) == ["int8", "int8"]
    assert program.report()["quantization"]["left_db"]["y"] > 20


def test_a_generator_without_end_ends_with_the_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "time", Clock())
    with progress.effort(20) as known:
        found = samples_of(Given(X[:2] for _ in count()), one_input(DYNAMIC, 4))
    assert found.count == 20
    assert known.undone == ["samples after the first 20"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_progress_is_shown_on_a_terminal_alone(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", shown := stream())
    monkeypatch.setenv("TERM", "xterm")
    with progress.effort():
        samples_of(Given(Loader(16, lambda s: X[s])), one_input(DYNAMIC, 4))
    assert ("samples" in shown.getvalue()) == isinstance(shown, Terminal)


@pytest.mark.usefixtures("without_programs")
def test_a_table_is_written_and_gone_on_from(tmp_path: Path):
    table = tmp_path / "t.toml"
    first = ge.quantize(graph(), Loader(16, lambda s: (X[s],)), table=table)
    text = table.read_text()
    again = ge.quantize(graph(), [table])
    assert str(first.module) == str(again.module)
    second = ge.quantize(graph(), Loader(16, lambda s: (X[s],)), table=table)
    assert str(first.module) == str(second.module)
    assert table.read_text() == text
