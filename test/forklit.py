"""A lit format that runs ge's tools and filecheck in a forked child of the lit worker, which has
the compiler from lit's first process; other commands are processes. A RUN line that is more than a
pipe (`;`, `&&`, shell variables) makes the whole test a ShTest, as does LIT_SHELL=1 (see lit.cfg).
"""

import gc
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain

import lit.formats
import lit.Test
from lit.TestRunner import (
    applySubstitutions,
    getDefaultSubstitutions,
    getTempPaths,
    parseIntegratedTestScript,
)

TOOLS = "ge-check", "ge-opt", "ge-compile", "ge-import", "ge-run"
SHELL = ("cd", "export")
WARM = (
    "numpy",
    "onnx",
    "ge.tools.commands",
    "ge.tools.cli.compile",
    "ge.tools.cli.import_model",
    "ge.tools.cli.opt",
    "ge.tools.cli.command_line",
    "ge.tools.cli.run",
    "ge.tools.debugging.validation",
    "ge.lowering.driver.compiler",
    "ge.lowering.onnx.importer",
    "ge.runtime.check.certificate",
    "ge.runtime.data.npz",
    "ge.runtime.device.session",
    "ge.runtime.numbers",
    "ge.dialects.graph",
    "ge.dialects.fused_op",
    "ge.dialects.npu_task.ops",
    "xdsl.dialects.arith",
    "xdsl.dialects.func",
    "xdsl.dialects.test",
    "xdsl.targets.mlir",
    "xdsl.transforms.canonicalize",
    "xdsl.transforms.common_subexpression_elimination",
    "xdsl.utils.color_printer",
    "filecheck.finput",
    "filecheck.matcher",
    "filecheck.options",
    "filecheck.parser",
)

HERE = os.path.dirname(__file__)
TYPICAL = (
    f"ge-compile {HERE}/models/bert_base.tiny.onnx -o -",
    f"ge-run {HERE}/models/bert_base.tiny.onnx",
    f"ge-opt {HERE}/transforms/graph/simplify_algebra.mlir --split-input-file -p simplify-algebra",
    f"ge-opt {HERE}/dialects/npu_task/tasks.mlir --print-op-generic",
)

# what stays in a process that read it: each RUN line of a test with one of these has its own
STAYS = ("--load-plugin", "dialect_resources")

PIPE, LOG = "|", ""


@dataclass
class Stage:
    """One command of a pipe; its streams are PIPE, LOG or a file name."""

    argv: list[str]
    negate: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    stdin: str = PIPE
    stdout: str = PIPE
    stderr: str = LOG


REDIRECTIONS = {"<": "stdin", ">": "stdout", "2>": "stderr"}


def read_stage(words: list[str]) -> Stage | None:
    """The command in some words of a RUN line; None when a shell is needed for it."""
    stage = Stage([])
    words = list(words)
    if words[:1] == ["env"]:
        words.pop(0)
        while words and (match := re.fullmatch(r"([A-Z_]+)=(.*)", words[0])) is not None:
            stage.environment[match[1]] = match[2]
            words.pop(0)
    while words and words[0] == "not":
        words.pop(0)
        stage.negate = not stage.negate
    while words:
        word = words.pop(0)
        if word == "2>&1":
            stage.stderr = stage.stdout
        elif word in REDIRECTIONS and words:
            setattr(stage, REDIRECTIONS[word], words.pop(0))
        elif (match := re.fullmatch(r"(<|>|2>)([^<>&;|].*)", word)) is not None:
            setattr(stage, REDIRECTIONS[match[1]], match[2])
        elif re.match(r"[<>&;|]|2>", word):
            return None
        else:
            stage.argv.append(word)
    return stage if stage.argv and stage.argv[0] not in SHELL else None


