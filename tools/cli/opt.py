"""ge-opt: its options, and a flag for each pass; it reads the input part by part, runs the passes
on it, and prints."""

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import IO, Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, ShrinkException

from ge.dialects.support.diagnostics import (
    Diagnostic,
    Severity,
    SourceLocation,
    diagnostic_handler,
    warning_handler,
)
from ge.dialects.support.environment import truth
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import count_ops
from ge.dialects.support.streams import error_stream, print_result, set_holds_file
from ge.dialects.text import look
from ge.dialects.text.errors import (
    REPRODUCER,
    Sources,
    diagnose,
    is_internal,
    show_traceback,
    with_op,
)
from ge.dialects.text.look import When, wanted
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SPLIT_MARKER, SourceText, parse_module, read_source
from ge.dialects.text.values import did_you_mean, names
from ge.lowering.levels.dominance import verify
from ge.lowering.pipeline.instrumentation import Between, dumps_for
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import (
    Instrumentation,
    PassManager,
    Verification,
    paused_collector,
)
from ge.lowering.pipeline.pass_options import (
    PassText,
    build_pipeline,
    for_target,
    read_options,
    read_pipeline,
)
from ge.lowering.pipeline.reproducer import Recorded, missing_packages, reproduce
from ge.lowering.plugins.extensions import universe
from ge.lowering.plugins.universe import rules
from ge.runtime.data.files import weights_path, write_text
from ge.tools.cli.command_line import ArgumentParser, expanded
from ge.tools.cli.flags import (
    PRINTED,
    PRINTING,
    READERS,
    REMARK_FLAGS,
    WATCHED,
    WATCHING,
    add_table,
    argument,
    look_of,
    with_form,
)
from ge.tools.cli.remarks import Remarks
from ge.tools.cli.watching import Watching
from ge.tools.debugging.verification import ALL, LEVELS, check_roundtrip, mismatches
from ge.transforms.rewriting.counts import APPLICATIONS, PASSES, Counters, DebugCounter, counting

DESCRIPTION = "Run any passes on a module of any level: graph, fused_op, npu_task."

EPILOG = """passes:
  Each pass is a flag too, and the order of the flags is the order of the passes:
    ge-opt x.mlir --canonicalize --plan-memory=alignment=512,reuse=true
  --list-passes says what there is.
environment:
  GE_DEBUG=1 (or --debug) prints Python's traceback with an error; GE_CUSTOM_PASS=FILE.py is a
  plugin as with --load-plugin.
"""

# Flags and metavar (none: a switch) -> help
OPTIONS = {
    "-f --frontend FORMAT": "format of the input: mlir (default)",
    "--split-input-file [=MARKER]": """treat the parts between lines that begin with a marker
        (default `// -----`) one by one""",
    "--output-split-marker MARKER": "the line between the parts of the output (default `// -----`)",
    "--allow-unregistered-dialect": "take ops of dialects that nobody knows",
    "--no-implicit-module": "do not wrap the input in a module",
    "--load-plugin FILE.py": "add its dialects and passes",
    "-p --passes --pass-pipeline PIPELINE": "run passes: 'a,b{x=1}' or 'builtin.module(a,b{x=1})'",
    "--verify-each [=BOOL]": "verify after each pass (default true); the input is always verified",
    "--verify-roundtrip": "also print the input in both forms, read them back, and compare",
    "--disable-verify": "verify neither the input nor after passes",
    "-o --output-file FILE": "where the text goes (default, and -: standard output)",
    "--output-format FORMAT": "of the result: {targets}",
    "-t --target NAME": """the NPU, for passes with an option `target` that is not given: a preset
        or a .toml file. Scripts for xdsl-opt may name an output format instead""",
    "--print-no-properties": "print properties as attributes",
    "--print-op-irdl": "print the module as mlir-opt takes it with the file of --export-irdl",
    "--syntax-highlight": "colours on a terminal",
    "--verify-diagnostics [=LEVEL]": """the input states its errors in comments, `expected-error@+1
        {{text}}`: status 0 if these come, and with LEVEL all (default) no others; only-expected
        says nothing of others""",
    "--parsing-diagnostics": "print errors on standard output and exit with 0",
    "--color [=WHEN]": "colours of diagnostics: auto (default), always or never; NO_COLOR counts",
    **{f"{flag} {metavar}": text for flag, (metavar, text) in REMARK_FLAGS.items()},
    "--mlir-print-op-on-diagnostic [=BOOL]": """show the op that an error is about as it is, in a
        note (default: where a pass made it)""",
    "--mlir-print-stacktrace-on-diagnostic": "as --debug",
    "--debug": "print Python's traceback with an error",
    "--print-between-passes": "print the IR between passes",
    "--time-passes": "print the seconds of each pass",
    "--run-reproducer": "the input must be a reproducer",
    "--validate": """run the module before and after each pass on random and edge inputs; stop at
        the first pass that changes the numbers by more than it declares""",
    "--validate-output FILE": """the test that repeats it, cut down to the ops that matter (default:
        validate-PASS.mlir)""",
    "--bisect [=SCRIPT]": """find the pass, and the application of a rule in it, that changes the
        numbers by more than it declares, fails or does not verify; or after which a script ends
        with status 1 (as for ge-reduce)""",
    "--mlir-debug-counter COUNTER,...": """NAME-skip=N, NAME-count=M: apply the rule M times after
        the first N; also pass-execution (passes) and rule-application (all rules)""",
    "--mlir-print-debug-counter": "print how often each was seen, skipped and applied, on stderr",
    "--shrink": "status 0 if a pass says that the input can shrink, else 1",
    "--list-passes NAME,...": """describe the passes of ge, packages and plugins, or some; with
        all, xDSL's too""",
    "--list-ops NAME": """the ops of ge, packages and plugins, those of a dialect or of all; or
        what there is to know of one: graph.conv""",
    "--list-dialects": "the dialects, and of which package they are",
    "--list-rules": "the rules that passes are made of",
    "--list-targets": "the NPUs that --target takes",
    "--export-irdl": "write the dialects in IRDL, for mlir-opt --irdl-file=FILE",
    "--show-dialects": "the dialects whose ops are known",
    "-v --version": "print the versions of ge and xDSL",
}


