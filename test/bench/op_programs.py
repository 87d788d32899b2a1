"""Which ops of the graph dialect have tile programs, each alone and with an elementwise op behind
it, as they are fused.

    python test/bench/op_programs.py [OP ...] [--target 910b2] [--cases 20] [--seed N] [--prove]

Ops are made from seeds, of usual element types and small static shapes (`random_ops.py`). Prints
for each op how many of its launches have programs, and why the others have none; launches of the
control processor are not counted. With `--prove` each program is proved, and run on tiles beside
the graph, as in `random_graphs.py`; the exit status says whether all are right.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_builder import Builder, Unsuitable
from random_graphs import check, op_classes
from random_ops import make
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.elementwise import AbsOp
from ge.dialects.npu_task.attributes import NO_TILES, Engine
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import is_static, shape_of
from ge.lowering.driver.compiler import lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.tiles import check_kernels


def modules(op: type[TensorOp], seeds: Sequence[int]) -> Iterator[tuple[int, ModuleOp]]:
    """Graphs of the op; in every second one an absolute value follows where it can."""
    for seed in seeds:
        b = Builder(seed)
        try:
            made = make(b, op)
            outputs = list(b.add(made))
            if not all(is_static(shape_of(v)) for v in (*made.operands, *outputs)):
                continue
            if seed % 2:
                outputs[0] = b.add(AbsOp.of(outputs[0]))[0]
            module = b.module(outputs).clone()  # values have users that were not made
            module.verify()
        except (Unsuitable, VerifyException):
            continue
        yield seed, module


def reasons_of(module: ModuleOp, target: str, prove: bool) -> Iterator[str]:
    """For each launch "", or why it has no program. Raises AssertionError for a wrong one."""
    lower(program := module.clone(), Options(target=target, tiles=True))
    for kernel in program.ops:
        if isinstance(kernel, KernelOp) and kernel.engine.data is not Engine.HOST:
            reason = kernel.attributes.get(NO_TILES)
            yield "" if reason is None else reason.data  # pyright: ignore
    if prove:
        problems = [p.message for proof in check_kernels(program) for p in proof.problems]
        assert not problems, f"{problems}\n{program}"
        mismatch = check(module, ["default"], seconds=0, target=target)
        assert mismatch is None, str(mismatch)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="names without dialect; default all")
    parser.add_argument("--target", default="910b2")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prove", action="store_true")
    args = parser.parse_args()
    whole, wrong = Counter[str](), 0
    for op in sorted(op_classes(), key=lambda c: c.name):
        name = op.name.removeprefix("graph.")
        if args.ops and name not in args.ops:
            continue
        found = Counter[str]()
        for seed, module in modules(op, range(args.seed, args.seed + args.cases)):
            try:
                found.update(reasons_of(module, args.target, args.prove))
            except AssertionError as e:
                wrong += 1
                print(f"{name}, seed {seed}: WRONG: {str(e)[:2000]}")
            except GeError as e:
                found[f"not compiled: {e}"] += 0
        whole += found
        if found and set(found) != {""}:
            print(f"{name}: programs for {found['']} of {found.total()} launches", flush=True)
            for reason, count in found.most_common():
                if reason:
                    print(f"  {count:4} {reason}")
    print(f"{args.target}: programs for {whole['']} of {whole.total()} launches, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
