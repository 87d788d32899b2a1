"""Tile programs whose sizes are arguments: numbers and proofs at many sizes, and what binding does
not do."""

import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from counting_steps import calls
from tile_lowering import assert_close

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.dialects.tile.text import BoundKernelOp
from ge.lowering.driver.compiler import compile_file, context, lower_program
from ge.lowering.driver.program import Program
from ge.lowering.driver.tiles import reason_of
from ge.lowering.pipeline.options import Options
from ge.lowering.steps import written
from ge.runtime.check.proof import check_program
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session


def main(inputs: str, lines: str, outputs: str, values: str = "%y") -> str:
    """A function of inputs "x: 8x?xf32 ,n"."""
    args: list[str] = []
    for part in inputs.split(";"):
        name, shape, dims = part.split()
        quoted = ", ".join(f'"{d}"' for d in dims.split(","))
        args.append(f'%{name}: tensor<{shape}> {{graph.name = "{name}", graph.dims = [{quoted}]}}')
    outs = [f'tensor<{o}> {{graph.name = "y{i}"}}' for i, o in enumerate(outputs.split())]
    types = ", ".join(f"tensor<{o}>" for o in outputs.split())
    head = f"func.func @main({', '.join(args)}) -> ({', '.join(outs)})"
    return f"{head} {{\n{lines}\nfunc.return {values} : {types}\n}}"


X, T = "tensor<?x?x48xf32>", "tensor<?x?xf32>"
BY_FAMILY = {
    "elementwise": main(
        "x ?x?x48xf32 b,s,;z ?x48xf32 s,",
        f"""%0 = graph.mul %x, %z : ({X}, tensor<?x48xf32>) -> {X}
        %y = graph.tanh %0 : ({X}) -> {X}""",
        "?x?x48xf32",
    ),
    "rows": main(
        "x ?x?x48xf32 b,s,;w 48xf32 _",
        f"""%0 = graph.softmax %x : ({X}) -> {X}
        %y = graph.mul %0, %w : ({X}, tensor<48xf32>) -> {X}""",
        "?x?x48xf32",
    ),
    "open rows": main("x ?x?xf32 b,s", f"%y = graph.softmax %x : ({T}) -> {T}", "?x?xf32"),
    "moves": main(
        "x ?x?x48xf32 b,s,",
        f"%y = graph.transpose %x permutation [0, 2, 1] : ({X}) -> tensor<?x48x?xf32>",
        "?x48x?xf32",
    ),
    "gathers": main(
        "x 99x48xf32 ,;i ?x?xi64 b,s",
        f"%y = graph.gather %x, %i : (tensor<99x48xf32>, tensor<?x?xi64>) -> {X}",
        "?x?x48xf32",
    ),
    "matmul": main(
        "x ?x?x48xf32 b,s,;w 48x80xf32 ,",
        f"""%0 = graph.matmul %x, %w : ({X}, tensor<48x80xf32>) -> tensor<?x?x80xf32>
        %y = graph.relu %0 : (tensor<?x?x80xf32>) -> tensor<?x?x80xf32>""",
        "?x?x80xf32",
    ),
    "open columns": main(
        "x 33x48xf32 ,;w 48x?xf32 ,s",
        "%y = graph.matmul %x, %w : (tensor<33x48xf32>, tensor<48x?xf32>) -> tensor<33x?xf32>",
        "33x?xf32",
    ),
    "attention": main(
        "q ?x4x?x16xf32 b,,t,;k ?x4x?x16xf32 b,,s,;v ?x4x?x16xf32 b,,s,",
        """%y = graph.attention %q, %k, %v : (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
            tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>""",
        "?x4x?x16xf32",
    ),
    "convolution": main(
        "x ?x8x9x9xf32 b,,,;w 16x8x3x3xf32 ,,,",
        """%0 = graph.conv %x, %w pads [1, 1, 1, 1]
            : (tensor<?x8x9x9xf32>, tensor<16x8x3x3xf32>) -> tensor<?x16x9x9xf32>
        %y = graph.relu %0 : (tensor<?x16x9x9xf32>) -> tensor<?x16x9x9xf32>""",
        "?x16x9x9xf32",
    ),
}  # fmt: skip


@cache
def compiled(text: str, target: str) -> Program:
    program = Program(parse_module(context(), SourceText("test", text)), {}, "test.mlir")
    lower_program(program, Options(target=target, tiles=True, tile_cache="off"))
    return program


