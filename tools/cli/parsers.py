"""The command lines of all tools but ge-opt, which has a flag for each pass: what argparse is told,
and which flags do not go together. Nothing here loads the compiler: help, and errors of command
lines, come before it."""

import argparse
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ge.dialects.support.errors import GeError
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.text.values import whole
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.option_values import (
    DEFAULT_VARIANTS,
    VARIANTS,
    variants_named,
)
from ge.lowering.pipeline.options import TOLD
from ge.runtime.host.schedule import DEFAULTS, HostOptions, modes
from ge.tools.cli.command_line import ArgumentParser, expanded
from ge.tools.cli.flags import (
    PRINTED,
    PRINTING,
    READERS,
    REMARK_FLAGS,
    WATCHED,
    WATCHING,
    add_model_arguments,
    add_options,
    add_table,
    argument,
    flag_value,
    option_key,
    with_form,
)
from ge.transforms.quantization.accuracy import Accuracy

if TYPE_CHECKING:
    from ge.runtime.data.accuracy import Tolerance

BENCH_EPILOG = """\
Of each model: launches, time, what is computed a second and how busy the cores are,
without fusion and with it; the arena by level of memory, with its lower bound; and what is
published about such models beside it. Times are emulated, with the copies of inputs and outputs.

examples:
  ge-bench model.onnx
  ge-bench a.onnx b.onnx --precision fp16 -o table.md --report table.json
"""


BENCH_ABOUT = """\
ge-bench: what the compiler makes of models, as tables for a report, beside what is published
about GE and its neighbours.

Each claim has its source, or says that none was found. None of them says on what machine, with
what inputs or in what precision it was measured: what stands beside it is of the same kind, not
the same experiment."""


def bench_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-bench", BENCH_ABOUT, BENCH_EPILOG)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a .onnx model or a .mlir graph")
    add = parser.section("what comes out")
    add("-o", "--output", metavar="T.md", help="the tables (default: standard output)")
    add("--report", metavar="R.json", help="all figures as JSON; times in us, sizes in bytes")
    add_options(parser, "ge-bench")
    return parser


CALIBRATE_EPILOG = """\
examples:
  ge-calibrate model.onnx --data samples.npz -o table.toml
  ge-compile model.onnx -o program.mlir --quantize int8 --calibration table.toml

A file of samples has an array for each input of the model, by its name or in:NAME; the samples are
along the batch. A layer is left in floats by a line "NAME" = "float" below [layers] of the table,
or takes another scheme than the others by its name.

--sensitivity prints, for each layer: signal to noise of the model's outputs where it alone is
quantized, and of its own result where all are; its range, and the share of elements beyond it; how
much longer it takes in floats, by the model of time.
"""


CALIBRATE_ABOUT = """\
ge-calibrate: what quantization decides for a model from samples of its inputs, as a table that
can be read and edited."""


def calibrate_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-calibrate", CALIBRATE_ABOUT, CALIBRATE_EPILOG)
    add = parser.add_argument
    add("model", help="the .onnx file, or a .mlir module of the graph level")
    add("--data", action="append", required=True, metavar="X.npz",
        help="samples; several files are taken one after the other, and a table that a time "
        "limit left unfinished is gone on from")  # fmt: skip
    add("-o", "--output", default="-", metavar="T.toml", help="the table (default: standard "
        "output)")  # fmt: skip
    add("--sensitivity", action="store_true", help="print the noise that each layer adds, "
        "the largest first")  # fmt: skip
    add("--plot", default="", metavar="FILE.html", help="write a page with the noise that each "
        "layer adds, and with the ranges, as bars")  # fmt: skip
    add_options(parser, "ge-calibrate")
    return parser


MOST_SIZES = 64  # that are proved one by one unless all are asked for


CHECK_EPILOG = """\
examples:
  ge-compile model.onnx -o program.mlir && ge-check program.mlir
  ge-check program.mlir --dim batch=1..8 --dim sequence=77  (a program of unknown shapes)
"""


CHECK_ABOUT = """\
ge-check: prove the memory plan, the schedule (streams, events, the limits of its target), the
figures and the certificate of a program from its text; of tile programs, that no order of the pipes
changes a result, and that every element of a result is stored. What a proof relies on is printed
with it: "provided that"."""


