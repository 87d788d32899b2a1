"""ge-tune; `parsers.py` says what it is for."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.streams import print_result
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.target import target_for
from ge.dialects.text.reading import parse_module, read_source
from ge.dialects.text.values import did_you_mean
from ge.lowering.building.tile_kernels import LIMIT, Kernel, Tensor, Tunings, TuningTrial, tune
from ge.lowering.driver.context import context
from ge.lowering.levels.dominance import verify
from ge.lowering.steps.kept_programs import PART, KernelTunings
from ge.runtime.data.files import Outputs

if TYPE_CHECKING:
    from ge.lowering.driver.variants import KernelTuning


TYPE = re.compile(r"(?:(\d+(?:x\d+)*)x)([a-z]+\d*)")


def run(args: argparse.Namespace) -> int:
    return tune_kernels(args) if args.kernel.endswith(".mlir") else tune_kernel(args)


def tune_kernel(args: argparse.Namespace) -> int:
    kernel = kernel_of(args.kernel)
    types, choices = read_words(kernel, args.what)
    kept = Tunings.read(args.output) if args.output else None
    target, limit = args.target or DEFAULT_TARGET, args.limit or LIMIT
    tuning = tune(kernel, types, choices, target, args.cores, limit, show)
    print_result(tuning.summary)
    if kept is not None:
        keep(args.output, kept.with_entry(tuning.entry).rows())
    return 0


def tune_kernels(args: argparse.Namespace) -> int:
    """Of a program."""
    from ge.lowering.driver.variants import LIMIT, tune_program

    if args.what or args.target or args.cores:
        raise GeError("a program says for which target its kernels are, and their sizes")
    kept = KernelTunings()
    if args.output and Path(args.output).exists():
        kept = KernelTunings.read(args.output)
    module = parse_module(context(()), read_source(args.kernel))
    verify(module)
    count, faster = 0, list["KernelTuning"]()
    for tuning in tune_program(module, args.limit or LIMIT):
        print_result(tuning.summary)
        count += 1
        faster += [tuning] if tuning.is_faster else []
    if not count:
        hint = "ge-compile MODEL -o P.mlir writes one"
        raise GeError("no kernel of it has a tile program", args.kernel, hint)
    machine = target_for(main_function(module) or module).timed()
    print_result(f"{len(faster):,} of {count:,} kernels are faster with other cuts on {machine}")
    if args.output:
        keep(args.output, {PART: kept.merged(t.best for t in faster).rows()}, args.kernel)
    return 0


def keep(path: str, rows: dict[str, Any], *inputs: str) -> None:
    """Write a part of a file of tunings, which is none of the inputs; others stay."""
    file = Path(path)
    others: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    with Outputs(inputs) as out:
        out.json(path, {**others, **rows})


def show(trial: TuningTrial) -> None:
    text = ", ".join(f"{k}={v}" for k, v in trial.parameters.items())
    time = f"{'-':>12}     {trial.why}" if trial.us is None else f"{trial.us:12,.2f} us"
    print(
        f"{text:24} {time}" + (f"  bound by {trial.bound}" if trial.bound else ""), file=sys.stderr
    )


def kernel_of(place: str) -> Kernel:
    """The kernel that `FILE.py:NAME` or `MODULE:NAME` names. Raises GeError."""
    path, _, name = place.rpartition(":")
    if not path or not name:
        raise GeError(f"'{place}' names no kernel", hint="write FILE.py:KERNEL")
    names: dict[str, Any] = vars(module_of(path))
    kernels = {n: v for n, v in names.items() if isinstance(v, Kernel)}
    if name not in kernels:
        hint = did_you_mean(name, list(kernels), f"; there are: {', '.join(kernels) or 'none'}")
        raise GeError(f"{path} has no kernel '{name}'{hint}")
    return kernels[name]


def module_of(path: str) -> ModuleType:
    try:
        if not path.endswith(".py"):
            return import_module(path)
        spec = spec_from_file_location("kernels_to_tune", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except GeError:
        raise
    except Exception as e:
        raise GeError(f"it cannot be imported: {type(e).__name__}: {e}", path) from e
    return module


def read_words(
    kernel: Kernel, words: Sequence[str]
) -> tuple[list[Any], dict[str, list[int | float]]]:
    """The types of all arguments in their order, and the values of parameters. Raises GeError."""
    given: dict[str, str] = {}
    for word in words:
        name, _, given[name] = word.partition("=")
    _, *names = signature(kernel.function).parameters
    for name in given:
        if name not in names:
            raise GeError(f"@{kernel.name} has no '{name}'{did_you_mean(name, names)}")
    arguments = [n for n in names if n not in kernel.parameters]
    if missing := [n for n in arguments if n not in given]:
        hint = f"write {missing[0]}=512x256xf16"
        raise GeError(f"@{kernel.name} needs a type for '{missing[0]}'", hint=hint)
    choices = {n: values_of(n, text) for n, text in given.items() if n in kernel.parameters}
    return [tensor_of(n, given[n]) for n in arguments], choices


def tensor_of(name: str, text: str) -> Any:
    if not (match := TYPE.fullmatch(text)):
        raise GeError(f"{name}: a type such as 512x256xf16, not '{text}'")
    return Tensor(tuple(map(int, match[1].split("x"))), match[2])


def values_of(name: str, text: str) -> list[int | float]:
    values: list[int | float] = []
    for word in text.split(","):
        try:
            values.append(int(word))
        except ValueError:
            try:
                values.append(float(word))
            except ValueError:
                raise GeError(f"{name}: numbers such as 64,128, not '{text}'") from None
    return values
