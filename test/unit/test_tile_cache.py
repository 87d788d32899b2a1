"""Tile programs that a folder keeps are those that are written, and are ops only if asked for."""

import os
import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ge import tile
from ge.dialects.fused_op import UserKernels
from ge.dialects.support.context import having
from ge.dialects.support.diagnostics import Diagnostic, Severity, diagnostic_handler
from ge.dialects.support.operation import walk
from ge.dialects.targets.target import Target
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.buffers import AllocOp
from ge.dialects.tile.compute import WaitOp
from ge.dialects.tile.kernel import KernelOp
from ge.dialects.tile.text import TextKernelOp
from ge.lowering.driver import binding
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.driver.program import Program
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import tile_cache
from ge.lowering.steps import kept_programs as kept
from ge.lowering.steps.lower_kernels import LowerKernelsPass
from ge.runtime.check import tiles
from ge.runtime.check.proof import check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.cores import report

X, Y, Z = "tensor<40x70xf32>", "tensor<8x16x4xf32>", "tensor<4x16x8xf32>"
CODES, C = "tensor<4x8xi32>", "tensor<4x8xi8>"
TEXT = f"""func.func @main(%x: {X}, %y: {Y}, %z: {CODES}, %s: tensor<f32>) -> ({X}, {Z}, {C}) {{
  %0 = graph.exp %x : ({X}) -> {X}
  %1 = graph.softmax %0 axis 1 : ({X}) -> {X}
  %2 = graph.transpose %y permutation [2, 1, 0] : ({Y}) -> {Z}
  %3 = graph.requantize %z, %s to i8 rounding tflite : ({CODES}, tensor<f32>) -> {C}
  func.return %1, %2, %3 : {X}, {Z}, {C}
}}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    return path


def compiled(model: Path, cache: Path | str, target: str = "910b2") -> tuple[Program, list[str]]:
    """The program, and what is said about it."""
    found: list[Diagnostic] = []
    with diagnostic_handler(found.append):
        program = compile_file(
            str(model), Options(target=target, tiles=True, tile_cache=str(cache))
        )
    return program, [d.message for d in found if d.severity is Severity.REMARK]


def unread(program: Program) -> list[bool]:
    return [op.is_unread for op in program.module.ops if isinstance(op, TextKernelOp)]


def test_programs_are_the_same_cold_and_warm(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plain, reasons = compiled(model, "off")
    cold, remarks = compiled(model, tmp_path / "c")
    monkeypatch.setattr(kept, "new_entry", None)  # nothing is written anew
    warm, again = compiled(model, tmp_path / "c")
    assert op_text(plain.module) == op_text(cold.module) == op_text(warm.module)
    assert plain.report()["tiles"] == cold.report()["tiles"] == warm.report()["tiles"]
    assert reasons == remarks == again != []
    assert unread(plain) == []
    assert unread(cold) == unread(warm) == [True, True]
    x = np.linspace(-2, 2, 2800, dtype=np.float32).reshape(40, 70)
    y = np.arange(512, dtype=np.float32).reshape(8, 16, 4)
    z, scale = np.arange(32, dtype=np.int32).reshape(4, 8), np.float32(0.5)
    given = {"arg0": x, "arg1": y, "arg2": z, "arg3": np.asarray(scale)}
    wanted = plain.session(tiles="all").run(given)
    for name, array in warm.session(tiles="all").run(given).items():
        assert array.tobytes() == wanted[name].tobytes()
    assert not any(unread(warm))
    assert op_text(plain.module) == op_text(warm.module)


def test_ops_are_made_when_they_are_asked_for(model: Path, tmp_path: Path):
    program, _ = compiled(model, tmp_path / "c")
    kernel = next(op for op in program.module.ops if isinstance(op, TextKernelOp))
    assert [*walk(kernel)] == [kernel]
    assert kernel.is_unread
    kernel.verify()
    assert kernel.is_unread
    copy, text = kernel.clone(), str(kernel)
    assert not kernel.is_unread
    assert str(copy) == text == str(kernel)
    kernel.verify()
    assert len(list(kernel.walk())) == len(list(walk(kernel))) > 10


def test_equal_programs_are_read_simulated_and_proved_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In all modules, by those who change nothing."""
    calls = Counter[str]()
    monkeypatch.setattr(kept, "_parsed", {})
    for module, name in ((kept, "parse_module"), (tiles, "check_kernel"), (report, "_times_of")):

        def counted(*args: Any, name: str = name, call: Any = getattr(module, name)) -> Any:
            calls[name] += 1
            return call(*args)

        monkeypatch.setattr(module, name, counted)
    for _ in range(3):
        program, _ = compiled(model, tmp_path / "c")
        assert check_program(program.module).problems == []
        assert simulate(program.module, Target.load("910b2")).latency_us > 0
        assert all(unread(program))
    assert calls == dict.fromkeys(("parse_module", "check_kernel", "_times_of"), 2)
    kernel = next(op for op in program.module.ops if isinstance(op, TextKernelOp))
    next(op for op in kernel.walk() if isinstance(op, WaitOp)).detach()
    assert check_program(program.module).problems  # it is another one now
    again, _ = compiled(model, tmp_path / "c")
    assert check_program(again.module).problems == []