# Flags whose value may be left out -> what they stand for then; a value is behind a `=`
BARE = {
    "--split-input-file": SPLIT_MARKER,
    "--verify-diagnostics": ALL,
    "--verify-each": "true",
    "--bisect": "",
    "--mlir-print-op-on-diagnostic": "true",
    "--color": When.ALWAYS.value,
}


def format_of(formats: Collection[str]) -> Callable[[str], ArgSpec]:
    def read(text: str) -> ArgSpec:
        try:
            spec = parse_spec(text)
        except ArgSpecParseError:
            raise ValueError("NAME or NAME{key=value}") from None
        if spec.name not in formats:
            raise ValueError(f"one of {', '.join(formats)}")
        return spec

    return argument(read)


def split_target(args: argparse.Namespace, formats: Collection[str]) -> None:
    """Take `--target` as an output format where it names one, as xdsl-opt does."""
    if (args.target or "").partition("{")[0] in formats:
        args.output_format = format_of(formats)(args.target)
        args.target = None


@cache
def build_parser(targets: tuple[str, ...] = ()) -> ArgumentParser:
    """The options without the flags of passes; `targets` are the output formats."""
    facts: dict[str, dict[str, Any]] = {
        "--frontend": {"choices": ["mlir"]},
        "--load-plugin": {"action": "append", "default": []},
        "--pass-pipeline": {"default": ""},
        "--verify-each": {"type": argument(truth), "default": True},
        "--verify-diagnostics": {"choices": LEVELS},
        "--mlir-debug-counter": {"action": "append", "default": []},
        "--mlir-print-op-on-diagnostic": {"type": argument(truth)},
        "--color": {"type": argument(look.read), "default": When.AUTO},
        "--output-split-marker": {"default": SPLIT_MARKER},
        "--output-format": {"type": format_of(targets), "default": "mlir"},
        "--list-passes": {"nargs": "?", "const": ""},
        "--list-ops": {"nargs": "?", "const": ""},
        **{flag: {"type": argument(read)} for flag, read in READERS.items()},
    }
    parser = ArgumentParser("ge-opt", DESCRIPTION, EPILOG, allow_abbrev=False)
    parser.add_argument("input_file", nargs="?", help="a .mlir module of any level (default: -)")
    add_table(
        parser.add_argument,
        {w: text.replace("{targets}", ", ".join(targets)) for w, text in OPTIONS.items()},
        facts,
    )
    add_table(parser.section(PRINTED), PRINTING)
    add_table(parser.section(WATCHED), WATCHING)
    return parser


