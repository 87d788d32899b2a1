"""GE_CACHE_DIR: compiling again copies; nothing about the cache is ever an error."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ge
from ge.dialects.text.look import LOCATED
from ge.lowering.driver import cache, compiler
from ge.lowering.driver.cache import Request
from ge.lowering.pipeline.options import Options
from ge.lowering.plugins.extensions import new_registry
from ge.runtime.clock.clock import simulate

OWN_FILES = cache.own_files

RNG = np.random.default_rng(0)


def write_model(folder: Path, external: bool = False, name: str = "m.onnx") -> Path:
    """y = relu(x @ w)."""
    folder.mkdir(exist_ok=True)
    weights = RNG.standard_normal((64, 32)).astype(np.float32)
    tensor = numpy_helper.from_array(weights, "w")
    if external:
        (folder / "w.bin").write_bytes(weights.tobytes())
        tensor = TensorProto(name="w", data_type=1, dims=weights.shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "g", [info("x", 1, ["n", 64])], [info("y", 1, ["n", 32])], [tensor],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / name)
    return folder / name


class Setup:
    """A model, a cache, and how often the compiler ran."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.model = write_model(folder)
        self.compiled = 0
        compile_file = compiler.compile_file

        def counted(*args: Any) -> Any:
            self.compiled += 1
            return compile_file(*args)

        monkeypatch.setattr(cache, "compile_file", counted)
        self.stamp = [("compiler.py", 1, 2)]
        monkeypatch.setattr(cache, "own_files", lambda: self.stamp)

    def run(self, output: str = "out.mlir", model: Path | None = None, **options: Any) -> str:
        settings: dict[str, Any] = {"cache_dir": str(self.cache)}
        request = {k: options.pop(k) for k in ("until", "look", "dims") if k in options}
        return Request(
            str(model or self.model), Options(**settings | options),
            str(self.folder / output), str(self.folder / output) + ".json",
            **{"dims": {"n": 4}} | request,
        ).run()  # fmt: skip

    def entry(self) -> Path:
        (found,) = (p for p in self.cache.iterdir() if p.name != "tiles")
        return found


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(tmp_path, monkeypatch)


def outputs(program: Path) -> dict[str, np.ndarray]:
    loaded = ge.load(str(program))
    session = ge.Session(loaded.module, loaded.payload)
    return session.run({"x": np.ones((4, 64), np.float32)})


def test_the_second_time_is_a_copy(setup: Setup):
    first = setup.run("a.mlir")
    second = setup.run("b.mlir")
    assert setup.compiled == 1
    assert second == f"{first} (from the cache)"
    a, b = setup.folder / "a.mlir", setup.folder / "b.mlir"
    assert b.read_text() == a.read_text().replace("a.safetensors", "b.safetensors")
    assert (setup.folder / "a.mlir.json").read_text() == (setup.folder / "b.mlir.json").read_text()
    weights = b.with_suffix(".safetensors")
    assert weights.read_bytes() == a.with_suffix(".safetensors").read_bytes()
    for one in (a.with_suffix(".safetensors"), weights):  # who edits one edits no other
        assert one.stat().st_ino != (setup.entry() / cache.WEIGHTS).stat().st_ino
    np.testing.assert_array_equal(outputs(a)["y"], outputs(b)["y"])


def test_the_same_output_again(setup: Setup):
    for _ in range(3):
        setup.run()
    assert setup.compiled == 1
    names = {p.name for p in setup.folder.iterdir()}
    assert names == {"m.onnx", "cache", "out.mlir", "out.safetensors", "out.mlir.json"}


@pytest.mark.parametrize(
    "change",
    [
        {"target": "310p3"},
        {"fusion": "off"},
        {"memory": 0},
        {"verify": False},
        {"until": "buffers"},
        {"dims": {"n": 5}},
        {"look": LOCATED},
    ],
    ids=str,
)
def test_what_makes_another_program(setup: Setup, change: dict[str, Any]):
    setup.run()
    setup.run(**change)
    assert setup.compiled == 2
    setup.run(**change)
    setup.run()
    assert setup.compiled == 2


