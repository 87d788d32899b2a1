"""What repeats itself is neither issued nor simulated again, and times are the same."""

import sys
from contextlib import nullcontext
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import kernels_by_hand as examples
from tile_lowering import lowered

import ge
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp
from ge.runtime.cores import replay
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.cores.replay import (
    END,
    EQUAL_CYCLES,
    MOST_KNOWN,
    POP,
    PUSH,
    RUN,
    SET,
    WAIT,
    BadFlag,
    Known,
    Latencies,
    LoopRound,
    Record,
    simulate,
)
from ge.runtime.cores.steps import Signature

B2 = Target.load("910b2")


def of(shape: tuple[int, ...], element: str = "f16") -> Any:
    return ge.tile.Tensor(shape, element)


EXAMPLES = {
    "gemm": (examples.gemm, [of((4096, 700)), of((700, 1030)), of((4096, 1030))]),
    "norm": (examples.rms_norm, [of((3001, 512)), of((1, 512)), of((3001, 512))]),
    "conv": (examples.conv3x3, [of((34, 300, 64)), of((9, 64, 64), "f16"), of((32, 298, 64))]),
    "flash": (
        examples.flash,
        [of((4096, 64)), of((640, 64)), of((640, 64)), of((4096, 64), "f32")],
    ),
}


def run_of(name: str) -> TileKernel:
    kernel, arguments = EXAMPLES[name]
    program = kernel.on(*arguments, cores=5)
    return TileKernel(program.kernel, program.target)


COMPILED = {
    "transposed": "(%a: tensor<1000x700xf32>) -> tensor<700x1000xf32>: %r = graph.transpose %a "
    "permutation [1, 0] : (tensor<1000x700xf32>) -> tensor<700x1000xf32>",
    "softmax": "(%a: tensor<4000x1500xf16>) -> tensor<4000x1500xf16>: %r = graph.softmax %a "
    "axis 1 : (tensor<4000x1500xf16>) -> tensor<4000x1500xf16>",
    "matmul": "(%a: tensor<2000x1100xbf16>, %b: tensor<1100x3000xbf16>) -> tensor<2000x3000xbf16>: "
    "%r = graph.matmul %a, %b : (tensor<2000x1100xbf16>, tensor<1100x3000xbf16>) -> "
    "tensor<2000x3000xbf16>",
    "attention": "(%q: tensor<1x16x1024x64xf16>, %k: tensor<1x16x1024x64xf16>, "
    "%v: tensor<1x16x1024x64xf16>) -> tensor<1x16x1024x64xf16>: %r = graph.attention %q, %k, %v "
    "causal true : (tensor<1x16x1024x64xf16>, tensor<1x16x1024x64xf16>, "
    "tensor<1x16x1024x64xf16>) -> tensor<1x16x1024x64xf16>",
}


def compiled(name: str) -> TileKernel:
    head, line = COMPILED[name].split(": %r", 1)
    result = head.split("->")[1]
    text = f"func.func @main{head} {{\n  %r{line}\n  func.return %r : {result}\n}}\n"
    (program,) = (op for op in lowered(text).module.ops if isinstance(op, KernelOp))
    return TileKernel(program, B2)


def nothing(*_: Any) -> None:
    return None


def without_rounds(*_: Any) -> bool:
    return False


CASES = [*((run_of, name) for name in EXAMPLES), *((compiled, name) for name in COMPILED)]