def read_line(line: str) -> list[list[Stage]] | None:
    """The stages of each pipe of a RUN line; None when a shell is needed for it."""
    lexer = shlex.shlex(re.sub(r"%dbg\([^)]*\)", "", line).strip(), posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    pipes: list[list[list[str]]] = [[[]]]
    for word in lexer:
        if word == "&&":
            pipes.append([[]])
        elif word == "|":
            pipes[-1].append([])
        else:
            pipes[-1][-1].append(word)
    stages = [[read_stage(words) for words in pipe] for pipe in pipes]
    return None if any(None in pipe for pipe in stages) else stages


def call(argv: list[str], stdin: bytes) -> int:
    """Run one command, in this process if it is Python's; returns its exit status."""
    if argv[0] in TOOLS:
        from ge.tools import commands

        return getattr(commands, argv[0].replace("-", "_"))(argv[1:])
    if argv[0] == "xdsl-opt":
        from xdsl.xdsl_opt_main import xDSLOptMain

        xDSLOptMain(args=argv[1:]).run()
        return 0
    if argv[0] != "filecheck":
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
        return done.returncode
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    options = parse_argv_options(argv)
    return Matcher(options, FInput("-", stdin.decode()), Parser.from_opts(options)).run()


def text_stream(data: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", write_through=True)


def run_stage(stage: Stage, stdin: bytes) -> tuple[bool, bytes, bytes]:
    """(whether it did what was expected, what goes into the pipe, what goes to the log)"""
    if stage.stdin != PIPE:
        with open(stage.stdin, "rb") as file:
            stdin = file.read()
    streams = {name: text_stream() for name in {stage.stdout, stage.stderr}}
    sys.stdin = text_stream(stdin)
    sys.stdout, sys.stderr = streams[stage.stdout], streams[stage.stderr]
    os.environ.update(stage.environment)
    try:
        code = call(stage.argv, stdin)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    data = {name: stream.buffer.getvalue() for name, stream in streams.items()}
    for name in set(data) - {PIPE, LOG}:
        with open(name, "wb") as file:
            file.write(data[name])
    return bool(code) == stage.negate, data.get(PIPE, b""), data.get(LOG, b"")


def run_pipe(stages: list[Stage], log: int) -> bool:
    """Run a pipe, each command with the settings and variables of a new process. What goes to the
    log, and the output of a command that failed, are written to the file descriptor `log`."""
    data, good, environment = b"", True, dict(os.environ)
    for stage in stages:
        ok, data, err = copy_context().run(run_stage, stage, data)
        os.environ.clear()
        os.environ.update(environment)
        if not ok:
            err = b"$ " + shlex.join(stage.argv).encode() + b"\n" + err + data
            good = False
        os.write(log, err)
    return good


def warm_up() -> None:
    """Import what the tests need, and fill the caches of a process: a model goes all the way down
    and runs, and texts are read. What fails here fails in a test, which will say more."""
    for name in WARM:
        with suppress(Exception):
            import_module(name)
    with suppress(Exception):
        load_tables()
    kept = sys.stdin, sys.stdout, sys.stderr
    for command in TYPICAL:
        copy_context().run(run_stage, Stage(command.split()), b"")
    sys.stdin, sys.stdout, sys.stderr = kept
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # as a tool in a process of its own


def load_tables() -> None:
    """Passes, kernels and importers of ONNX ops."""
    from xdsl.dialects.builtin import ModuleOp

    from ge.lowering.onnx import registry
    from ge.lowering.plugins.universe import GE_UNIVERSE
    from ge.runtime import numbers

    numbers.find(ModuleOp)
    registry.find("", "", 1)
    for load in GE_UNIVERSE.all_passes.values():
        load()


class ForkTest(lit.formats.ShTest):
    def execute(self, test, litConfig):
        script = parseIntegratedTestScript(test, require_script=True)
        if isinstance(script, lit.Test.Result):
            return script
        folder, base = getTempPaths(test)
        substitutions = list(test.config.substitutions)
        substitutions += getDefaultSubstitutions(test, folder, base)
        commands = [getattr(s, "command", s) for s in script]
        lines = applySubstitutions(commands, substitutions)
        parsed = [read_line(line) for line in lines]
        if None in parsed:
            return super().execute(test, litConfig)
        os.makedirs(folder, exist_ok=True)
        pipes = list(chain.from_iterable(parsed))
        with open(test.getSourcePath(), encoding="utf-8", errors="replace") as file:
            text = file.read()
        alone = any(word in text for word in STAYS)
        ok, log = True, ""
        for some in [[pipe] for pipe in pipes] if alone else [pipes]:
            ok, said = self.in_child(test, some, litConfig.maxIndividualTestTime or 300)
            log += said
            if not ok:
                break
        code = lit.Test.PASS if ok else lit.Test.FAIL
        return lit.Test.Result(code, "\n".join([*lines, log]))

    def in_child(self, test, pipes: list[list[Stage]], seconds: int) -> tuple[bool, str]:
        """Run pipes in a forked child up to the first that fails: (whether all is well, log)."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(read)
                os.environ.update(test.config.environment)
                signal.alarm(seconds)
                status = 0 if all(run_pipe(stages, write) for stages in pipes) else 1
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read, encoding="utf-8", errors="replace") as pipe:
            log = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            log += f"\nkilled by {signal.Signals(os.WTERMSIG(status)).name}"
        return status == 0, log
