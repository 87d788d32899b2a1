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
from ge.tools.reference.irdl import DIALECTS, definitions, dynamic_form

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


# ---- with the dialects as ge-opt exports them ----


@pytest.fixture(scope="module")
def irdl_opt(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """mlir-opt, which knows the dialects."""
    if MLIR_OPT is None:
        pytest.skip("mlir-opt is not installed (mlir-19-tools)")
    file = tmp_path_factory.mktemp("irdl") / "ge.irdl.mlir"
    ctx = context()
    file.write_text(definitions(ctx.get_dialect(name) for name in DIALECTS))
    return [str(MLIR_OPT), "--allow-unregistered-dialect", f"--irdl-file={file}"]


@pytest.mark.soak
def test_mlir_opt_verifies_what_the_tests_are_of(irdl_opt: list[str]):
    """But for modules with an op that IRDL cannot say, or attributes that the dialects have not."""
    tried, left_out = 0, list[str]()
    for text in texts():
        if any(word in text for word in LATER) or (module := module_of(text)) is None:
            continue
        try:
            form = dynamic_form(module)
        except GeError as e:
            left_out.append(str(e))
            continue
        run = subprocess.run(irdl_opt, input=form, capture_output=True, text=True)
        assert run.returncode == 0 or ".nonsense" in text, f"{text}\n{run.stderr}"
        tried += 1
    assert tried > 700
    assert len(left_out) < 5
    assert all("has any number of regions" in text for text in left_out)


WRONG = {
    "expected base type 'builtin.tensor' but got 'builtin.memref'": (
        '"graph.relu"(%m) : (memref<4xf32>) -> tensor<4xf32>'
    ),
    "expects exactly 1 operands, but got 2": (
        '"graph.relu"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
    ),
    'attribute "permutation" is expected but not provided': (
        '"graph.transpose"(%x) : (tensor<4xf32>) -> tensor<4xf32>'
    ),
    "expected base attribute 'builtin.dense_array' but got 'builtin.string'": (
        '"graph.transpose"(%x) {permutation = "0"} : (tensor<4xf32>) -> tensor<4xf32>'
    ),
    "does not satisfy the constraint": (
        '"tile.set"(%i) {source = #tile.pipe_attribute<"mte4">} : (index) -> ()'
    ),
    "unregistered operation 'graph.rely' found in dialect": '"graph.rely"() : () -> ()',
}


@pytest.mark.soak
@pytest.mark.parametrize("message", WRONG)
def test_mlir_opt_refuses_what_definitions_do_not_take(message: str, irdl_opt: list[str]):
    args = "%x: tensor<4xf32>, %m: memref<4xf32>, %i: index"
    text = f"func.func @f({args}) {{\n  {WRONG[message]}\n  func.return\n}}"
    run = subprocess.run(irdl_opt, input=text, capture_output=True, text=True)
    assert run.returncode
    assert message in run.stderr
