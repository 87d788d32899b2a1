"""The command line of ge-opt on xDSL's driver: what mlir-opt users expect of it."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import NoReturn, TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, ShrinkException
from xdsl.xdsl_opt_main import xDSLOptMain

from ge.dialects.support.diagnostics import Diagnostic, Place, Severity, diagnostic_handler
from ge.dialects.support.errors import GeError
from ge.lowering.cli.arguments import options_from
from ge.lowering.cli.command_line import ArgumentParser, usage_error
from ge.lowering.cli.pass_help import pass_help
from ge.lowering.debugging.expected_diagnostics import EXPECTED, mismatches
from ge.lowering.pipeline.instrumentation import (
    Between,
    Dumps,
    IRPrinting,
    Reproducer,
    Timing,
    count_ops,
    recorded_configuration,
)
from ge.lowering.pipeline.pass_manager import Instrumentation, PassManager, Verification
from ge.lowering.pipeline.pass_options import (
    PassText,
    build_pipeline,
    read_options,
    read_pipeline,
    require_pass,
)
from ge.lowering.plugins.extensions import universe
from ge.lowering.plugins.universe import rules
from ge.lowering.text.errors import Sources, diagnose, show_traceback
from ge.lowering.text.files import weights_path, write_text
from ge.lowering.text.printing import op_text
from ge.lowering.text.reading import Source, parse_module, read_source

DESCRIPTION = "Run any passes on a module of any level: graph, fused_op, npu_task."
EPILOG = """passes:
  Each pass is a flag too, and the order of the flags is the order of the passes:
    ge-opt x.mlir --canonicalize --plan-memory=alignment=512,reuse=true
  --list-passes says what there is.
environment:
  GE_DEBUG=1 (or --debug) prints Python's traceback with an error; GE_CUSTOM_PASS=FILE.py is a
  plugin as with --load-plugin.
"""


HELP = {
    "input_file": "a .mlir module of any level (default, and -: standard input)",
    "frontend": "format of the input (default: mlir)",
    "disable_verify": "verify neither the input nor after passes",
    "allow_unregistered_dialect": "take ops of dialects that nobody knows",
    "no_implicit_module": "put no module around what has none",
    "output_file": "where the text goes (default, and -: standard output)",
    "print_between_passes": "print the IR between passes",
    "time_passes": "print the seconds of each pass",
    "verify_diagnostics": "the input states its errors in comments, `expected-error@+1 {{text}}`: "
    "status 0 if these and no others come; without such comments, print errors and exit with 0",
    "parsing_diagnostics": "print errors of the parser and exit with 0",
    "split_input_file": "treat the parts between lines `// -----` one by one",
    "print_no_properties": "print properties as attributes",
    "syntax_highlight": "colours on a terminal",
    "shrink": "status 0 if a pass says that the input can shrink",
}
"""Option of xDSL's driver -> what it does."""


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"expected true or false, got '{text}'")
    return text.lower() in ("true", "1")


def _target(text: str) -> str:
    try:
        parse_spec(text)
    except ArgSpecParseError:
        raise argparse.ArgumentTypeError(
            f"expected NAME or NAME{{key=value}}, got '{text}'"
        ) from None
    return text


def plugin_files(args: Sequence[str]) -> list[str]:
    """The values of `--load-plugin`; needed before the options are known."""
    parser = ArgumentParser("ge-opt", None, "", add_help=False, allow_abbrev=False)
    parser.add_argument("--load-plugin", action="append", default=[])
    return parser.parse_known_args(args)[0].load_plugin