@pytest.mark.parametrize(("make", "name"), CASES)
def test_times_are_those_of_all_steps(
    make: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = make(name)
    time = short.time()
    monkeypatch.setattr(Signature, "key", nothing)
    monkeypatch.setattr(replay, "run_rounds", without_rounds)
    whole = make(name)
    every = whole.time()
    assert short.issued == whole.issued
    assert time.core_us == pytest.approx(every.core_us, rel=1e-9)
    for a, b in zip(time.pipes, every.pipes, strict=True):
        assert (a.pipe, a.instructions) == (b.pipe, b.instructions)
        assert a.busy_us == pytest.approx(b.busy_us, rel=1e-6, abs=1e-6)
        assert a.waits == pytest.approx(b.waits, rel=1e-6, abs=1e-6)


def test_a_long_matmul_is_timed_by_a_few_of_its_tiles() -> None:
    run = compiled("matmul")
    run.time()
    tiles = ceil(2000 / 192) * ceil(3000 / 160)
    (known,) = run.known.values()
    assert None not in known.passed.values()
    assert 10 * len(known.passed) < tiles


LATENCIES = Latencies(20.0, 220.0)


def looped(seed: int) -> tuple[list[list[int]], list[Record], list[float], list[LoopRound]]:
    """Three pipes in a loop: the second one works on what the first one brings into a ring of two,
    and gives it to the third through a fifo; some steps are of another kind."""
    random, records, cycles = Random(seed), list[Record](), list[float]()

    def record(kind: int, pipe: int, channel: int = -1, us: float = 0.0) -> int:
        records.append(Record(kind, pipe, channel, len(records), ()))
        cycles.append(us)
        return len(records) - 1

    ready = [(record(SET, 0, c), record(WAIT, 1, c)) for c in (0, 1)]
    free = [(record(SET, 1, c), record(WAIT, 0, c)) for c in (2, 3)]
    loads = [record(RUN, 0, us=random.choice([90.0, 333.3, 1000.1])) for _ in range(2)]
    work = [record(RUN, 1, us=random.uniform(50, 900)) for _ in range(2)]
    push, pop = (record(k, p, 4, random.uniform(10, 700)) for k, p in ((PUSH, 1), (POP, 2)))
    lanes: list[list[int]] = [[], [free[0][0], free[1][0]], []]
    rounds: list[LoopRound] = []
    other = random.randrange(60)
    for i in range(60):
        kind = int(i == other)
        rounds.append(LoopRound((i % 2, kind), tuple(map(len, lanes))))
        lanes[0] += [free[i % 2][1], loads[kind], ready[i % 2][0]]
        lanes[1] += [ready[i % 2][1], work[kind], push, free[i % 2][0]]
        lanes[2] += [pop]
    lanes[0] += [free[0][1], free[1][1]]
    return lanes, records, cycles, rounds


@pytest.mark.parametrize("seed", range(20))
def test_rounds_that_repeat_are_not_run(seed: int) -> None:
    """With and without the end of the last round; then again, when all of them are known."""
    lanes, records, cycles, rounds = looped(seed)
    whole = simulate(lanes, records, cycles, {4: 2}, LATENCIES)
    end = LoopRound(END, (len(lanes[0]) - 2, len(lanes[1]), len(lanes[2])))
    for given in ([*rounds, end], rounds):
        known, off = Known(), len(given) * EQUAL_CYCLES
        for _ in range(2):
            short = simulate(lanes, records, cycles, {4: 2}, LATENCIES, False, given, (), known)
            assert short.ends == pytest.approx(whole.ends, rel=1e-12, abs=off)
            for a, b in zip(short.waited, whole.waited, strict=True):
                assert a == pytest.approx(b, rel=1e-9, abs=len(given) * off)
            assert 0 < len(known.passed) < len(given) // 2
            assert None not in known.passed.values()


def test_rounds_that_wait_for_the_next_one_are_run_together() -> None:
    """What the first pipe waits for in a round is set in the one after."""
    records = [
        Record(RUN, 0, -1, 0, ()),
        Record(WAIT, 0, 0, 1, ()),
        Record(RUN, 1, -1, 2, ()),
        Record(SET, 1, 0, 3, ()),
    ]
    lanes, cycles = [[0, 0, 0, 1] * 100, [2, 2, 2, 3] * 100], [70.0, 0.0, 90.3, 0.0]
    rounds = [LoopRound(i % 2, (4 * ((i + 1) // 2), 4 * (i // 2))) for i in range(201)]
    known = Known()
    short = simulate(lanes, records, cycles, {}, LATENCIES, False, rounds, (), known)
    assert short.ends == pytest.approx(simulate(lanes, records, cycles, {}, LATENCIES).ends)
    assert len(known.passed) < 12
    assert {passed is None for passed in known.passed.values()} == {True, False}


def test_rounds_without_a_pace_are_run_one_by_one() -> None:
    """The second pipe falls behind the first one more and more."""
    records = [Record(RUN, pipe, -1, pipe, ()) for pipe in (0, 1)]
    lanes, cycles = [[0] * 1000, [1] * 1000], [1.0, 2.0]
    rounds = [LoopRound(0, (i, i)) for i in range(1001)]
    known = Known()
    short = simulate(lanes, records, cycles, {}, LATENCIES, False, rounds, (), known)
    assert short.ends == [1000.0, 2000.0]
    assert len(known.passed) == MOST_KNOWN


def test_a_flag_that_is_set_twice_is_seen_in_rounds() -> None:
    """The pipe that waits is slower than the one that sets, and nothing holds that up."""
    records = [
        Record(SET, 0, 0, 0, ()),
        Record(RUN, 0, -1, 1, ()),
        Record(WAIT, 1, 0, 2, ()),
        Record(RUN, 1, -1, 3, ()),
    ]
    rounds = [LoopRound(0, (2 * i, 2 * i)) for i in range(50)]
    for slow, wrong in ((5.0, False), (500.0, True)):
        for given in ((), rounds):
            with pytest.raises(BadFlag) if wrong else nullcontext():
                simulate(
                    [[0, 1] * 50, [2, 3] * 50], records, [0.0, 100.0, 0.0, slow], {}, LATENCIES,
                    rounds=given,
                )  # fmt: skip
