"""`ge-run K.mlir` of a file that holds a `tile.kernel`: on emulated cores, numbers and time."""

import argparse
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import TARGET, target_for
from ge.dialects.text.reading import SourceText, parse_module
from ge.dialects.tile.kernel import KernelOp
from ge.lowering.driver.context import context
from ge.lowering.levels.dominance import verify
from ge.runtime.cores.kernel import TileKernel
from ge.runtime.cores.memory import arguments_of
from ge.runtime.cores.report import chrome_trace, summary_table, time_report
from ge.runtime.data.arrays import Array, statistics
from ge.runtime.data.files import Outputs
from ge.runtime.data.npz import read_npz
from ge.runtime.device.ports import Port, check_inputs
from ge.runtime.device.random_inputs import random_array
from ge.runtime.profile.what_if import WhatIf, changed
from ge.tools.cli.flags import flag_value

OF_PROGRAMS = """load_state save_state random_weights op_summary op_statistic runs explain prefetch
    dispatch level sanitize tiles""".split()
"""Flags that kernels have no use for. Their memories are poisoned anyway."""


def run_kernel(args: argparse.Namespace, source: SourceText, asked: str) -> dict[str, Array]:
    """Compute, simulate, write and print; the outputs. On the target asked for, else on that which
    the text names, else on one that states what instructions cost. Raises GeError for what cannot
    be run or written."""
    for name in OF_PROGRAMS:
        if getattr(args, name, None) or flag_value(args, name):
            flag = f"--{name.replace('_', '-')}"
            raise GeError(f"{flag} needs a program, and this is a kernel", args.input, "drop it")
    op = read_kernel(source)
    module = op.parent_op()
    assert module is not None
    target = target_for(module, asked or ("" if TARGET in module.attributes else DEFAULT_TARGET))
    kernel = TileKernel(op, target)
    others = {change: TileKernel(op, changed(target, change)) for change in args.what_if}
    report: dict[str, Any] = {"kernel": kernel.name, "target": target.name}
    outputs: dict[str, Array] = {}
    if not args.timing_only:
        outputs, report["numerics"] = compute(args, kernel)
    figures = kernel.time(with_rows=bool(args.trace))
    report["time"] = time_report(figures)
    print_result(summary_table(figures, target))
    for change, other in others.items():
        latency = other.time().total_us
        what_if = WhatIf(change, latency, latency / figures.total_us, target.timed())
        report["time"].setdefault("what_if", []).append(asdict(what_if))
        print_result(what_if)
    with Outputs([args.input, *([args.inputs] if args.inputs else [])]) as out:
        if args.outputs:
            out.npz(args.outputs, outputs)
        if args.trace:
            out.json(args.trace, chrome_trace(figures))
        if args.report:
            out.json(args.report, report)
    return outputs


def read_kernel(source: SourceText) -> KernelOp:
    """Raises GeError unless there is one."""
    module = parse_module(context(), source)
    verify(module)
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    if len(kernels) != 1 or len(list(module.ops)) > 1:
        names = ", ".join(f"@{k.sym_name.data}" for k in kernels)
        hint = "give each kernel a file of its own"
        raise GeError(f"a file with one tile.kernel is run: this has {names}", source.name, hint)
    return kernels[0]


def compute(
    args: argparse.Namespace, kernel: TileKernel
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The outputs for the inputs given, or for random ones, and the `numerics` of the report."""
    inputs = inputs_of(args, kernel)
    start = time.perf_counter()
    outputs = kernel.run(inputs)
    seconds = time.perf_counter() - start
    numerics: dict[str, Any] = {
        "seconds": seconds,
        "outputs": {name: statistics(array) for name, array in outputs.items()},
    }
    if args.fuzz_schedule:
        for number in range(args.fuzz_schedule):
            for name, array in kernel.run(inputs, args.seed + number).items():
                if array.tobytes() != outputs[name].tobytes():
                    problem = f"output '{name}' has other bits in the random order of seed"
                    hint = "a flag is missing: ge-check names the instructions that race"
                    if kernel.adds:
                        hint += "; where none do, it is sums added in another order"
                    raise GeError(f"{problem} {args.seed + number}", args.input, hint)
        numerics["random_orders"] = args.fuzz_schedule
        print_result(f"{args.fuzz_schedule} random orders: the same bits")
    return outputs, numerics


def inputs_of(args: argparse.Namespace, kernel: TileKernel) -> dict[str, Array]:
    """Raises GeError for inputs that the kernel does not have."""
    arguments = arguments_of(kernel.op)
    given = read_npz(args.inputs, [a.name for a in arguments]) if args.inputs else {}
    ports: list[Port] = []
    for argument in arguments:
        if argument.is_input or (argument.is_added_to and argument.name in given):
            element, shape = data_type(argument.memref.type)
            ports.append(Port(argument.name, element, shape, ("",) * len(shape)))
    if not args.inputs:
        rng = np.random.default_rng(args.seed)
        given = {p.name: random_array(rng, p.element, p.shape) for p in ports}
    arrays = check_inputs(ports, given)
    return {port.name: array for port, array in zip(ports, arrays, strict=True)}