def check_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-check", CHECK_ABOUT, CHECK_EPILOG)
    parser.add_argument("program", help="a .mlir at the program level; - for standard input")
    parser.add_argument("--target", metavar="NAME|FILE.toml", default="",
        help="prove it for this target instead of the one that the program names")  # fmt: skip
    parser.add_argument("--prefetch", type=argument(whole(1)), default=0, metavar="P",
        help="also prove that runs do not disturb each other that overlap as those of "
        "ge-run --runs, with P sets of inputs and outputs")  # fmt: skip
    parser.add_argument("--every-size", action="store_true",
        help="bind the program to every size of the ranges that --dim and --shape give; without "
        f"this, of ranges of over {MOST_SIZES} sizes only to those at the ends, beside the proof "
        "of the program as it is planned for all of them")  # fmt: skip
    add_options(parser, "ge-check")
    return parser


IMPORT_EPILOG = """\
examples:
  ge-import model.onnx -o model.mlir             (weights go to model.safetensors)
  ge-import model.onnx --shape x=1x3x224x224     (prints the text; no weights are written)
  ge-import model.onnx -o model.mlir --dim batch=2 --dim sequence=128
"""


IMPORT_ABOUT = (
    """ge-import: an ONNX model to the graph level, as MLIR text with its weights beside it."""
)


def import_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-import", IMPORT_ABOUT, IMPORT_EPILOG)
    add = parser.add_argument
    add("model", help="the .onnx file; external data is read from its folder")
    add("-o", "--output", default="-", help="the text; its weights go to a .safetensors file "
        "beside it (default: the text alone, to standard output)")  # fmt: skip
    add_table(parser.section(PRINTED), PRINTING)
    add_model_arguments(parser)
    add_options(parser, "ge-import")
    return parser


LSP_EPILOG = """\
examples:
  ge-lsp                        (started by an editor, with `ge-lsp` as the command of the server)
  ge-lsp --load-plugin ops.py --target 910b2
"""


LSP_ABOUT = """\
ge-lsp: a language server for .mlir files, over standard input and output. An editor starts it;
it tells what is wrong while one types, and answers what a name is, where it is defined and used,
and what may come next."""


def lsp_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-lsp", LSP_ABOUT, LSP_EPILOG)
    parser.add_argument("--stdio", action="store_true",
        help="for editors that pass it; standard input and output are always used")  # fmt: skip
    parser.add_argument("--load-plugin", action="append", default=[], metavar="FILE.py",
        help="dialects of a file, beside those of packages and of GE_CUSTOM_PASS")  # fmt: skip
    parser.add_argument("--target", default="", metavar="NAME|FILE.toml",
        help="times are of this target instead of the one that a module names")  # fmt: skip
    parser.add_argument("--pause", type=argument(whole()), default=200, metavar="MILLISECONDS",
        help="after the last change of a text, before it is analysed again; short ones are at "
        "once (default 200)")  # fmt: skip
    parser.add_argument("--allow-unregistered-dialect", action="store_true",
        help="accept ops of dialects that nobody knows, in generic form")  # fmt: skip
    return parser


PARSE_EPILOG = """\
examples:
  ge-parser model.onnx
  ge-parser program.mlir --target 910b2 --json
  ge-parser --diff ge_dump/02-fold-constants.mlir ge_dump/42-verify-level.mlir
  ge-parser ge_dump                       (the folder of GE_DUMP_GRAPH=1)
"""


PARSE_ABOUT = """\
ge-parser: what is in a module, a dump, a model or a program, and what differs between two."""


