"""State that stays on the device: numbers as of the program without it, sessions, what is refused,
and planted faults."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, f32, i64

import ge
from ge.dialects.graph.stated import Typed, likely_states, state_pairs
from ge.dialects.npu_task.attributes import STATE, VALID, number
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import CopyOp, LaunchOp, Segment, SlotOp
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options
from ge.runtime.check.growing_state import states_of
from ge.runtime.check.proof import check_program
from ge.runtime.clock.clock import simulate
from ge.runtime.device.session import Session, main_of
from ge.runtime.device.state import propose_state

MODELS = Path(__file__).parents[1] / "models"
LLAMA = str(MODELS / "llama_7b_decode.fp16.tiny.onnx")
CACHE = {r"past_key_values\.(.*)": r"present.\1"}


@cache
def llama(cached: bool, **options: Any) -> ge.Program:
    """The program of the model, with its caches as state if `cached`; no test changes it."""
    return ge.compile(LLAMA, state=CACHE if cached else {}, **options)


RECURRENT = """
func.func @main(%x: tensor<4x8xf32> {graph.name = "x"}, %h: tensor<4x8xf32> {graph.name = "h"},
                %a: tensor<8xf32> {graph.name = "a"}, %b: tensor<8xf32> {graph.name = "b"},
                %p: tensor<3x8xf32> {graph.name = "p"}, %r: tensor<4x8xf32> {graph.name = "r"})
    -> (tensor<4x8xf32> {graph.name = "y"}, tensor<4x8xf32> {graph.name = "next"},
        tensor<8xf32> {graph.name = "c"}, tensor<8xf32> {graph.name = "d"},
        tensor<7x8xf32> {graph.name = "q"}) {
  %0 = graph.add %h, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.mul %1, %a : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %3 = graph.concat %p, %r axis 0 : (tensor<3x8xf32>, tensor<4x8xf32>) -> tensor<7x8xf32>
  func.return %2, %1, %b, %a, %3
      : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<7x8xf32>
}
"""
KEPT = {"h": "next", "a": "c", "b": "d"}


def module_at(level: str, state: Any = KEPT) -> ModuleOp:
    module = parse_module(context(), SourceText("state.mlir", RECURRENT))
    lower(module, Options(state=state), until=level)
    return module


def array(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def three_runs(session: Session) -> list[Any]:
    found: list[Any] = []
    for name in session.state.names:
        session.state[name] = array(len(name) + ord(name[0]), *session.state[name].shape)
    for step in range(3):
        given = {p.name: array(step, *p.shape) for p in session.inputs}
        outputs = session.run(given)
        found.append({n: v.tobytes() for n, v in outputs.items()})
        found.append({n: session.state[n].tobytes() for n in ("h", "a", "b")})
    return found


@pytest.mark.parametrize("level", Level)
def test_every_level_keeps_state(level: Level) -> None:
    """States that change places too; a module that says nothing of state has it in the session."""
    want = three_runs(Session(module_at("graph", ()), state=KEPT))
    session = Session(module_at(level), poison=True)
    assert session.input_names == ["x", "p", "r"]
    assert session.output_names == ["y", "q"]
    assert three_runs(session) == want


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.soak),
        pytest.param({"memory": 0}, marks=pytest.mark.soak),
        pytest.param({"fusion": "off"}, marks=pytest.mark.soak),
        {"share_io": True},
    ],
    ids=str,
)
def test_a_cache_is_appended_to(options: dict[str, Any]) -> None:
    file = np.load(MODELS / "llama_7b_decode.fp16.tiny.npz")
    inputs = {k[3:]: file[k] for k in file.files if k.startswith("in:")}
    without = llama(False, **options)
    want = Session(without.module, without.payload).run(inputs)
    program = llama(True, **options)
    session = Session(program.module, program.payload, sanitize=True)
    caches = {name: inputs.pop(name) for name in session.state.names}
    session.state.write(caches)
    session.fuzz_schedule(inputs, 3)
    got = session.run(inputs)
    assert list(got) == ["logits"]
    got |= {n.replace("past_key_values", "present"): session.state[n] for n in caches}
    assert {n: v.tobytes() for n, v in got.items()} == {n: v.tobytes() for n, v in want.items()}
    assert program.report()["memory"]["state_bytes"] == 3072 * len(caches)
    assert check_program(program.module).problems == []
    with pytest.raises(ge.GeError, match=r"' has \[2, 4, 12, 16\], and the program reads"):
        session.run(inputs)
    assert session.state["past_key_values.0.key"].tobytes() == got["present.0.key"].tobytes()
    session.state.write(caches)
    assert session.run(inputs)["logits"].tobytes() == want["logits"].tobytes()


def test_nothing_of_a_cache_crosses_the_link() -> None:
    tasks = simulate(llama(True).module, ge.Target.load("910_merged")).tasks
    assert sum(t.engine.startswith("dma") for t in tasks) == 4  # ids, mask, positions; logits


def test_inputs_that_look_like_state_are_proposed() -> None:
    """By names and types, with the time of their copies; not those that are state already."""
    target = ge.Target.load()
    without, kept = (llama(cached).module for cached in (False, True))
    timeline = simulate(without, target)
    proposal = propose_state(main_of(without), timeline)
    assert proposal is not None
    assert proposal.patterns == (r"past_key_values\.(.*)=present.\1",)
    said = "4 inputs look like state: 0.0 of 0.1 ms on 910b2, simulated, are their copies"
    assert str(proposal).startswith(said)
    assert 0 < proposal.copies_us < timeline.latency_us
    assert propose_state(main_of(kept), simulate(kept, target)) is None
    outputs = [Typed(name, f32, (4, 8)) for name in ("y1", "g0.1", "next1")]
    assert likely_states([Typed("x1", f32, (4, 8)), Typed("h0.2", f32, (3, 8))], outputs) == {}
    assert likely_states([Typed("k1", f32, (3, 8))], outputs) == {r"k(.*)=y\1": [("k1", "y1")]}
    found = likely_states([Typed("hidden0.1", f32, (4, 8))], outputs)
    assert found == {r"hidden(.*)=g\1": [("hidden0.1", "g0.1")]}


def test_state_is_read_written_reset_and_saved(tmp_path: Path) -> None:
    session = Session(module_at("program"))
    assert len(session.state) == 3
    assert not session.state["h"].any()
    session.state["h"] = array(1, 4, 8)
    session.state.save(tmp_path / "s.npz")
    session.state.reset()
    assert not session.state["h"].any()
    session.state.load(tmp_path / "s.npz")
    assert session.state["h"].tobytes() == array(1, 4, 8).tobytes()
    for wrong in (array(1, 8, 4), array(1, 4, 8).astype(np.float64)):
        with pytest.raises(ge.GeError, match=r"state 'h' is float32 \[4, 8\], not"):
            session.state.write({"a": array(2, 8), "h": wrong})
    assert not session.state["a"].any()  # none is written where one does not fit
    with pytest.raises(ge.GeError, match=r"cannot write ./no/folder/s\.npz."):
        session.state.save("/no/folder/s.npz")
    with pytest.raises(ge.GeError, match="there is no state '0'"):
        _ = session.state[0]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ge.GeError, match=r"there is no state 'hh'; did you mean 'h'\?"):
        _ = session.state["hh"]
    np.savez(tmp_path / "t.npz", h=array(1, 4, 8))
    with pytest.raises(ge.GeError, match=r"t.npz' has no state '[ab]'"):
        session.state.load(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"h": "nxt"}, "state 'h' becomes no output 'nxt'; outputs of its type are y, next, q"),
        ({"hh": "next"}, "state 'hh' is no input; did you mean 'h'?"),
        ({"h": "next", "[h]": "y"}, "input 'h' has two states: it becomes 'next' and 'y'"),
        ({"[hx]": "next"}, "output 'next' is the state of two inputs, 'x' and 'h'"),
        ({"h(": "next"}, "state 'h(' is no regular expression: missing )"),
        ({"h": r"\2"}, r"state '\2' is no name of an output: no such group"),
        ({"h": r"\g<x"}, r"state '\g<x' is no name of an output: missing >"),
        ({"h": "c"}, "state 'h' of float32 [4, 8] does not fit output 'c' of float32 [8]"),
        ("h", "state 'h': expected INPUT=OUTPUT"),
        ([1], "state '1': expected INPUT=OUTPUT"),
    ],
)
def test_what_is_no_state_is_refused(state: Any, message: str) -> None:
    with pytest.raises(ge.GeError) as error:
        module_at("graph", state)
    assert message in str(error.value)


@pytest.mark.parametrize("state", [{"h": 1}, {1: "next"}])
def test_patterns_are_texts(state: Any) -> None:
    with pytest.raises(ge.GeError, match="expected two names, input and output"):
        state_pairs(state, [], [])


# ---- planted faults --------------------------------------------------------------------------


def slot_of(module: ModuleOp, name: str) -> SlotOp:
    return next(op for op in states_of(main_of(module)) if op.attributes[STATE] == StringAttr(name))


def unnamed(module: ModuleOp) -> None:
    del slot_of(module, "h").attributes[STATE]


def named_twice(module: ModuleOp) -> None:
    slot_of(module, "a").attributes[STATE] = StringAttr("b")


def not_initialised(module: ModuleOp) -> None:
    slot_of(module, "p").attributes[VALID] = DenseArrayBase.from_list(i64, [2, 8])


def without_word(module: ModuleOp) -> None:
    del slot_of(module, "h").attributes[VALID]


def overlapping(module: ModuleOp) -> None:
    slot_of(module, "a").properties["offset"] = slot_of(module, "h").offset


def not_counted(module: ModuleOp) -> None:
    main_of(module).attributes["npu_task.state_bytes"] = number(512)


def in_the_arena(module: ModuleOp) -> None:
    slot_of(module, "b").properties["segment"] = Segment.of("arena")


def not_updated(module: ModuleOp) -> None:
    kept = slot_of(module, "p").result
    copies = (op for op in main_of(module).walk() if isinstance(op, CopyOp))
    next(op for op in copies if owner_of(op.target) is kept).detach()


def overwritten(module: ModuleOp) -> None:
    """An output of a launch is put where a state is."""
    launch = next(op for op in main_of(module).walk() if isinstance(op, LaunchOp))
    target = launch.outs[-1].owner
    assert isinstance(target, SlotOp)
    target.properties["segment"] = Segment.of("state")
    target.properties["offset"] = slot_of(module, "b").offset


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (unnamed, "the slot of a state has no name"),
        (named_twice, "two slots keep state 'b'"),
        (not_initialised, "state 'p' is not all written when the run ends"),
        (without_word, "does not say which part of state 'h' holds values"),
        (overlapping, "share bytes"),
        (not_counted, "state_bytes is stated as 512"),
        (in_the_arena, "state 'b' is in the arena, which is used again"),
        (not_updated, "state 'p' is not all written when the run ends"),
        (overwritten, "writes over state 'b', which is not its own"),
    ],
)
def test_planted_faults_are_found(fault: Callable[[ModuleOp], None], message: str) -> None:
    module = module_at("program", {**KEPT, "p": "q"})
    assert check_program(module).problems == []
    fault(module)
    assert message in "\n".join(p.message for p in check_program(module).problems)