def test_damaged_entries_are_written_anew(model: Path, tmp_path: Path):
    cache = tmp_path / "c"
    cold, reasons = compiled(model, cache)
    files = [f for f in sorted(cache.iterdir()) if f.suffix != ".json"]
    texts = [f.read_text() for f in files]
    assert len(files) == 3  # one of them says why there is no program
    for file, damaged in zip(files, ("", texts[0], texts[2][:-2]), strict=True):
        file.write_text(damaged)
    again, remarks = compiled(model, cache)
    assert op_text(again.module) == op_text(cold.module)
    assert sum("it is written anew" in r for r in remarks) == 3
    assert [f.read_text() for f in files] == texts
    files[0].chmod(0o666)
    _, remarks = compiled(model, cache)
    assert sum("others may write to it" in r for r in remarks) == 1
    assert compiled(model, cache)[1] == reasons


def test_folders_that_cannot_keep_are_no_error(model: Path, tmp_path: Path):
    plain, _ = compiled(model, "off")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for folder in (open_to_all, model / "c"):
        program, remarks = compiled(model, folder)
        assert op_text(program.module) == op_text(plain.module)
        assert any("no tile program is kept" in r for r in remarks)
    assert not list(open_to_all.iterdir())


def entries(cache: Path) -> int:
    """Programs, or why there is none; a file beside them has what fusion was told."""
    return len([path for path in cache.iterdir() if not path.name.startswith("asked-")])


