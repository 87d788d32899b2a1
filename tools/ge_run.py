"""ge-run: runs a module of any level, or a model, on the emulated NPU: numbers, time, or both."""

import sys
from collections.abc import Sequence

from ge.lowering.cli.arguments import add_model_arguments, add_options, argument
from ge.lowering.cli.command_line import ArgumentParser, guarded
from ge.lowering.levels.level import Level
from ge.lowering.text.values import whole

EPILOG = """examples:
  ge-run model.onnx --inputs x.npz --outputs y.npz      (keys are the names of inputs and outputs)
  ge-run model.onnx --timing-only --trace t.json        (needs no weights; t.json opens in Perfetto)
  ge-run program.mlir --random-weights --report r.json  (without --inputs: seeded random data)
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-run", __doc__, EPILOG)
    parser.add_argument("input", metavar="IN", help="a .mlir module of any level, or a .onnx model")

    add = parser.section("numbers")
    add("--inputs", metavar="X.npz", help="input arrays by name (default: seeded random ones)")
    add("--outputs", metavar="Y.npz", help="where the output arrays go (default: only figures of "
        "them are printed)")  # fmt: skip
    add("--random-weights", action="store_true", help="random values for weights that are missing")
    add("--seed", type=argument(whole(0)), default=0, metavar="N",
        help="seed of random inputs and weights (default 0)")  # fmt: skip

    add = parser.section("time, at the program level")
    add("--timing-only", action="store_true", help="simulate the time, compute no numbers")
    add("--trace", metavar="T.json", help="timeline as a Chrome trace, in us")
    add("--op-summary", metavar="S.csv", help="a row for each task, times in us")
    add("--op-statistic", metavar="S.csv", help="a row for each kind of op, times in us")
    add("--what-if", action="append", default=[], metavar="NAME=2x",
        help="also the time on a target that differs in one respect: hbm_bandwidth, l2_bandwidth, "
        "cube, vector, host_link, launch, or a field of the target (a rate, a time)")  # fmt: skip
    add("--report", metavar="R.json", help="all figures as JSON; times in us, sizes in bytes")

    add = parser.section("how it is compiled, where it is not yet")
    add("--level", choices=[*Level], help="lower to this level first (default: the program for a "
        "model and for timing, else the module runs as it is)")  # fmt: skip

    add = parser.section("checks")
    add("--poison", action="store_true", help="fill device memory that holds no value with garbage")
    add("--fuzz-schedule", type=argument(whole(1)), default=0, metavar="N", help="run N random "
        "legal timings as well: the outputs have to be bit-identical (default: none)")  # fmt: skip
    add_model_arguments(parser)
    add_options(parser, "ge-run")
    return parser


def run(args: list[str]) -> int:
    from ge.lowering.cli.run import run_module

    return run_module(build_parser().parse_args(args))


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("ge-run", argv, run)


if __name__ == "__main__":
    sys.exit(main())