def test_the_contents_of_model_target_and_plugin_count(setup: Setup):
    target, plugin = setup.folder / "t.toml", setup.folder / "p.py"
    preset = Path(ge.Target.load.__func__.__code__.co_filename).parent / "910_merged.toml"
    shutil.copy(preset, target)
    plugin.write_text("")
    options = {"target": str(target), "custom_pass": str(plugin)}
    setup.run(**options)
    plugin.write_text("# another one")
    setup.run(**options)
    target.write_text(target.read_text() + "\n# another one\n")
    setup.run(**options)
    assert setup.compiled == 3
    write_model(setup.folder)  # with other weights
    setup.run(**options)
    assert setup.compiled == 4


def test_external_data_counts(setup: Setup, tmp_path: Path):
    model = write_model(tmp_path / "external", external=True)
    setup.run("a.mlir", model)
    setup.run("b.mlir", model)
    assert setup.compiled == 1
    write_model(tmp_path / "external", external=True)
    setup.run("b.mlir", model)
    assert setup.compiled == 2
    (model.parent / "w.bin").unlink()
    setup.run("c.mlir", model)
    assert setup.compiled == 3
    assert not (setup.folder / "c.safetensors").exists()


def test_weights_of_a_module_count(setup: Setup, tmp_path: Path):
    text = tmp_path / "in.mlir"
    setup.run("in.mlir", until="graph")
    for _ in range(2):
        setup.run("out.mlir", text, dims={})
    assert setup.compiled == 2
    os.utime(tmp_path / "in.safetensors")
    setup.run("out.mlir", text, dims={})
    assert setup.compiled == 3


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


FILES = (cache.TEXT, cache.WEIGHTS, cache.ENTRY)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        pytest.param(damage, name, marks=[] if number != FILES.index(name) else pytest.mark.soak)
        for number, damage in enumerate((_truncate, _flip, Path.unlink))
        for name in FILES
    ],
)
def test_a_damaged_entry_is_made_anew(setup: Setup, name: str, damage: Callable[[Path], None]):
    setup.run("a.mlir")
    expected = (setup.folder / "a.mlir").read_text()
    damage(setup.entry() / name)
    setup.run("b.mlir")
    assert (setup.folder / "b.mlir").read_text() == expected.replace("a.safet", "b.safet")
    if (name, damage) != (cache.ENTRY, _flip):  # a flipped bit may be in a figure of the report
        assert setup.compiled == 2
    setup.run("b.mlir")
    assert setup.compiled <= 2


def test_threads_that_put_one_entry_at_once(tmp_path: Path):
    """Each has made the same, and none tells of another's that was in its way."""
    start = threading.Barrier(8)

    def put(number: int) -> None:
        start.wait()
        for i in range(100):
            (folder := tmp_path / f".new-{number}-{i}").mkdir()
            (folder / cache.ENTRY).write_text("{}")
            (folder / cache.TEXT).write_text("")
            cache._put(folder, tmp_path / "entry")  # pyright: ignore[reportPrivateUsage]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))
    assert {p.name for p in (tmp_path / "entry").iterdir()} == {cache.ENTRY, cache.TEXT}
    assert not list(tmp_path.glob("*-old"))


@pytest.mark.parametrize("entry", ["", "[]", "{}", '{"text": 1}', "\0"])
def test_an_entry_that_is_none(setup: Setup, entry: str):
    setup.run()
    (setup.entry() / cache.ENTRY).write_text(entry)
    setup.run()
    assert setup.compiled == 2


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if FILES.index(name) == number % 3 else pytest.mark.soak)
        for number, kind in enumerate(("link", "pipe", "device", "writable", "folder"))
        for name in FILES
    ],
)
def test_an_entry_with_files_of_another_kind(setup: Setup, name: str, kind: str):
    """A planted link to a private file is neither read nor made readable, a pipe does not wait."""
    setup.run("a.mlir")
    file, private = setup.entry() / name, setup.folder / "private"
    private.write_bytes(file.read_bytes())
    private.chmod(0o600)
    file.unlink()
    if kind == "link":
        file.symlink_to(private)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(private.read_bytes())
        file.chmod(0o666)
    setup.run("b.mlir")
    assert setup.compiled == 2
    assert private.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(outputs(setup.folder / "b.mlir")["y"].shape, (4, 32))


