"""What ge-opt does: read the input part by part, run the passes on it, print."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import IO, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ShrinkException

from ge.dialects.support.diagnostics import (
    Diagnostic,
    Severity,
    SourceLocation,
    diagnostic_handler,
    warning_handler,
)
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import count_ops
from ge.dialects.support.streams import error_stream, print_result, set_holds_file
from ge.dialects.text.colours import wanted
from ge.dialects.text.errors import (
    REPRODUCER,
    Sources,
    diagnose,
    is_internal,
    show_traceback,
    with_op,
)
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module, read_source
from ge.lowering.levels.dominance import verify
from ge.lowering.pipeline.collector import paused_collector
from ge.lowering.pipeline.instrumentation import Between, dumps_for
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_manager import Instrumentation, PassManager, Verification
from ge.lowering.pipeline.pass_options import (
    PassText,
    build_pipeline,
    for_target,
    read_pipeline,
)
from ge.lowering.pipeline.reproducer import Recorded, missing_packages, reproduce
from ge.lowering.plugins.extensions import universe
from ge.lowering.plugins.universe import rules
from ge.runtime.data.files import weights_path, write_text
from ge.tools.cli.opt_arguments import plugin_files, read_arguments
from ge.tools.cli.remarks import Remarks
from ge.tools.cli.response_files import expanded
from ge.tools.cli.watch_flags import look_of
from ge.tools.cli.watching import Watching
from ge.tools.debugging.verification import mismatches
from ge.transforms.rewriting.counts import Counters, counting


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
        from ge.tools.cli.debug_counters import read_counters  # with xDSL's rewriting

        return read_counters(texts, printed)

    def bisect(self, passes: Sequence[ModulePass]) -> int:
        from ge.tools.cli.bisect import bisect

        module = parse_module(self.ctx, self.source)
        verify(module)
        folder = Path(self.source.name).parent
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
        """What there is, where that is asked for."""
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
                    from ge.tools.debugging.verification import check_roundtrip

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
