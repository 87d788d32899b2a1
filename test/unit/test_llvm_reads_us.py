"""The generic form of every level is read by LLVM's own tools."""

import re
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from ge.dialects.support.errors import GeError
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import load, lower
from ge.lowering.driver.context import context
from ge.lowering.levels.dominance import verify
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options

sys.path.insert(0, str(Path(__file__).parent))
from mlir_flags import MLIR_OPT
from test_fuzz_mlir import texts

MODELS = Path(__file__).resolve().parents[1] / "models"


def generic(module: ModuleOp) -> str:
    text = StringIO()
    Printer(text, print_generic_format=True).print_op(module)
    return text.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert_base.tiny", marks=pytest.mark.soak),
        "gpt2_decode.dynamic",
        "loop_rnn.tiny",
        pytest.param("sd15_unet.tiny", marks=pytest.mark.soak),
    ],
)
def test_generic_form_is_read_by_llvm(name: str):
    """Verified as far as LLVM knows the ops: func, memref and tensor ops, types, regions."""
    tool = shutil.which("iree-opt")
    assert tool is not None, "iree-base-compiler is one of the test dependencies"
    module = load(str(MODELS / f"{name}.onnx")).module
    parts: list[str] = []
    for level in Level:
        lower(module, Options(), until=level)
        parts.append(generic(module))
    options = ["--allow-unregistered-dialect", "--split-input-file", "-", "-o", "/dev/null"]
    text = "\n// -----\n".join(parts)
    for command in (tool, *filter(None, (MLIR_OPT,))):
        run = subprocess.run([command, *options], input=text, capture_output=True, text=True)
        assert run.returncode == 0, f"{name}, {command}: {run.stderr[:2000]}"


# What later versions of LLVM than that of `mlir-19-tools` know
LATER = "f8E8M0FNU", "transform.apply_registered_pass"


def module_of(text: str) -> ModuleOp | None:
    """The module of a text, or None where ge-opt refuses it."""
    ctx = context()
    ctx.allow_unregistered = True
    try:
        module = parse_module(ctx, SourceText("a test", text))
        verify(module)
    except (GeError, ParseError, VerifyException):
        return None
    return module


def canonical(module: ModuleOp) -> str:
    """The generic form without what MLIR leaves to the printer: names, orders of properties."""
    for op in module.walk():
        op.properties = dict(sorted(op.properties.items()))
        op.attributes = dict(sorted(op.attributes.items()))
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            value.name_hint = None
        for block in (block for region in op.regions for block in region.blocks):
            block.name_hint = None
    return re.sub(r"(?<=dense_resource<)(\w+?)(_\d+)?>", r"\1>", generic(module))


@pytest.mark.soak
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed (mlir-19-tools)")
def test_mlir_opt_gives_back_what_the_tests_are_of():
    """Each module of a FileCheck test that is not one of errors, in generic form."""
    command = [str(MLIR_OPT), "--allow-unregistered-dialect", "--mlir-print-op-generic"]
    tried = 0
    for text in texts():
        if any(word in text for word in LATER) or (module := module_of(text)) is None:
            continue
        run = subprocess.run(command, input=generic(module), capture_output=True, text=True)
        assert run.returncode == 0, f"{text}\n{run.stderr}"
        again = module_of(run.stdout)
        assert again is not None, run.stdout
        same = again.is_structurally_equivalent(module)  # but for NaN, names of resources
        assert same or canonical(again) == canonical(module), text
        tried += 1
    assert tried > 700