def test_what_an_entry_follows_from(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = tmp_path / "c"
    compiled(model, cache)
    compiled(model, cache, "910b3")
    assert entries(cache) == 6
    model.write_text(TEXT.replace("@main(", "@main(%w: tensor<f32>, "))
    compiled(model, cache)  # kernels are the same
    assert entries(cache) == 6
    model.write_text(TEXT.replace("graph.exp", "graph.tanh"))
    compiled(model, cache)
    assert entries(cache) == 7
    monkeypatch.setattr(kept, "compiler", lambda: "another version")
    compiled(model, cache)
    assert entries(cache) == 10


def kernels_of(*, bias: str, limit: str, scales: str = "1.0, 2.0") -> str:
    t, wide, v = "tensor<8x16xf32>", "tensor<8x32xf32>", "tensor<16xf32>"
    return f"""npu_task.kernel @k on vector {{
^bb0(%x: {t}):
  %c = graph.constant dense<[{bias}]> : {v}
  %d = graph.constant dense<{limit}> : tensor<f32>
  %0 = fused_op.region(%x, %c, %d) : ({t}, {v}, tensor<f32>) -> {t} {{
  ^bb1(%1: {t}, %2: {v}, %3: tensor<f32>):
    %4 = graph.add %1, %2 : ({t}, {v}) -> {t}
    %5 = graph.minimum %4, %3 : ({t}, tensor<f32>) -> {t}
    fused_op.yield %5 : {t}
  }}
  npu_task.return %0 : {t}
}}
npu_task.kernel @resize on vector {{
^bb0(%x: {t}):
  %s = graph.constant dense<[{scales}]> : tensor<2xf32>
  %0 = graph.resize %x scales %s : ({t}, tensor<2xf32>) -> {wide}
  npu_task.return %0 : {wide}
}}"""


def test_layers_that_differ_in_a_vector_share_a_program(tmp_path: Path):
    vectors = [", ".join(str(i * s) for i in range(1, 17)) for s in (0.5, 1.5)]
    texts = [
        (2, kernels_of(bias=vectors[0], limit="6.0")),
        (2, kernels_of(bias=vectors[1], limit="6.0")),
        (3, kernels_of(bias=vectors[1], limit="5.0")),  # a single number stands in the program
        (4, kernels_of(bias=vectors[1], limit="5.0", scales="1.0, 2.05")),  # a parameter
    ]
    for count, text in texts:
        module = parse_module(context(), SourceText("k", text))
        LowerKernelsPass("910b2", finish=True, cache=str(tmp_path)).apply(context(), module)
        alone = parse_module(context(), SourceText("k", text))
        LowerKernelsPass("910b2", finish=True).apply(context(), alone)
        assert op_text(module) == op_text(alone)
        assert len(list(tmp_path.iterdir())) == count


def test_equal_kernels_share_a_program_without_a_folder(monkeypatch: pytest.MonkeyPatch):
    written: list[str] = []
    write = LowerKernelsPass.written

    def watched(self: Any, kernel: Any, *rest: Any) -> Any:
        written.append(kernel.sym_name.data)
        return write(self, kernel, *rest)

    monkeypatch.setattr(LowerKernelsPass, "written", watched)
    text = "\n".join(
        kernels_of(bias=", ".join(["1.5", *[str(i)] * 15]), limit=limit)
        .replace("@k", f"@k{i}")
        .replace("@resize", f"@resize{i}")
        for i, limit in enumerate(("6.0", "6.0", "5.0"))
    )
    module = parse_module(context(), SourceText("k", text))
    LowerKernelsPass("910b2", finish=True).apply(context(), module)
    assert written == ["k0", "resize0", "k2"]
    programs = [op for op in module.ops if isinstance(op, KernelOp)]
    texts = [op_text(p).replace(p.sym_name.data, "") for p in programs]
    assert [p.sym_name.data for p in programs if p.sym_name.data.startswith("k")] == [
        "k0_tiles",
        "k1_tiles",
        "k2_tiles",
    ]
    assert len(set(texts)) == len(written)
    module.verify()


def test_where_programs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/users")
    assert tile_cache(Options()) == os.path.join("/users", "ge", "tiles")
    assert tile_cache(Options(cache_dir="/c")) == os.path.join("/c", "tiles")
    assert tile_cache(Options(cache_dir="/c", tile_cache="/t")) == "/t"
    assert tile_cache(Options(tile_cache="off")) == ""


@tile.kernel(M=16, factor=2.0)
def scaled(c: Any, x: Any, out: Any, M: int, factor: float):
    t = c.ub(M, x.shape[1], "f32")
    for i in c.share(x.shape[0] // M):
        c.load(t, x[i * M :])
        t[:] = t * factor
        c.store(out[i * M :], t)


def same(x: Any) -> Any:
    return x


def test_kernels_by_hand_are_written_anew(tmp_path: Path):
    """What they are does not show in the program."""
    text = """npu_task.kernel @k on vector {
^bb0(%x: tensor<32x64xf32>):
  %0 = fused_op.custom "Scaled"(%x) : (tensor<32x64xf32>) -> tensor<32x64xf32> {
  ^bb1(%1: tensor<32x64xf32>):
    %2 = graph.add %1, %1 : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    fused_op.yield %2 : tensor<32x64xf32>
  }
  npu_task.return %0 : tensor<32x64xf32>
}"""
    found: list[str] = []
    for factor in (2.0, 3.0):
        product = scaled.returning(same, cores=2, factor=factor)
        with having(UserKernels({"Scaled": product})):
            module = parse_module(context(), SourceText("k", text))
            LowerKernelsPass("910b2", finish=True, cache=str(tmp_path)).apply(context(), module)
        found.append(op_text(module))
    assert ["3.0" in text for text in found] == [False, True], found


def test_programs_are_finished_for_the_target_of_a_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also where the file is missing: the program has what stood in it."""
    preset = (files("ge.dialects.targets") / "910b2.toml").read_text("utf-8")
    smaller = re.sub(r"(?m)^ub_bytes = .*$", "ub_bytes = 8192", preset)
    (tmp_path / "my.toml").write_text(smaller.replace('"910b2"', '"mine"'))
    monkeypatch.chdir(tmp_path)
    module = compile_file(str(model), Options(target="my.toml")).module
    (tmp_path / "my.toml").unlink()
    LowerKernelsPass(finish=True).apply(context(), module)
    programs = [op for op in module.ops if isinstance(op, KernelOp)]
    allocs = [a for p in programs for a in p.walk() if isinstance(a, AllocOp)]
    assert len(programs) > 1
    assert max(o + a.tile.bytes for a in allocs for o in a.offsets or ()) <= 8192


def test_a_warm_compile_imports_no_lowering(model: Path, tmp_path: Path):
    """Importing them takes longer than to read what is kept. Each compile is a process: one that
    has compiled before knows more than its folder keeps."""
    kinds = "table", "matmul.matmul", "rows.vector", "language.tracing", "language.values"
    code = (
        "import sys\n"
        "from ge.lowering.driver.compiler import compile_file\n"
        "from ge.lowering.pipeline.options import Options\n"
        f"options = Options(target='910b2', tiles=True, tile_cache={str(tmp_path / 'c')!r})\n"
        f"program = compile_file({str(model)!r}, options)\n"
        "print(program.report()['tiles']['on_tiles']['launches'])\n"
        f"print([k for k in {kinds} if f'ge.runtime.library.{{k}}' in sys.modules])\n"
    )
    cold, warm = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert cold.stdout.startswith("2\n['table'")
    assert warm.stdout == "2\n[]\n"


def test_what_workspaces_take_is_known_without_reading_programs(tmp_path: Path):
    q, k = "tensor<1x2x1x32xf16>", "tensor<1x1x2048x32xf16>"
    model = tmp_path / "m.mlir"
    model.write_text(f"""func.func @main(%q: {q}, %k: {k}, %v: {k}) -> ({q}) {{
      %0 = graph.attention %q, %k, %v : ({q}, {k}, {k}) -> {q}
      func.return %0 : {q}
    }}""")
    for _ in range(2):
        program, _ = compiled(model, tmp_path / "c")
    assert program.report()["memory"]["workspace_bytes"] > 0
    assert unread(program) == [True]


# ---- of open sizes


N = "tensor<?x70xf32>"
OPEN = f"""func.func @main(%x: {N} {{graph.name = "x", graph.dims = ["n", ""]}},
    %k: tensor<?xi32> {{graph.name = "k", graph.dims = ["n"]}}, %s: tensor<f32>)
    -> ({N}, tensor<?xi8>) {{
  %0 = graph.exp %x : ({N}) -> {N}
  %1 = graph.softmax %0 axis 1 : ({N}) -> {N}
  %2 = graph.requantize %k, %s to i8 rounding tflite
      : (tensor<?xi32>, tensor<f32>) -> tensor<?xi8>
  func.return %1, %2 : {N}, tensor<?xi8>
}}"""


def test_programs_of_open_sizes_are_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second compilation binds nothing and writes nothing, and no kernel is said to have no
    program that gets one. Another program has its own."""
    written: list[str] = []
    write = binding.open_program

    def counted(kernels: list[Any], *more: Any) -> KernelOp:
        written.append(kernels[0].sym_name.data)
        return write(kernels, *more)

    monkeypatch.setattr(binding, "open_program", counted)
    model.write_text(OPEN)
    cold, remarks = compiled(model, tmp_path / "c")
    count = len(written)
    with monkeypatch.context() as patched:
        patched.setattr(binding.Binder, "kernels", None)
        warm, again = compiled(model, tmp_path / "c")
    assert len(written) == count > 0
    assert op_text(cold.module) == op_text(warm.module)
    assert cold.report()["tiles"] == warm.report()["tiles"]
    (other,) = cold.report()["tiles"]["others"]
    assert [r.partition(" ")[2] for r in remarks if "tile program" in r] == [
        f"has no tile program: {other['reason']}"
    ]
    assert again == remarks
    assert unread(warm)
    assert all(unread(warm))
    assert cold.bind is not None
    assert warm.bind is not None
    assert op_text(cold.bind({"n": 3}).module) == op_text(warm.bind({"n": 3}).module)
    assert not all(unread(warm))
    model.write_text(OPEN.replace("?x70", "?x72"))
    compiled(model, tmp_path / "c")
    assert len(written) == 2 * count