def test_an_entry_of_deep_or_endless_text(setup: Setup):
    setup.run()
    entry = setup.entry() / cache.ENTRY
    entry.write_text("[" * 100_000)
    setup.run()
    os.truncate(setup.entry() / cache.ENTRY, 1 << 40)
    setup.run()
    assert setup.compiled == 3


def test_a_cache_that_others_may_write_to(setup: Setup, capsys: pytest.CaptureFixture[str]):
    setup.run()
    setup.cache.chmod(0o777)
    setup.run()
    assert "not used, for others may write to it" in capsys.readouterr().err
    setup.cache.chmod(0o700)
    setup.entry().chmod(0o770)
    setup.run()
    assert setup.compiled == 3


def test_a_cache_that_cannot_be(setup: Setup, capsys: pytest.CaptureFixture[str]):
    (setup.folder / "file").write_text("")
    setup.run(cache_dir=str(setup.folder / "file"))
    assert "warning: " in capsys.readouterr().err
    assert (setup.folder / "out.mlir").exists()


def test_another_compiler_makes_another_program(setup: Setup):
    setup.run()
    setup.stamp = [("compiler.py", 1, 3)]
    setup.run()
    assert setup.compiled == 2


def test_the_presets_of_targets_are_a_part_of_the_compiler():
    names = {name for name, *_ in OWN_FILES()}
    assert {"910_merged.toml", "cache.py"} <= names


def test_dumps_and_standard_output_are_always_compiled(
    setup: Setup, capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        setup.run(dump_graph=1, dump_path=str(setup.folder / "dump"))
        Request(str(setup.model), Options(cache_dir=str(setup.cache)), "-").run()
    assert setup.compiled == 4
    assert {path.name for path in setup.cache.iterdir()} == {"tiles"}
    assert capsys.readouterr().out.count("builtin.module") == 2


def test_compile_in_memory(setup: Setup):
    """`ge.compile`: the second program has the same numbers, figures and timeline."""
    found: list[tuple[ge.Program, np.ndarray, list[str]]] = []
    for _ in range(2):
        program = ge.compile(str(setup.model), dims={"n": 4}, cache_dir=str(setup.cache))
        session = ge.Session(program.module, program.payload)
        numbers = session.run({"x": np.ones((4, 64), np.float32)})["y"]
        timeline = simulate(program.module, session.target)
        found.append((program, numbers, [t.name for t in timeline.tasks]))
    assert setup.compiled == 1
    (a, x, first), (b, y, second) = found
    np.testing.assert_array_equal(x, y)
    assert first == second
    assert a.report() == b.report()
    assert str(a.module) == str(b.module)


def test_a_program_without_weights_in_memory(setup: Setup):
    text = setup.folder / "in.mlir"
    text.write_text(
        'func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32>) {\n'
        "  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}\n"
    )
    programs = [ge.compile(str(text), cache_dir=str(setup.cache)) for _ in range(2)]
    assert setup.compiled == 1
    assert str(programs[0].module) == str(programs[1].module)


def test_the_report_is_that_of_the_compilation(setup: Setup):
    setup.run("a.mlir")
    setup.run("b.mlir")
    report = json.loads((setup.folder / "b.mlir.json").read_text())
    assert report["compile"]["seconds"] > 0
    assert report["memory"]["weight_bytes"] >= 64 * 32 * 4


def test_what_a_plugin_imports_counts(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    """In a new process by the contents of its files; in one that has imported them, the cache is
    left alone once they change."""
    (setup.folder / "imported_by_plugin.py").write_text("FACTOR = 1")
    (setup.folder / "plug.py").write_text("import imported_by_plugin")
    options = {"custom_pass": str(setup.folder / "plug.py")}
    monkeypatch.syspath_prepend(str(setup.folder))

    def in_new_process() -> None:
        monkeypatch.delitem(sys.modules, "imported_by_plugin", raising=False)
        with new_registry():
            setup.run(**options)

    in_new_process()
    in_new_process()
    assert setup.compiled == 1
    (setup.folder / "imported_by_plugin.py").write_text("FACTOR = 23")
    in_new_process()
    assert setup.compiled == 2
    with new_registry():
        setup.run(**options)
        assert setup.compiled == 2
        (setup.folder / "imported_by_plugin.py").write_text("FACTOR = 345")
        setup.run(**options)
        setup.run(**options)
        assert setup.compiled == 4
    in_new_process()
    assert setup.compiled == 5
