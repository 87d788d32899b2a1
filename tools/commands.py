"""The commands. Each reads its options first, then imports its module, and the compiler with it:
modules of commands import what they always need at their tops. What some flags alone need, they
import where it is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from ge.dialects.support.environment import has_ranks
from ge.tools.cli.command_line import guarded


@dataclass(frozen=True)
class Command:
    """A command line tool and the module of `ge.tools.cli` that has its `run`. A call with no
    arguments takes those of the process, and returns the exit status."""

    tool: str
    module: str
    collects: bool = True
    in_ranks: bool = False  # where `mpiexec` starts several, each does its part

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        return guarded(self.tool, argv, self.run, self.collects)

    def run(self, args: list[str]) -> int:
        """Run the command as a call, without its guard: errors are raised."""
        if not self.in_ranks or not has_ranks():
            return self.run_here(args)
        ranks = import_module("ge.runtime.device.ranks")
        return ranks.together(lambda: self.run_here(args))

    def run_here(self, args: list[str]) -> int:
        """Run the command in this process."""
        module = f"ge.tools.cli.{self.module}"
        if self.tool == "ge-opt":  # whose passes are flags
            return import_module(module).run(args)
        from ge.tools.cli.parsers import read_arguments  # with the table of options

        given = read_arguments(self.tool, args)
        return import_module(module).run(given)


ge_bench = Command("ge-bench", "bench")
ge_calibrate = Command("ge-calibrate", "calibrate")
ge_check = Command("ge-check", "check")
ge_compile = Command("ge-compile", "compile", collects=False)
ge_import = Command("ge-import", "import_model")
ge_lsp = Command("ge-lsp", "lsp")
ge_opt = Command("ge-opt", "opt")
ge_parser = Command("ge-parser", "parse")
ge_reduce = Command("ge-reduce", "reduce")
ge_run = Command("ge-run", "run", in_ranks=True)
ge_scale = Command("ge-scale", "sweep")
ge_shims = Command("ge-shims", "shims")
ge_sweep = Command("ge-sweep", "sweep")
ge_tune = Command("ge-tune", "tune")
ge_visualizer = Command("ge-visualizer", "visualize")