def plugin_files(args: Sequence[str]) -> list[str]:
    """The values of `--load-plugin`; needed before the passes are known."""
    parser = ArgumentParser("ge-opt", None, "", add_help=False, allow_abbrev=False)
    parser.add_argument("--load-plugin", action="append", default=[])
    return parser.parse_known_args(args)[0].load_plugin


def read_arguments(
    args: Sequence[str], passes: Collection[str], targets: Collection[str]
) -> tuple[argparse.Namespace, list[PassText]]:
    """The options, and the passes that flags name; other options of one dash and several letters
    (`-split-input-file`) get their second dash. Raises GeError for what nobody knows."""
    parser = build_parser(tuple(targets))
    parser.more_flags = passes
    end = args.index("--") if "--" in args else len(args)
    rest: list[str] = []
    texts: list[PassText] = []
    for arg in args[:end]:
        flag, equals, value = arg.partition("=")
        name = flag.lstrip("-")
        if arg.startswith("-") and parser.has_flag(f"--{name}"):
            if not equals and f"--{name}" in BARE:
                arg = f"--{name}={BARE[f'--{name}']}"
            rest += parser.spelled(arg)
        elif arg.startswith("-") and name in passes:
            texts.append(PassText(name, read_options(value, f"--{name}")))
        else:
            rest.append(arg)
    result = parser.parse_args(with_form([*rest, *args[end:]]))
    split_target(result, targets)
    return result, texts


def run(arguments: Sequence[str]) -> int:
    """The exit status. Raises GeError for a command line that makes no sense."""
    verify = Attribute.__post_init__
    try:
        return Driver(expanded(arguments)).run()
    finally:
        Attribute.__post_init__ = verify  # --disable-verify replaces it


