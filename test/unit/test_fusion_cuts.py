"""The search for where a launch that multiplies begins and ends."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16
from xdsl.ir import Block, Operation

from ge.dialects.fused_op import Body, multiplies
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.support.types import tensor
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import compile_file, context
from ge.lowering.pipeline.options import Options
from ge.runtime.library.asking import asked
from ge.transforms.fusion import merging
from ge.transforms.fusion.fuse_linear import FuseLinearPass
from ge.transforms.fusion.groups import Group
from ge.transforms.fusion.merging import (
    Cut,
    CutSearch,
    Merger,
    Time,
    added,
    at_least_us,
    needs_vector_cores,
)
from ge.transforms.shapes.open_kernels import Question


class Launches:
    """What launches and others take, each with as many ops before and behind the products."""

    def __init__(self, before: int, products: int, behind: int, draw: Any) -> None:
        self.first, self.last = before, before + products
        self.count = self.last + behind
        self.asked = list[Cut]()
        us, refused = st.integers(0, 12), st.integers(0, 5)
        self.ends = [draw(us) for _ in range(behind + 1)]
        self.refused = draw(refused) == 0, draw(st.integers(0, before))
        steps = [draw(us) for _ in range(before)]
        self.begins = [sum(steps[b:]) for b in range(before + 1)]  # less if they begin later
        self.apart = {cut: draw(us) for cut in self.cuts()}
        self.bound = draw(st.integers(0, 4)) / 4

    def cuts(self) -> list[Cut]:
        begins, ends = range(self.first + 1), range(self.last, self.count + 1)
        return [(b, e) for b in begins for e in ends]

    def us(self, b: int, e: int) -> float:
        return 5.0 + self.begins[b] + self.ends[e - self.last]

    def launch(self, b: int, e: int) -> Time:
        self.asked.append((b, e))
        return self.refused[0] and b < self.refused[1], self.us(b, e)

    def others(self, b: int, e: int) -> float:
        return 0.0 if (b, e) == (0, self.count) else float(self.apart[b, e])

    def search(self) -> CutSearch:
        at_least = self.bound
        return CutSearch(
            *(self.count, self.first, self.last),
            *(self.launch, self.others, lambda b, e: at_least * self.us(b, e)),
            lambda b, e: at_least * self.others(b, e),
        )

    def each_in_turn(self) -> Cut:
        """The fastest, where all are asked."""
        whole, begins = (0, self.count), dict.fromkeys((0, self.first))
        first = [whole, *((b, e) for b, e in self.cuts() if b in begins and (b, e) != whole)]
        best = min(first, key=self.time)
        more = [best, *((b, best[1]) for b in range(1, self.first))]
        return min(more, key=self.time)

    def time(self, cut: Cut) -> Time:
        return added(self.launch(*cut), self.others(*cut))


@settings(max_examples=300)
@given(st.integers(0, 8), st.integers(1, 3), st.integers(0, 4), st.booleans(), st.data())
def test_the_fastest_is_found(
    before: int, products: int, behind: int, products_first: bool, data: st.DataObject
) -> None:
    launches = Launches(before, products, behind, data.draw)
    found = launches.search().fastest(products_first)
    asked = list(launches.asked)
    assert found == launches.each_in_turn()
    assert len(asked) == len(set(asked)) <= 2 * (behind + 1) + before


def test_few_beginnings_are_asked_of_many() -> None:
    """Of 31 those near the one from which on it is faster."""
    asked = list[Cut]()

    def launch(b: int, e: int) -> Time:
        asked.append((b, e))
        return False, 50.0 if b < 23 else 20.0

    search = CutSearch(31, 30, 31, launch, lambda b, e: float(b), lambda b, e: 0.0)
    assert search.fastest(False) == (23, 31)
    assert len(asked) < 10


def test_what_is_slower_by_its_bounds_is_not_asked_about() -> None:
    """Nor are the others: a launch of all takes 9 us, and apart none goes below 5 and 6."""
    asked = list[Cut]()

    def others(b: int, e: int) -> float:
        asked.append((b, e))
        return 0.0 if e == 2 else 7.0

    search = CutSearch(
        *(2, 0, 1, lambda b, e: (False, 9.0 if e == 2 else 5.0)),
        *(others, lambda b, e: 5.0, lambda b, e: 0.0 if e == 2 else 6.0),
    )
    assert search.fastest(False) == (0, 2)
    assert asked == [(0, 2)]


def test_what_passes_freely_is_asked_once() -> None:
    asked = list[Cut]()

    def launch(b: int, e: int) -> Time:
        asked.append((b, e))
        return False, 9.0

    search = CutSearch(3, 0, 1, launch, lambda b, e: 0.0, lambda b, e: 9.0)
    assert search.fastest(False) == (0, 3)
    assert asked == [(0, 3)]


MODELS = "bert_base.structure", "resnet50.ts.tiny", "vit_b16.op20.tiny", "llama_7b_decode.fp16.tiny"


@pytest.mark.parametrize("target", ["910b2", "310p3"])
@pytest.mark.parametrize("model", MODELS)
def test_no_launch_takes_less_than_its_bound(
    model: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor runs on cores of one kind where both were said to be needed."""
    machine, seen, beside = Target.load(target), list[float](), list[float]()

    def launch_time(self: merging.Merger, ops: Sequence[Operation]) -> Time:
        refused, us = real(self, ops)
        figures = asked(body := self.body_of(ops), machine).figures
        if figures is not None:
            bound = at_least_us(body, machine)
            assert bound <= us
            if any(map(multiplies, ops)):
                if needs_vector_cores(ops, machine):
                    assert {name for name, _ in figures.cores} == {"cube", "vector"}
                seen.append(bound)
        return refused, us

    def us(self: merging.Merger, question: Question, body: Body) -> float | None:
        """Of launches beside it, which vector cores have alone."""
        found = real_us(self, question, body)
        if question is merging.launch_us and found is not None:
            assert at_least_us(body, machine) <= found
            beside.append(found)
        return found

    real, real_us = merging.Merger.launch_time, merging.Merger.us
    monkeypatch.setattr(merging.Merger, "us", us)
    monkeypatch.setattr(merging.Merger, "launch_time", launch_time)
    monkeypatch.setattr(merging, "at_least_us", lambda *_: 0.0)  # all are asked
    monkeypatch.setattr(merging, "passes_freely", lambda *_: False)
    compile_file(f"test/models/{model}.onnx", Options(target=target, tile_cache="off"))
    assert sum(map(bool, seen)) > 3
    assert len(beside) > 3