def parse_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-parser", PARSE_ABOUT, PARSE_EPILOG)
    what = "a .mlir of any level, a .onnx, a dump in GE's text form (.pbtxt), or a folder of dumps"
    parser.add_argument("input", metavar="FILE", nargs="?", help=what)
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"),
        help="report what happened to each op of A in B (two levels, dumps or models); exit "
        "status 0 if nothing differs, else 1")  # fmt: skip
    parser.add_argument("--target", metavar="NAME|FILE.toml", default="",
        help="whose times are shown; of a program, by default, the one that it names")  # fmt: skip
    parser.add_argument("--most", metavar="N", type=argument(whole(1)), default=20,
        help="so many rows, changes and steps of the chain (default 20)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="all of it, as JSON")
    return parser


REDUCE_EPILOG = """\
the test:
  It is run as `SCRIPT ARG... FILE` with a module in FILE (and its weights beside it). It ends with
  status 0 if the module is not interesting and with 1 (to 125) if it is, as for mlir-reduce; for
  llvm-reduce it is the other way round. Its output is dropped. A script for a crash of ge-opt:
    #!/bin/sh
    ge-opt "$1" --fuse-region 2>&1 | grep -q 'internal error' && exit 1
    exit 0
  Every module that is tried verifies. Removed or made smaller are functions, ops, operands,
  attributes, unused arguments and results, constants' numbers, sizes of tensors.
examples:
  ge-reduce model.mlir --test ./crashes.sh -o small.mlir
  ge-reduce model.onnx --test ./differs.sh -o small.mlir --shape x=1x3x64x64
"""


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ValueError("a number of seconds above 0")
    return value


REDUCE_ABOUT = (
    """ge-reduce: a small module that is still interesting, by a script that says what is."""
)


def reduce_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-reduce", REDUCE_ABOUT, REDUCE_EPILOG)
    add = parser.add_argument
    add("input", nargs="?", default="-", help="a .mlir module of any level, or a .onnx model")
    add("--test", required=True, metavar="SCRIPT", help="the file of a script, or a command")
    add("--test-arg", action="append", default=[], metavar="ARG", help="an argument of the script")
    add("--timeout", type=argument(seconds), default=60.0, metavar="SECONDS", help="a run that "
        "takes longer is ended, and what it ran on is not interesting (default 60)")  # fmt: skip
    add("--time-limit", type=argument(seconds), default=math.inf, metavar="SECONDS",
        help="when to stop with what there is then (default: never)")  # fmt: skip
    add("-o", "--output", default="-", metavar="FILE", help="the module, its weights beside it "
        "(default: the text alone, to standard output)")  # fmt: skip
    add("--load-plugin", action="append", default=[], metavar="FILE.py", help="add its dialects")
    add("--allow-unregistered-dialect", action="store_true", help="take ops that nobody knows")
    add("--debug", action="store_true", help="print Python's traceback with an error")
    add_model_arguments(parser)
    return parser


SHIMS_EPILOG = """\
examples:
  ge-shims install                      (both; then `import ascend_profiling as ap` is ge)
  ge-shims install ascend_npu
  ge-shims remove
"""


NAMES = ("ascend_npu", "ascend_profiling")


SHIMS_ABOUT = """\
ge-shims: lets scripts for an NPU import ge by other names (`import ascend_npu as npu`): writes a
module of one line for each name beside the installed packages, or removes it."""


def shims_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-shims", SHIMS_ABOUT, SHIMS_EPILOG)
    parser.add_argument("what", choices=["install", "remove"], help="what to do with the modules")
    parser.add_argument("names", nargs="*", metavar="NAME",
        help=f"which of them (default: {' and '.join(NAMES)})")  # fmt: skip
    parser.add_argument("--folder", metavar="DIR",
        help="where they are (default: the folder of the packages of this Python)")  # fmt: skip
    return parser


TUNE_EPILOG = """\
examples:
  ge-tune kernels.py:gemm a=1024x1024xf16 b=1024x1024xf16 out=1024x1024xf16 M=64,128 N=128,256
  ge-tune my_package.kernels:rms_norm x=4096x4096xf16 weight=4096xf16 \\
      out=4096x4096xf16 M=2,4,8 -o tunings.json
  ge-tune program.mlir -o tunings.json

Arguments of the kernel get a type, parameters the values to try; without any parameter each number
among them, its half and its double. A kernel takes what is kept by kernel.on(..., tunings=FILE).
Of a program that ge-compile has written each kernel is tuned, for the program's target;
ge-compile --tile-tunings FILE takes what is kept.
"""


TUNE_ABOUT = """\
ge-tune: the fastest parameters of a kernel in Python, or the fastest cuts of the kernels of a
program, by the time that emulated cores take."""


def tune_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-tune", TUNE_ABOUT, TUNE_EPILOG)
    add = parser.add_argument
    add("kernel", metavar="FILE.py:KERNEL|P.mlir",
        help="a kernel of a file, or of a module by its name; or a program")  # fmt: skip
    add("what", nargs="*", metavar="NAME=WHAT",
        help="type of an argument (512x256xf16), or values of a parameter (64,128)")  # fmt: skip
    add("-o", "--output", metavar="FILE.json",
        help="where the result is kept, beside what the file has (default: nowhere)")  # fmt: skip
    add("--target", metavar="NAME", help="a preset, or the path of a target file, for a kernel in "
        f"Python (default: {DEFAULT_TARGET})")  # fmt: skip
    add("--cores", type=argument(whole(1)), metavar="N",
        help="on so many cores, for a kernel in Python (default: all)")  # fmt: skip
    add("--limit", type=argument(whole(1)), metavar="N",
        help="try no more programs of a kernel (default: 64; of one in a program 16)")  # fmt: skip
    add("--debug", action="store_true", help="print Python's traceback with an error")
    return parser


VISUALIZE_EPILOG = """\
A model or a module is compiled as by ge-compile, with the same options.

examples:
  ge-visualizer model.onnx -o model.html
  ge-visualizer program.mlir -o program.html     (the program level alone)
  ge-visualizer ge_dump                          (a folder of GE_DUMP_GRAPH; ge_dump.html)
"""


VISUALIZE_ABOUT = """\
ge-visualizer: one HTML file with the graph at every level, the timeline, memory and what rules
did; it opens from disk, without a network."""


def visualize_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-visualizer", VISUALIZE_ABOUT, VISUALIZE_EPILOG)
    parser.add_argument(
        "input", metavar="IN", help="a .onnx model, a .mlir module of any level, a folder of "
        "dumps, or a dump in GE's text form (.pbtxt)",
    )  # fmt: skip
    add = parser.section("what comes out")
    add("-o", "--output", metavar="OUT.html",
        help="the page (default: NAME.html in this folder, after the input)")  # fmt: skip
    add_options(parser, "ge-compile")
    return parser


COMPILE_EPILOG = """\
Options that are not given come from the environment variables named with them.

examples:
  ge-compile model.onnx -o model.mlir --report model.json
  ge-compile model.onnx -o model.mlir --shape x=1x3x224x224 --target 310p3
  ge-compile --print-pipeline            (a line that ge-opt -p takes)
"""


COMPILE_ABOUT = """\
ge-compile: a model or a module, all the way down to a program."""


@cache
def compile_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-compile", COMPILE_ABOUT, COMPILE_EPILOG)
    parser.add_argument(
        "input",
        nargs="?",
        help="a .onnx model or a .mlir module of any level; - for standard input",
    )

    add = parser.section("what comes out")
    add("-o", "--output", metavar="P.mlir", help="the program; its weights go to a .safetensors "
        "file beside it (default: nothing is written)")  # fmt: skip
    add("--report", metavar="R.json", help="figures of the compilation as JSON; sizes in bytes")
    add("--html", metavar="P.html", help="a page with the graph at every level, and the time and "
        "memory of a run; also where compiling fails")  # fmt: skip
    add("--until", default=Level.PROGRAM, choices=[*Level],
        help="stop at this level (default program)")  # fmt: skip
    add("--print-pipeline", action="store_true", help="print the passes and stop")

    add_options(parser, "ge-compile")

    add = parser.section(TOLD)
    for flag, (metavar, text) in REMARK_FLAGS.items():
        add(flag, metavar=metavar, type=argument(READERS.get(flag, str)), help=text)
    add_table(parser.section(PRINTED), PRINTING)
    add_table(parser.section(WATCHED), WATCHING)
    add("--validate", action="store_true", help="run the module before and after each pass on "
        "random and edge inputs; stop at the first that changes the numbers")  # fmt: skip
    add("--validate-output", metavar="FILE",
        help="the test that repeats it (default validate-PASS.mlir)")  # fmt: skip
    return parser


CACHES = {
    "local_kernel_cache": ("local_slots", "slots of each operation's kernel cache"),
    "global_kernel_cache": ("global_slots", "slots of the kernel cache of each kind of operation"),
    "tiling_ring": ("ring_blocks", "blocks of the ring of tiling buffers"),
}


CALLS = 2  # the first one fills the caches, the second one finds them full


def add_dispatch_arguments(parser: ArgumentParser) -> None:
    add = parser.section("the host that feeds the device")
    add("--dispatch", metavar="MODE", help="eager, operations, graph, two-stage, three-stage, "
        "captured, updated, sunk, or all: prints a table of the calls")  # fmt: skip
    add("--calls", type=argument(whole(1)), metavar="N",
        help=f"calls of the program, whose caches stay (default {CALLS})")  # fmt: skip
    add("--steps", type=argument(whole(1)), default=0, metavar="N",
        help="so many calls, of which only the sums are printed: steps of a decoder")  # fmt: skip
    add("--grow", metavar="NAME,...", help="symbolic dimensions that are one larger in each of the "
        "--steps, from what --dim says")  # fmt: skip
    for flag, (name, what) in CACHES.items():
        add(f"--{flag.replace('_', '-')}", type=argument(whole(0)), metavar="N",
            help=f"{what} (default {getattr(DEFAULTS, name)})")  # fmt: skip


def check_dispatch_flags(args: argparse.Namespace) -> None:
    host = {"calls": args.calls, "steps": args.steps or None, "grow": args.grow}
    host |= {name: getattr(args, name) for name in CACHES}
    given = ["--" + name.replace("_", "-") for name, value in host.items() if value is not None]
    if args.dispatch is None and given:
        hint = "add --dispatch all, or a mode"
        raise GeError(f"{', '.join(given)}: of a host that feeds the device", hint=hint)
    if args.calls and args.steps:
        raise GeError("--calls and --steps both say how many calls there are", hint="drop one")
    sunk = {"--runs": args.runs, "--what-if": args.what_if}
    if args.dispatch is not None and (not_fed := [flag for flag, value in sunk.items() if value]):
        raise GeError(f"{not_fed[0]} is of a program that no host feeds", hint="drop --dispatch")
    if args.grow and not args.steps:
        raise GeError("--grow without --steps: nothing grows in one call", hint="add --steps 64")
    if args.grow and args.inputs:
        hint = "leave --inputs out: each step has random ones of its size"
        raise GeError("--inputs have one size, and --grow has a size for each step", hint=hint)
    if args.dispatch is not None:
        modes(args.dispatch)
        options_of(args)


def options_of(args: argparse.Namespace) -> HostOptions:
    given = {name: getattr(args, flag) for flag, (name, _) in CACHES.items()}
    sizes = {name: value for name, value in given.items() if value is not None}
    return HostOptions(**sizes, sanitize=bool(flag_value(args, "sanitize")))


SLOWEST = 5  # kernels that are explained where no number is given


def add_explain_arguments(parser: ArgumentParser) -> None:
    add = parser.section("time, at the program level")
    add("--explain", type=argument(whole(1)), default=0, metavar="N", help="what the latency is "
        f"made of, what bounds each of the N slowest kernels (default {SLOWEST}) and, with a tile "
        "program, what its pipes wait for; and which change of options makes the model faster: "
        "each is compiled and timed. Numbers are computed only if --inputs, --outputs or another "
        "flag is about them")  # fmt: skip
    add("--explain-variants", type=argument(variants_named), metavar="LIST",
        help="changes that are "
        f"tried: all, none or names: {', '.join(VARIANTS)} (default: "
        f"{', '.join(DEFAULT_VARIANTS)})",
    )  # fmt: skip
    add("--model", metavar="MODEL", help="the model that the program IN was compiled from: with "
        "--explain and --what-if-recompile changes are tried on it, compiled by the options given "
        "here; with --compare it is what another runtime runs")  # fmt: skip


def about_time_alone(args: argparse.Namespace) -> bool:
    """Tell whether nothing but the time is asked for: explaining a program computes no numbers."""
    numbers = (
        args.inputs, args.outputs, args.load_state, args.save_state, args.random_weights,
        args.poison, args.fuzz_schedule, args.compare, flag_value(args, "sanitize"),
    )  # fmt: skip
    return bool(args.explain) and not any(numbers)


def check_explain_flags(args: argparse.Namespace) -> None:
    if args.explain_variants is not None and not args.explain:
        raise GeError("--explain-variants needs --explain", hint="add --explain")
    if args.model is not None and not (args.explain or args.what_if_recompile or args.compare):
        flags = "--explain, --what-if-recompile or --compare"
        raise GeError(f"--model needs {flags}", hint="add one of them")
    if args.explain and args.dispatch:
        raise GeError("--explain needs a sunk program", hint="drop --dispatch")


def add_what_if_arguments(parser: ArgumentParser) -> None:
    add = parser.section("time, at the program level")
    add("--what-if", action="append", default=[], metavar="NAME=2x,...",
        help="also the time on a target that differs: hbm_bandwidth, l2_bandwidth, cube, vector, "
        "host_link, links (between devices), launch, or a field of the target (a rate, a time); "
        "several at once with commas between them. The program is kept: its tilings and its "
        "schedule")  # fmt: skip
    add("--what-if-recompile", action="store_true", help="compile the model anew for such a "
        "target as well, which may then differ in sizes and numbers of cores too")  # fmt: skip


def add_compare_arguments(parser: ArgumentParser) -> None:
    add = parser.section("numbers beside those of another program")
    add("--compare", metavar="PEER", help="compare the outputs with those that PEER gives for the "
        "same inputs: onnxruntime (of the model IN, or --model), torch (of a program of "
        "torch.export, --model), a .onnx model at the graph level, a .mlir module of any level, or "
        "outputs in a .npz file. Exit status 1 where one is beyond the tolerance")  # fmt: skip
    add("--compare-layers", action="store_true", help="compare the results of all nodes of the "
        "model that both programs have, too: which of them are wrong by themselves, on the same "
        "operands, whatever the nodes before them have made of these")  # fmt: skip
    add("--tolerance", type=argument(tolerance), metavar="T", help="what outputs have to keep: the "
        "largest error as part of the largest magnitude (1e-3), snr>=30 dB or cos>=0.999 (default: "
        "1e-4 in f32, 0.02 in f16, 0.12 in bf16, 40 dB between quantized programs, 20 dB between a "
        "quantized one and floats; integers are equal)")  # fmt: skip


def tolerance(text: str) -> "Tolerance":
    """Raises ValueError, which says what is expected."""
    from ge.runtime.data.accuracy import Tolerance  # with numpy

    if re.match(r"\s*[a-z]", text, re.I):
        bound = Accuracy.parsed(text)
        return Tolerance(**{bound.metric: bound.least}, step=1)
    try:
        if (share := float(text)) >= 0:
            return Tolerance(share=share)
    except ValueError:
        pass
    raise ValueError("a number such as 1e-3, or a bound such as snr>=30 or cos>=0.999")


def check_compare_flags(args: argparse.Namespace) -> None:
    for flag, value in (
        ("--compare-layers", args.compare_layers), ("--tolerance", args.tolerance),
    ):  # fmt: skip
        if value and not args.compare:
            raise GeError(f"{flag} is of --compare", hint="add --compare onnxruntime")


RUN_EPILOG = """\
examples:
  ge-run model.onnx --inputs x.npz --outputs y.npz      (keys are the names of inputs and outputs)
  ge-run model.onnx --timing-only --trace t.json        (needs no weights; t.json opens in Perfetto)
  ge-run program.mlir --random-weights --report r.json  (without --inputs: seeded random data)
"""


RUN_ABOUT = """\
ge-run: runs a module of any level, a model, or a kernel of tiles on the emulated NPU: numbers,
time, or both."""


@cache
def run_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-run", RUN_ABOUT, RUN_EPILOG)
    parser.add_argument("input", metavar="IN", help="a .mlir module of any level, or a .onnx model")

    add = parser.section("numbers")
    add("--inputs", metavar="X.npz", help="input arrays by name, or as in:NAME (default: "
        "seeded random ones)")  # fmt: skip
    add("--outputs", metavar="Y.npz", help="where the output arrays go (default: only figures of "
        "them are printed); 'y.{rank}.npz': a file for each device, with its parts")  # fmt: skip
    add("--load-state", metavar="S.npz", help="state that the run begins with, by names of "
        "inputs (default: zeros)")  # fmt: skip
    add("--save-state", metavar="S.npz", help="where the state goes that the run leaves")
    add("--random-weights", action="store_true", help="random values for weights that are missing")
    add("--seed", type=argument(whole(0)), default=0, metavar="N",
        help="seed of random inputs, weights and random ops (default 0)")  # fmt: skip

    add("--tiles", metavar="all|sample:N", help="run kernels by their tile programs, which are "
        "written where a program has none: --tiles all of them on all cores; --tiles=sample:N so "
        "many cores of each, compared with the kernel's results")  # fmt: skip

    add_compare_arguments(parser)
    add = parser.section("time, at the program level")
    add("--timing-only", action="store_true", help="simulate the time, compute no numbers")
    add("--trace", metavar="T.json", help="timeline as a Chrome trace, in us; kernels with a tile "
        "program are opened down to the pipes of a core at their first launch")  # fmt: skip
    add_explain_arguments(parser)
    add("--op-summary", metavar="S.csv", help="a row for each task, times in us")
    add("--op-statistic", metavar="S.csv", help="a row for each kind of op, times in us")
    add_what_if_arguments(parser)
    add("--runs", type=argument(whole(1)), default=0, metavar="N", help="also simulate N runs that "
        "overlap, as Session.run_many has them; --trace then shows these")  # fmt: skip
    add("--prefetch", type=argument(whole(1)), metavar="P",
        help="batches whose inputs are on the device or on the way (default 2)")  # fmt: skip
    add("--report", metavar="R.json", help="all figures as JSON; times in us, sizes in bytes")
    add("--html", metavar="P.html", help="a page with graph, timeline and memory of the run")

    add_dispatch_arguments(parser)

    add = parser.section("how it is compiled, where it is not yet")
    add("--no-tiles", dest=option_key("tiles"), action="store_const", const=False, help="write no "
        "tile programs: times are estimates of them, and whatever states one says so")  # fmt: skip
    add("--level", choices=[*Level], help="lower to this level first (default: the program for a "
        "model and for timing, else the module runs as it is)")  # fmt: skip

    add = parser.section("checks")
    add("--poison", action="store_true", help="fill device memory that holds no value with garbage")
    add("--fuzz-schedule", type=argument(whole(1)), default=0, metavar="N", help="run N random "
        "legal timings, of a kernel orders of its pipes, as well: the outputs have to be "
        "bit-identical (default: none)")  # fmt: skip
    add_options(parser, "ge-run")
    add_table(parser.section(PRINTED), PRINTING)
    add_table(parser.section(WATCHED), WATCHING)
    return parser


# Flags whose value may be left out: what a value looks like, and what is taken where there is none
WITHOUT_VALUE = {"--tiles": (r"all|sample:.*", "all"), "--explain": (r"\d+", str(SLOWEST))}


def with_values(arguments: Sequence[str]) -> list[str]:
    """Flags of `WITHOUT_VALUE` with their values behind a `=`: the input may stand after them."""
    words: list[str] = []
    for word in arguments:
        pattern, _ = WITHOUT_VALUE.get(words[-1] if words else "", (None, ""))
        if pattern and re.fullmatch(pattern, word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return [f"{w}={WITHOUT_VALUE[w][1]}" if w in WITHOUT_VALUE else w for w in words]


def check_flags(args: argparse.Namespace) -> None:
    """Raise GeError for flags of ge-run that do not go together."""
    if args.tiles and flag_value(args, "tiles") is False:
        raise GeError("--tiles runs what --no-tiles leaves out", hint="drop one")
    check_dispatch_flags(args)
    check_explain_flags(args)
    check_compare_flags(args)
    if args.prefetch and not args.runs:
        raise GeError("--prefetch needs runs that overlap", hint="add --runs 64")
    numeric = {
        "--outputs": args.outputs, "--compare": args.compare, "--poison": args.poison,
        "--load-state": args.load_state, "--save-state": args.save_state,
        "--sanitize": flag_value(args, "sanitize") and not args.dispatch,
        "--fuzz-schedule": args.fuzz_schedule,
        "--tiles=sample:N": args.tiles and args.tiles != "all",
    }  # fmt: skip
    for flag, value in numeric.items() if args.timing_only else ():
        if value:
            raise GeError(f"{flag} needs numbers, and --timing-only computes none", hint="drop one")


SWEEP_EPILOG = """\
examples:
  ge-sweep model.onnx --vary target 910b2 310p3 --vary precision origin fp16 -o rows.jsonl
  ge-sweep model.onnx --vary mesh '' tp=2 dp=2,tp=4 --vary shard auto --plot page.html

All combinations are compiled and timed, one a row. A sweep that was stopped goes on where it was:
rows that stand in the file of -o are not computed again. A configuration that fails is a row with
its error. The plot marks those that no other one beats in time, memory and accuracy together.
"""


SWEEP_ABOUT = "ge-sweep: many configurations of a model side by side, as a table and a page."


def sweep_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-sweep", SWEEP_ABOUT, SWEEP_EPILOG)
    add = parser.add_argument
    add("model", metavar="MODEL", help="a .onnx model or a .mlir graph")
    add("--vary", action="append", nargs="+", required=True, metavar=("OPTION", "VALUE"),
        help="an option of ge-compile, and the values that it has; '' is none")  # fmt: skip
    _add_rows(parser)
    return parser


SCALE_EPILOG = """\
examples:
  ge-scale model.onnx --mesh tp=1..8
  ge-scale model.onnx --mesh dp=2,tp=1..4 --shard rules.json,auto --plot page.html

In a range each number of devices is twice the one before. Efficiency is the share that is left of
the time of the first mesh, by devices. Without --shard shardings are found (auto).
"""


SCALE_ABOUT = "ge-scale: a model on more and more devices: time, memory, what is sent, efficiency."


def scale_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-scale", SCALE_ABOUT, SCALE_EPILOG)
    add = parser.add_argument
    add("model", metavar="MODEL", help="a .onnx model or a .mlir graph")
    add("--mesh", required=True, metavar="AXIS=A..B,...", help="devices by axis, with ranges")
    _add_rows(parser)
    return parser


def _add_rows(parser: ArgumentParser) -> None:
    add = parser.section("what comes out")
    add("-o", "--output", default="", metavar="ROWS.jsonl", help="a file of rows: those in it are "
        "not computed again, others are added as they come")  # fmt: skip
    add("--plot", default="", metavar="FILE.html", help="write a page with a plot and the table")
    add("--jobs", type=argument(whole(1)), default=os.cpu_count() or 1, metavar="N",
        help="processes at once (default: the processors of this machine)")  # fmt: skip
    add("--cluster", default="", metavar="ADDRESS", help="compute on the workers of a dask "
        "cluster, by the address of its scheduler; they have the same files")  # fmt: skip
    add_options(parser, "ge-compile")


def opt_parser() -> ArgumentParser:
    """That of ge-opt, without a flag for each pass, is beside what it runs, which is light."""
    from ge.tools.cli.opt import build_parser

    return build_parser()


PARSERS: Mapping[str, Callable[[], ArgumentParser]] = {
    "ge-bench": bench_parser,
    "ge-calibrate": calibrate_parser,
    "ge-check": check_parser,
    "ge-compile": compile_parser,
    "ge-import": import_parser,
    "ge-lsp": lsp_parser,
    "ge-opt": opt_parser,
    "ge-parser": parse_parser,
    "ge-reduce": reduce_parser,
    "ge-run": run_parser,
    "ge-scale": scale_parser,
    "ge-shims": shims_parser,
    "ge-sweep": sweep_parser,
    "ge-tune": tune_parser,
    "ge-visualizer": visualize_parser,
}

# What is done to the words of a command line before argparse has them
BEFORE: Mapping[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "ge-compile": with_form, "ge-reduce": expanded, "ge-run": with_values,
}  # fmt: skip


def read_arguments(tool: str, words: Sequence[str]) -> argparse.Namespace:
    """Raises GeError for a command line that makes no sense, SystemExit after help."""
    if tool in BEFORE:
        words = BEFORE[tool](words)
    return PARSERS[tool]().parse_args(words)