class Driver:
    def __init__(self, arguments: Sequence[str]) -> None:
        self.options = Options.from_environment()
        self.plugins = (*plugin_files(arguments), *self.options.plugins)
        self.known = universe(*self.plugins)
        self.passes = self.known.all_passes
        self.passes["transform-interpreter"] = self.interpreter
        self.args, self.flags = read_arguments(arguments, self.passes, self.known.all_targets)
        self.ctx = Context(allow_unregistered=self.args.allow_unregistered_dialect)
        for name, factory in self.known.all_dialects.items():
            self.ctx.register_dialect(name, factory)
        self.watching = Watching(self.args)
        self.timing = self.watching.timing

    def interpreter(self) -> type[ModulePass]:
        from ge.lowering.plugins.transform_interpreter import transform_interpreter

        return transform_interpreter(self.passes)

    def run(self) -> int:
        if (listed := self.listed()) is not None:
            print_result(listed)
            return 0
        if self.args.show_dialects:
            print_result(f"Available Dialects: {','.join(sorted(self.known.all_dialects))}")
            return 0
        if self.args.output_file in (None, "-") and self.args.bisect is None:
            set_holds_file(True)
        if self.args.disable_verify:
            Attribute.__post_init__ = lambda self: None
        self.source = read_source(self.args.input_file)
        self.sources = Sources(self.source)
        texts = self.pipeline()
        if self.args.target:
            texts = self.for_target(texts)
        passes = build_pipeline(texts, self.passes)
        self.manager = PassManager(passes, self.instrumentations(passes))
        known = {*self.passes, *rules()} if self.args.remarks_pass else ()
        self.remarks = Remarks.asked_for(self.args, known)
        if self.args.bisect is not None:
            return self.bisect(passes)
        counters = self.counters()
        with self.watching.statistics.counting(), counting(counters):
            status = self.process_parts()
        if self.args.mlir_print_debug_counter and counters is not None:
            print(counters.text(), file=sys.stderr)
        self.remarks.finish([self.source.name, *self.plugins])
        return status

    def counters(self) -> Counters | None:
        texts, printed = self.args.mlir_debug_counter, self.args.mlir_print_debug_counter
        if not texts and not printed:
            return None

        return read_counters(texts, printed)

    def bisect(self, passes: Sequence[ModulePass]) -> int:

        module = parse_module(self.ctx, self.source)
        verify(module)
        folder = Path(self.source.name).parent
        from ge.tools.cli.bisect import bisect

        found = bisect(self.ctx, passes, module, folder, self.args.bisect)
        if found is None:
            print_result("no pass does harm")
            return 0
        print_result(self.sources.render(found, wanted(self.args.color, sys.stdout)))
        return 1

    def for_target(self, texts: Sequence[PassText]) -> Sequence[PassText]:
        from ge.dialects.targets.target import Target  # with numbers of all engines

        Target.load(self.args.target)  # an unknown one is an error whatever the passes are
        return for_target(texts, self.args.target, self.passes)

    def listed(self) -> str | None:
        """List what there is, where that is asked for."""
        args = self.args
        if args.export_irdl:
            from ge.tools.reference.irdl import DIALECTS, definitions

            return definitions(self.known.all_dialects[name]() for name in DIALECTS)
        asked = args.list_passes, args.list_ops
        if asked == (None, None) and not (
            args.list_dialects or args.list_targets or args.list_rules
        ):
            return None
        from ge.tools.cli import lists

        if args.list_passes is not None:
            return lists.list_passes(args.list_passes, self.passes)
        if args.list_ops is not None:
            return lists.list_ops(args.list_ops, self.known)
        if args.list_dialects:
            return lists.list_dialects(self.known)
        return lists.list_targets() if args.list_targets else lists.list_rules()

    def pipeline(self) -> Sequence[PassText]:
        """The passes asked for: by flags, by a pipeline text, or by the input's own header."""
        if self.flags and self.args.passes:
            raise GeError("give the passes as flags or as --pass-pipeline, not both")
        recorded = Recorded.of(self.source.text)
        if self.args.run_reproducer and recorded is None:
            raise GeError("this is not a reproducer of ge-opt", self.source.name)
        if self.flags or self.args.passes or recorded is None:
            return self.flags or read_pipeline(self.args.passes)
        for package in missing_packages(self.source.text):
            print(f"warning: written with package {package}, which is not here", file=sys.stderr)
        self.args.verify_each &= recorded.verify_each
        return read_pipeline(recorded.pipeline)

    # ---- what watches the passes -------------------------------------------------------------

    def instrumentations(self, passes: Sequence[ModulePass]) -> list[Instrumentation]:
        args = self.args
        watching: list[Instrumentation] = []
        if not args.disable_verify:
            watching.append(Verification(args.verify_each))
        if args.time_passes or args.print_between_passes:
            watching.append(Between(args.time_passes, args.print_between_passes))
        watching += dumps_for(self.options)
        self.watching.check(self.passes)
        watching += self.watching.instrumentations(passes, args.verify_each)
        if args.validate:
            watching.append(self.validation())
        return watching

    def validation(self) -> Instrumentation:
        from ge.runtime.data.weights import open_payload
        from ge.runtime.device.trials import runner_for
        from ge.tools.debugging.validation import Validation

        folder, file = Path(self.source.name).parent, self.args.validate_output
        return Validation(
            runner_for, self.ctx, lambda m: open_payload(m, folder), file, self.plugins
        )

    # ---- a run -------------------------------------------------------------------------------

    def process_parts(self) -> int:
        args = self.args
        to_file = args.output_file not in (None, "-")
        failed, texts = False, list[str]()
        try:
            marker = args.split_input_file
            for part in self.source.split(marker) if marker else [self.source]:
                diagnostics: list[Diagnostic] = []
                between = f"{args.output_split_marker}\n" if texts else ""
                text = between + self.process(part, diagnostics)
                failed |= self.show(part, diagnostics)
                texts.append(text)
                if not to_file:
                    sys.stdout.write(text)
                    sys.stdout.flush()
        except ShrinkException:
            print("Success, can shrink")
            return 0
        if to_file and not failed:
            inputs = [*self.plugins, weights_path(self.source.name)]
            write_text(args.output_file, "".join(texts), inputs)
        self.timing.phase("Output")
        self.watching.report()
        if args.shrink:
            print("Failure, can't shrink")
        return int(failed or args.shrink)

    def process(self, part: SourceText, diagnostics: list[Diagnostic]) -> str:
        """Parse, run the passes, print: the text, empty after an error."""
        remarks = self.args.remarks or self.args.verify_diagnostics
        listens = diagnostic_handler if remarks else warning_handler
        with listens(diagnostics.append), paused_collector():
            try:
                module = parse_module(self.ctx, part, implicit=not self.args.no_implicit_module)
                self.timing.phase("Parser", 1 + count_ops(module.body.blocks))
                if self.args.verify_roundtrip:
                    check_roundtrip(self.ctx, module)
                self.run_passes(module, self.manager)
                return self.text_of(module)
            except ShrinkException:
                raise
            except Exception as e:
                show_traceback(e, self.args.debug or self.args.mlir_print_stacktrace_on_diagnostic)
                notes = not self.args.verify_diagnostics
                if notes and self.manager.running is not None and is_internal(e):
                    e.add_note(REPRODUCER + self.reproducer(part))
                error = diagnose(e, self.manager.context, notes=notes)
                error = with_op(error, e, notes and self.args.mlir_print_op_on_diagnostic)
                if not str(error.location):
                    error = replace(error, location=SourceLocation(part.name))
                diagnostics.append(error)
                return ""

    def run_passes(self, module: ModuleOp, manager: PassManager) -> None:
        if "graph.payload" not in module.attributes:
            manager.run(self.ctx, module)
            return
        from ge.runtime.data.weights import open_payload, weights_at_hand

        with weights_at_hand(open_payload(module, Path(self.source.name).parent)):
            manager.run(self.ctx, module)

    def reproducer(self, part: SourceText) -> str:
        if file := self.args.mlir_pass_pipeline_crash_reproducer:
            return file
        return reproduce(
            lambda saving: self.run_passes(
                parse_module(self.ctx, part), PassManager(self.manager.passes, [saving])
            )
        )

    def show(self, part: SourceText, diagnostics: Sequence[Diagnostic]) -> bool:
        """Print the diagnostics of a part (remarks if asked for); whether one is a failure."""
        args = self.args
        tolerant = args.parsing_diagnostics
        if args.verify_diagnostics:
            diagnostics, tolerant = mismatches(part, diagnostics, args.verify_diagnostics), False

        def show(d: Diagnostic) -> None:
            stream = error_stream() if d.severity is Severity.ERROR else sys.stderr
            file = sys.stdout if tolerant else stream
            print(self.sources.render(d, wanted(args.color, file)), file=file)

        for d in diagnostics:
            self.remarks.tell(d, show)
        return not tolerant and any(d.severity is Severity.ERROR for d in diagnostics)

    def text_of(self, module: ModuleOp) -> str:
        args, name = self.args, self.args.output_format.name
        if args.print_op_irdl:
            from ge.tools.reference.irdl import dynamic_form

            return dynamic_form(module) + "\n"
        look = replace(look_of(args), properties_as_attributes=args.print_no_properties)
        if name == "mlir" and not args.syntax_highlight and not args.output_format.parameters:
            return op_text(module, look) + "\n"
        out = StringIO()
        entry = self.known.all_targets[name]
        try:
            if inspect.signature(entry).parameters:
                cast("Callable[[ModuleOp, IO[str]], None]", entry)(module, out)
            else:
                target = entry().from_spec(args.output_format)
                if name == "mlir":
                    chosen = {
                        "print_generic_format": look.generic,
                        "print_properties_as_attributes": look.properties_as_attributes,
                        "print_debuginfo": look.debuginfo,
                        "syntax_highlight": args.syntax_highlight,
                    }
                    target = replace(target, **{k: True for k in chosen if chosen[k]})
                target.emit(self.ctx, module, out)
        except ImportError as e:
            hint = f"pip install {e.name}"
            raise GeError(f"output format '{name}' needs package {e.name}", hint=hint) from e
        except ValueError as e:
            raise GeError(f"output format '{args.output_format}': {e}") from e
        return out.getvalue()


