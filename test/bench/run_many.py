"""How long `Session.run_many` takes beside as many plain runs, on this machine.

    python test/bench/run_many.py MODEL.onnx ... [--runs 64] [--rounds 10]

Both take turns; of each the least wall time and the least processor time (of all threads) count.
Threads of OpenBLAS wait in a loop: where other work runs beside this, they take several times as
long as one alone, and more beside the threads of run_many (OPENBLAS_NUM_THREADS=1 tells).
"""

import argparse
import time
from collections.abc import Callable

import ge
from ge.runtime.device.random_inputs import random_inputs


def times(work: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    for model in args.models:
        program = ge.compile(model)
        session, inputs = ge.Session(program.module, program.payload), random_inputs(program.module)
        ways: tuple[Callable[[], object], ...] = (
            lambda s=session, x=inputs: [s.run(x) for _ in range(args.runs)],
            lambda s=session, x=inputs: list(s.run_many(x for _ in range(args.runs))),
        )
        rounds = [[times(work) for work in ways] for _ in range(args.rounds + 1)][1:]
        for i, what in enumerate(("wall", "processor")):
            plain, many = (min(r[way][i] for r in rounds) for way in (0, 1))
            ms = f"{plain * 1e3:.1f} ms plain, {many * 1e3:.1f} ms with run_many"
            print(f"{model}: {args.runs} runs, {what}: {ms}, {many / plain:.2f}x")


if __name__ == "__main__":
    main()