class GeOptMain(xDSLOptMain):
    """One run of ge-opt."""

    def __init__(self, args: Sequence[str]) -> None:
        self.options = options_from(argparse.Namespace())
        self.plugins = (*plugin_files(args), *self.options.plugins)
        self.universe = universe(*self.plugins)
        self.command_line = list(args)
        self.pass_flags: list[PassText] = []
        self.sources = Sources()
        # register_all_arguments takes the pass flags out of this list before it is parsed
        super().__init__(DESCRIPTION, self.command_line)

    # ---- what there is -----------------------------------------------------------------------

    def register_all_dialects(self) -> None:
        for name, factory in self.universe.all_dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        for name, factory in self.universe.all_passes.items():
            self.register_pass(name, factory)

        def interpreter() -> type[ModulePass]:
            from ge.lowering.plugins.transform_interpreter import transform_interpreter

            return transform_interpreter(self.universe.all_passes)

        self.register_pass("transform-interpreter", interpreter)

    def register_all_targets(self) -> None:
        self.available_targets.update(self.universe.all_targets)

    def list_passes(self) -> str:
        """Help on the passes of ge and of plugins; xDSL's own by name."""
        own = {n: f for n, f in self.available_passes.items() if n not in XDSL_UNIVERSE.all_passes}
        chosen = self.args.list_passes
        if chosen:
            names = [require_pass(n, self.available_passes) for n in chosen.split(",")]
            return "\n\n".join(pass_help(self.available_passes[n]()) for n in names)
        texts = [pass_help(own[name]()) for name in sorted(own)]
        upstream = "\n".join(f"    {n}" for n in sorted(XDSL_UNIVERSE.all_passes))
        return "\n\n".join([*texts, f"of xDSL (--list-passes=NAME says more):\n{upstream}"])

    # ---- the command line --------------------------------------------------------------------

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        argparse.ArgumentParser.__init__(  # xDSL made it with the defaults
            arg_parser,
            "ge-opt",
            description=DESCRIPTION,
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            conflict_handler="resolve",  # some of xDSL's options get more names or a better help
            allow_abbrev=False,
        )
        arg_parser.error = self.usage_error
        super().register_all_arguments(arg_parser)
        for action in arg_parser._actions:  # pyright: ignore[reportPrivateUsage]
            action.help = HELP.get(action.dest, action.help)
        add = arg_parser.add_argument
        add("-p", "--passes", "--pass-pipeline", dest="passes", default="", metavar="PIPELINE",
            help="the passes to run: 'a,b{x=1 y=2}' or 'builtin.module(a,b{x=1 y=2})'")  # fmt: skip
        add("-t", "--target", type=_target, default="mlir",
            help=f"output format: {', '.join(self.available_targets)}")  # fmt: skip
        add("--list-passes", nargs="?", const="", metavar="NAME,...", help="describe the passes")
        add("--list-rules", action="store_true", help="the rules that passes are made of")
        add("--load-plugin", action="append", metavar="FILE.py", help="add its dialects and passes")
        add("--verify-each", type=_bool, default=True, metavar="BOOL",
            help="verify after each pass (default true); the input is always verified")  # fmt: skip
        add("--remarks", action="store_true", help="print what passes have to say")
        add("--debug", action="store_true", help="print Python's traceback with an error")
        add("-v", "--version", action="store_true", help="print the versions of ge and xDSL")
        self.register_printing_arguments(arg_parser)
        self.register_reproducer_arguments(arg_parser)
        self.take_pass_flags(arg_parser)

    def register_printing_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        add = arg_parser.add_argument
        for when in ("before", "after"):
            add(f"--mlir-print-ir-{when}", action="append", default=[], metavar="PASS,...",
                help=f"print the IR {when} these passes, on stderr")  # fmt: skip
            add(f"--mlir-print-ir-{when}-all", action="store_true",
                help=f"print the IR {when} every pass, on stderr")  # fmt: skip
        add("--mlir-print-ir-after-change", action="store_true",
            help="print the IR after a pass only where it changed")  # fmt: skip
        add("--mlir-print-ir-after-failure", action="store_true",
            help="print the IR that a failing pass leaves, on stderr")  # fmt: skip
        add("--mlir-elide-elementsattrs-if-larger", type=int, metavar="N",
            help="print constants of more than N elements without them (default: all)")  # fmt: skip
        add("--print-op-generic", "--mlir-print-op-generic", action="store_true",
            help="print ops in their generic form")  # fmt: skip
        add("--print-debuginfo", "--mlir-print-debuginfo", action="store_true",
            help="print locations")  # fmt: skip
        add("--mlir-timing", action="store_true", help="time and ops per pass, on stderr")

    def register_reproducer_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        add = arg_parser.add_argument
        add("--mlir-pass-pipeline-crash-reproducer", metavar="FILE",
            help="when a pass fails, write what `ge-opt FILE` reruns")  # fmt: skip
        add("--mlir-pass-pipeline-local-reproducer", action="store_true",
            help="only the failing pass, and the module right before it")  # fmt: skip
        add("--run-reproducer", action="store_true", help="the input must be a reproducer")
        add("--validate", action="store_true",
            help="run the module before and after each pass on random and edge inputs; stop at "
            "the first pass that changes the numbers by more than it declares")  # fmt: skip
        add("--validate-output", metavar="FILE",
            help="the test that repeats it, cut down to the ops that matter "
            "(default validate-PASS.mlir)")  # fmt: skip

    def take_pass_flags(self, arg_parser: argparse.ArgumentParser) -> None:
        """Take `--PASS[=options]` out of the command line; other options of one dash and several
        letters (`-split-input-file`) get their second dash."""
        options = {o for a in arg_parser._actions for o in a.option_strings}  # pyright: ignore[reportPrivateUsage]
        rest: list[str] = []
        for i, arg in enumerate(self.command_line):
            if arg == "--":
                rest += self.command_line[i:]
                break
            flag, equals, value = arg.partition("=")
            name = flag.lstrip("-")
            if not arg.startswith("-") or len(name) < 2:
                rest.append(arg)
            elif f"--{name}" in options:
                rest.append(f"--{name}{equals}{value}")
            elif name in self.available_passes:
                self.pass_flags.append(PassText(name, read_options(value, f"--{name}")))
            else:
                rest.append(arg)
        self.command_line[:] = rest
        self.known_flags = sorted({o.lstrip("-") for o in options} | set(self.available_passes))

    def usage_error(self, message: str) -> NoReturn:
        """What argparse complains about, with a suggestion for an unknown option."""
        raise usage_error("ge-opt", message, self.known_flags)

    # ---- the pipeline ------------------------------------------------------------------------

    def pass_texts(self) -> list[PassText]:
        """The passes asked for: by flags, by a pipeline text, or by the input's own header."""
        if self.pass_flags and self.args.passes:
            raise GeError("give the passes as flags or as --pass-pipeline, not both")
        if self.pass_flags:
            return self.pass_flags
        recorded = recorded_configuration(self.source.text)
        if self.args.run_reproducer and recorded is None:
            raise GeError("this is not a reproducer of ge-opt", self.source.name)
        if recorded is not None and not self.args.passes:
            for option in recorded:
                name, _, value = option.partition("=")
                if name == "--verify-each":
                    self.args.verify_each = _bool(value)
                else:
                    self.args.passes = value
        return read_pipeline(self.args.passes)

    def setup_pipeline(self) -> None:
        if self.args.list_passes is not None or self.args.list_rules:
            return
        self.source = read_source(self.args.input_file)
        texts = self.pass_texts()
        passes = build_pipeline(texts, self.available_passes)
        self.timing = Timing()
        self.manager = PassManager(passes, self.instrumentations(passes))

    def instrumentations(self, passes: Sequence[ModulePass]) -> list[Instrumentation]:
        args = self.args
        found: list[Instrumentation] = []
        if not args.disable_verify:
            found.append(Verification(args.verify_each))
        if args.time_passes or args.print_between_passes:
            found.append(Between(args.time_passes, args.print_between_passes))
        if self.options.dump_graph:
            found.append(Dumps(Path(self.options.dump_path), self.options.dump_graph))
        before = {n for names in args.mlir_print_ir_before for n in names.split(",")}
        after = {n for names in args.mlir_print_ir_after for n in names.split(",")}
        for name in sorted(before | after):
            require_pass(name, self.available_passes)
        before |= {"*"} if args.mlir_print_ir_before_all else set()
        change = args.mlir_print_ir_after_change
        after |= {"*"} if args.mlir_print_ir_after_all or (change and not after) else set()
        if before or after or args.mlir_print_ir_after_failure:
            found.append(
                IRPrinting(
                    sys.stderr,
                    frozenset(before),
                    frozenset(after),
                    only_changes=change,
                    after_failure=args.mlir_print_ir_after_failure,
                    elide=args.mlir_elide_elementsattrs_if_larger,
                    generic=args.print_op_generic,
                    debuginfo=args.print_debuginfo,
                )
            )
        if args.mlir_timing:
            found.append(self.timing)
        if path := args.mlir_pass_pipeline_crash_reproducer:
            local = args.mlir_pass_pipeline_local_reproducer
            found.append(Reproducer(Path(path), passes, args.verify_each, local))
        if args.validate:
            found.append(self.validation())
        return found

    def validation(self) -> Instrumentation:
        from ge.lowering.debugging.validation import Validation
        from ge.runtime.data.weights import open_payload
        from ge.runtime.device.trials import Trials

        folder = Path(self.source.name).parent
        return Validation(
            Trials,
            self.ctx,
            lambda module: open_payload(module, folder),
            self.args.validate_output,
            self.plugins,
        )

    # ---- a run -------------------------------------------------------------------------------

    def run(self) -> None:
        raise SystemExit(self.execute())

    def execute(self) -> int:
        """Do what the command line says. Returns the exit status."""
        args = self.args
        if args.list_passes is not None:
            print(self.list_passes())
            return 0
        if args.list_rules:
            print("\n".join(f"{name}\n    {what}" for name, what in rules().items()))
            return 0
        parts = self.source.split() if args.split_input_file else [self.source]
        self.sources = Sources(self.source)
        quiet = args.verify_diagnostics or args.parsing_diagnostics
        expecting = args.verify_diagnostics and EXPECTED.search(self.source.text) is not None
        failed, output = False, StringIO()
        for i, part in enumerate(parts):
            said: list[Diagnostic] = []
            text = self.process(part, said)
            if expecting:
                wrong = mismatches(part, said)
                failed |= self.show(wrong, sys.stderr)
            else:
                failed |= self.show(said, sys.stdout if quiet else sys.stderr) and not quiet
            output.write(("// -----\n" if i else "") + text)
            if args.output_file is None:
                sys.stdout.write(output.getvalue())
                sys.stdout.flush()
                output = StringIO()
        if args.output_file is not None and not failed:
            inputs = [*(args.load_plugin or ()), weights_path(self.source.name)]
            write_text(args.output_file, output.getvalue(), inputs)
        if args.mlir_timing:
            self.timing.phase("Output")
            print(self.timing.report(), file=sys.stderr)
        return int(failed)

    def process(self, part: Source, said: list[Diagnostic]) -> str:
        """Parse, run the passes, print: the resulting text, empty after an error. What is to be
        said goes to `said`."""
        with diagnostic_handler(said.append):
            try:
                module = parse_module(self.ctx, part, implicit=not self.args.no_implicit_module)
                self.timing.phase("Parser", count_ops(module))
                with self.weights(module):
                    self.manager.run(self.ctx, module)
                self.timing.phase("(verify)")
                return self.output_resulting_program(module)
            except ShrinkException:
                print("Success, can shrink")
                raise SystemExit(0) from None
            except Exception as e:
                show_traceback(e, self.args.debug)
                error = diagnose(e, self.manager.context, notes=not self.args.verify_diagnostics)
                if not str(error.place):
                    error = replace(error, place=Place(part.name))
                said.append(error)
                return ""

    def weights(self, module: ModuleOp) -> AbstractContextManager[None]:
        """Passes see the weights that the module names."""
        if "graph.payload" not in module.attributes:
            return nullcontext()
        from ge.runtime.data.weights import open_payload, weights_at_hand

        return weights_at_hand(open_payload(module, Path(self.source.name).parent))

    def show(self, diagnostics: Sequence[Diagnostic], stream: TextIO) -> bool:
        """Print diagnostics (remarks if asked for); whether there was an error."""
        for diagnostic in diagnostics:
            if diagnostic.severity is not Severity.REMARK or self.args.remarks:
                print(self.sources.render(diagnostic), file=stream)
        return any(d.severity is Severity.ERROR for d in diagnostics)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        limit = self.args.mlir_elide_elementsattrs_if_larger
        if limit is None or self.args.target != "mlir":
            try:
                return super().output_resulting_program(prog)
            except ImportError as e:
                hint = f"pip install {e.name}"
                raise GeError(
                    f"target '{self.args.target}' needs package {e.name}", hint=hint
                ) from e
            except ValueError as e:
                raise GeError(f"target '{self.args.target}': {e}") from e
        return (
            op_text(
                prog,
                elide=limit,
                generic=self.args.print_op_generic,
                properties_as_attributes=self.args.print_no_properties,
                debuginfo=self.args.print_debuginfo,
            )
            + "\n"
        )