def counted() -> Iterator[str]:
    """List what is counted: rules, patterns that are no rules by their classes, passes."""
    yield from (PASSES, APPLICATIONS, *rules())
    todo = [RewritePattern]
    while todo:
        more = todo.pop().__subclasses__()
        yield from (cls.__name__ for cls in more if not getattr(cls, "ASKS", False))
        todo += more


def read_counters(texts: Sequence[str], all_names: bool) -> Counters | None:
    """The counters that flags ask for; None: there are none. Raises GeError for
    a text of another form, or a name that nothing counts."""
    counters = Counters(all_names)
    known = sorted({*counted()}) if texts else []
    for part in (part for text in texts for part in names(text)):
        match = re.fullmatch(r"(.+)-(skip|count)=(\d{1,15})", part)
        if match is None:
            form = "NAME-skip=N or NAME-count=N"
            raise GeError(f"--mlir-debug-counter: expected {form}, not '{part}'")
        name, number = match[1], int(match[3])
        if name not in known:
            hint = did_you_mean(name, known, "; --list-rules lists rules")
            raise GeError(f"--mlir-debug-counter: nothing counts '{name}'{hint}")
        counter = counters.setdefault(name, DebugCounter())
        if match[2] == "skip":
            counter.skip = number
        else:
            counter.count = number
    return counters if counters or all_names else None
