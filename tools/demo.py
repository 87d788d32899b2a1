"""The main job, shown: a model goes down every level, runs on the emulated NPU, and its numbers are
compared with the reference outputs that stand beside it (`MODEL.npz`).

    python -m ge.tools.demo MODEL.onnx
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def excerpt(text: str, lines: int, marks: Sequence[str], width: int = 110) -> str:
    """A few lines of a module's main function, from the first that holds one of `marks`."""
    all_lines = text.splitlines()
    main = next((i for i, line in enumerate(all_lines) if "func.func @main" in line), 0)
    start = next(
        (i for m in marks for i in range(main, len(all_lines)) if m in all_lines[i]), main + 1
    )
    part = all_lines[start : start + lines]
    return "\n".join(line if len(line) <= width else line[: width - 3] + "..." for line in part)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("demo", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model", help="a .onnx model with reference data beside it")
    parser.add_argument("--lines", type=int, default=7, help="lines of text shown of each level")
    args = parser.parse_args(argv)
    from ge.lowering.cli.command_line import guarded

    return guarded("demo", argv, lambda _: run(args))


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from ge.dialects.support.errors import GeError
    from ge.lowering.driver.compiler import load, lower
    from ge.lowering.driver.program import count_work
    from ge.lowering.levels.level import Level
    from ge.lowering.pipeline.options import Options
    from ge.runtime.clock.clock import simulate
    from ge.runtime.device.session import Session
    from ge.runtime.profile.tables import summary_table

    reference = Path(args.model).with_suffix(".npz")
    if not reference.exists():
        raise GeError("there is no reference data", str(reference), "give a model of test/models")
    options = Options.from_environment()
    start = time.perf_counter()
    loaded = load(args.model)
    print(f"{args.model}: imported in {time.perf_counter() - start:.2f} s")
    marks = ("npu_task.wait", "npu_task.launch", "fused_op.", "graph.matmul", "graph.conv")
    for level in Level:
        result = lower(loaded.module, options, until=level)
        head = f"\n--- {level}: {level.summary} ({result.seconds:.2f} s"
        counted = level in (Level.GRAPH, Level.FUSED)
        print(head + (f", {count_work(loaded.module)} ops)" if counted else ")"))
        print(excerpt(str(loaded.module), args.lines, marks))
    session = Session(loaded.module, loaded.payload, target=options.target)
    data = np.load(reference)
    inputs = {k[3:]: data[k] for k in data.files if k.startswith("in:")}
    start = time.perf_counter()
    outputs = session.run(inputs)
    seconds = time.perf_counter() - start
    print(f"\n--- run: {seconds * 1e3:.0f} ms of numpy emulate")
    print(summary_table(simulate(loaded.module, session.target), slowest=5))
    print("\n--- numbers against the reference")
    worst = 0.0
    for name in session.output_names:
        want = data[f"out:{name}"].astype(np.float64)
        error = float(np.max(np.abs(outputs[name] - want), initial=0.0))
        scale = max(float(np.max(np.abs(want), initial=0.0)), 1e-6)
        worst = max(worst, error / scale)
        print(
            f"{name:24} {outputs[name].shape!s:18} error {error / scale:.1e} of the largest value"
        )
    print("agrees" if worst < 1e-4 else "DIFFERS")
    return 0 if worst < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