def kernels(program: Program) -> Sequence[KernelOp]:
    return [op for op in program.module.ops if isinstance(op, KernelOp)]


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("family", BY_FAMILY)
def test_all_families_have_programs_whose_sizes_are_arguments(family: str, target: str):
    program = compiled(BY_FAMILY[family], target)
    assert [reason_of(k) for k in kernels(program)] == [""] * len(kernels(program))
    assert any(isinstance(op, TileKernelOp) and op.is_open for op in program.module.ops)


SIZE = st.one_of(st.integers(1, 9), st.sampled_from((15, 16, 17, 63, 64, 65, 127, 131, 257)))


@pytest.mark.parametrize("family", BY_FAMILY)
@given(b=st.integers(1, 5), s=SIZE, t=SIZE)
@settings(max_examples=settings.default.max_examples * 3 // 8, deadline=None)
def test_numbers_and_proofs_at_many_sizes(family: str, b: int, s: int, t: int):
    program = compiled(BY_FAMILY[family], "910b2")
    assert program.bind is not None
    names = {d for k, d in program.compilation.unknown.items() if k == "dims" for d in d}
    sizes = {name: size for name, size in {"b": b, "s": s, "t": t}.items() if name in names}
    bound = program.bind(sizes)
    inputs = random_inputs(bound.module, 0, {}, {})
    wanted = Session(bound.module, {}).run(inputs)
    found = Session(bound.module, {}, "910b2", tiles="all", poison=True).run(inputs)
    for name, array in wanted.items():
        assert_close(found[name], array)
    assert not check_program(bound.module, None).problems


@pytest.mark.parametrize("family", BY_FAMILY)
def test_sizes_that_are_arguments_say_how_much_there_is_to_do(family: str):
    """Programs do not go through what the largest sizes would have."""
    program, target = compiled(BY_FAMILY[family], "910b2"), Target.load("910b2")
    names = {d for k, d in program.compilation.unknown.items() if k == "dims" for d in d}

    def instructions(size: int, batch: int) -> int:
        assert program.bind is not None
        sizes = dict.fromkeys(names, size) | dict.fromkeys(names & {"b"}, batch)
        ops = program.bind(sizes).module.ops
        tiles = [op for op in ops if isinstance(op, TileKernelOp) and not op.is_open]
        return sum(p.instructions for op in tiles for p in TileKernel(op, target).time().pipes)

    assert 0 < 2 * instructions(2, 1) <= instructions(600 if "b" in names else 6000, 48)


def test_nothing_is_proved_of_programs_before_sizes_are_known():
    """Nor of one that has no size for an argument, as it is for a batch of 1."""
    t = "tensor<?x48xf32>"
    lines = f"%y = graph.softmax %x : ({t}) -> {t}"
    program = compiled(main("x ?x48xf32 n,", lines, "?x48xf32"), "910b2")
    known = [op.is_open for op in program.module.ops if isinstance(op, TileKernelOp)]
    assert sorted(known) == [False, True]
    assert not check_program(program.module, None).tiles
    assert program.bind is not None
    for n in (1, 5):
        (proof,) = check_program(program.bind({"n": n}).module, None).tiles
        assert not proof.problems


def test_binding_writes_no_program(monkeypatch: pytest.MonkeyPatch):
    program = compiled(BY_FAMILY["matmul"], "910b2")

    def refuse(*_: object) -> None:
        raise AssertionError("a program is written")

    monkeypatch.setattr(written, "tile_program", refuse)
    assert program.bind is not None
    for b, s in ((2, 301), (1, 302), (7, 1)):  # to which nothing was bound yet
        bound = program.bind({"b": b, "s": s})
        programs = [op for op in bound.module.ops if isinstance(op, TileKernelOp)]
        assert [type(op) for op in programs] == [BoundKernelOp]
        assert programs[0].is_unread
        assert not programs[0].is_open


@pytest.mark.parametrize(
    "sizes",
    [
        [{"batch": 2, "past": n} for n in (7, 8, 9)],
        pytest.param([{"batch": n, "past": 8 * n} for n in (1, 2, 3)], marks=pytest.mark.soak),
    ],
)
def test_programs_cost_little_when_others_are_bound(sizes: list[dict[str, int]]):
    """Nobody walks through them before they run: schedules go by estimates between two ends."""
    path = str(Path(__file__).parent.parent / "models" / "gpt2_decode.dynamic.onnx")
    *first, last = sizes
    taken: list[int] = []
    for tiles in (False, True):
        program = compile_file(path, Options(target="910b2", tiles=tiles, tile_cache="off"))
        bind = program.bind
        assert bind is not None
        for each in first:
            bind(each)
        taken.append(calls(partial(bind, last)))
    assert taken[1] <= 1.25 * taken[0]
