"""Several threads that use ge first, and children that a process forks, each in a process of its
own: what is filled at the first use is whole before anybody sees it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

PRELUDE = """
import os, sys, threading
import numpy as np
import ge

def compiled(**options):
    return ge.compile(sys.argv[1], **options)

x = np.ones((4, 64), np.float32)
"""

# All begin at once: what is imported and registered lazily is so in all of them.
THREADS = """
said, start = [], threading.Barrier(8)

def work(number):
    start.wait()
    try:
        program = compiled(fusion=("default", "conservative")[number % 2], tiles=number % 4 == 0)
        session = ge.Session(program.module, program.payload)
        said.append(float(session.run({"x": x})["y"].sum()))
    except BaseException as e:
        said.append(f"{type(e).__name__}: {e}")

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
wrong = [s for s in said if isinstance(s, str) or abs(s - said[0]) > 1e-2]
print(f"{len(said)} done; wrong: {wrong}")
"""

FORK = """
def in_child(action):
    if not (child := os.fork()):
        try:
            action()
            os._exit(0)
        finally:
            os._exit(1)
    pid, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))

def fresh():
    program = compiled()
    ge.Session(program.module, program.payload).run({"x": x})
"""

STATES = {
    "before anything": "in_child(fresh)",
    "after compile": """
program = compiled()
in_child(fresh)
in_child(lambda: ge.Session(program.module, program.payload).run({"x": x}))
""",
    "after run": """
program = compiled()
session = ge.Session(program.module, program.payload)
session.run({"x": x})
session.run_async({"x": x}).result()
in_child(lambda: session.run({"x": x}))
in_child(lambda: session.run_async({"x": x}).result())
in_child(lambda: list(session.run_many([{"x": x}] * 3)))
""",
    "while another thread runs": """
program = compiled()
session = ge.Session(program.module, program.payload)
goes_on = True

def run():
    while goes_on:
        session.run({"x": x})

thread = threading.Thread(target=run)
thread.start()
for _ in range(20):
    in_child(lambda: session.run({"x": x}))
goes_on = False
thread.join()
""",
    "while another thread holds the session": """
program = compiled()
session = ge.Session(program.module, program.payload)
with session.lock:
    in_child(lambda: session.run({"x": x}))
in_child(lambda: session.run({"x": x}))
""",
    "within a stream of batches": """
import ge.runtime.device.streaming as streaming
streaming.PAYS = 0.0  # threads from the first batch on
program = compiled()
session = ge.Session(program.module, program.payload)
stream = session.run_many({"x": x} for _ in range(400))
for _ in range(20): next(stream)

def goes_on_in_child():
    session.run({"x": x})
    try:
        for _ in stream: pass
    except ge.GeError as e:
        assert "belongs to the process that began it" in str(e)

in_child(goes_on_in_child)
print(len(list(stream)) - 380)
""",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("threads") / "m.onnx"
    weight = np.random.default_rng(0).normal(0, 0.1, (64, 64)).astype(np.float32)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Gelu", ["b"], ["c"]),
        helper.make_node("ReduceMean", ["c"], ["m"], keepdims=1),
        helper.make_node("Add", ["c", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [info("x", 1, [4, 64])], [info("y", 1, [4, 64])],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=10), path)
    return path


def run(text: str, model: Path, folder: Path) -> str:
    command = [sys.executable, "-c", PRELUDE + text, str(model)]
    environment = {"GE_CACHE_DIR": str(folder / "cache"), "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("times", [1, pytest.param(50, marks=pytest.mark.soak)])
def test_threads_that_compile_first(times: int, model: Path, tmp_path: Path) -> None:
    for i in range(times):
        assert run(THREADS, model, tmp_path / str(i)) == "8 done; wrong: []\n"


@pytest.mark.parametrize("state", STATES)
def test_children_of_fork(state: str, model: Path, tmp_path: Path) -> None:
    said = run(FORK + STATES[state], model, tmp_path).split()
    assert said
    assert set(said) == {"0"}