def test_launches_without_elements_have_a_bound():
    """Nothing is divided by their bytes."""
    x, w = Block(arg_types=[tensor((0, 5), f16), tensor((5, 0), f16)]).args
    assert at_least_us(Body.of(MatmulOp.of(x, w)), Target.load("910b2")) > 0


@pytest.mark.parametrize(
    ("us", "asked"),
    [
        (50.0, [["matmul"], ["matmul", "add"]]),
        (5.0, [["matmul"], ["layer_norm"], ["add", "layer_norm"]]),
    ],
)
def test_few_launches_are_asked_about_where_an_op_joins(
    us: float, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
):
    """A residual of a matmul that takes no time there: what its norm takes, with it and without it,
    is not asked. Where the least that it may take there says that the norm is the place, what it
    takes is not."""
    questions = list[list[str]]()

    def counted(merger: Merger, groups: Sequence[Group]) -> float | None:
        questions.append([op.name.removeprefix("graph.") for g in groups for op in g.ops])
        return us

    monkeypatch.setattr(Merger, "sum_us", counted)
    m, v, row = "tensor<32x64xf16>", "tensor<64x64xf16>", "tensor<64xf16>"
    text = (
        f"func.func @main(%x: {m}, %w: {v}, %r: {m}, %s: {row}) -> ({m}, {m}) {{\n"
        f"%0 = graph.matmul %x, %w : ({m}, {v}) -> {m}\n"
        f"%1 = graph.add %0, %r : ({m}, {m}) -> {m}\n"
        f"%2 = graph.layer_norm %1, %s, %s axis 1 : ({m}, {row}, {row}) -> {m}\n"
        f"func.return %1, %2 : {m}, {m}\n}}"
    )
    module = parse_module(context(), SourceText("residual", text))
    FuseLinearPass("910b2").apply(context(), module)
    assert questions[: len(asked)] == asked
    assert ["matmul", "add"] in asked or ["matmul", "add"] not in questions
