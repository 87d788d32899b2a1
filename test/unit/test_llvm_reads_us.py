"""The generic form of every level is read by LLVM's own tool."""

import shutil
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from xdsl.printer import Printer

from ge.lowering.driver.compiler import load, lower
from ge.lowering.levels.level import Level
from ge.lowering.pipeline.options import Options

MODELS = Path(__file__).resolve().parents[1] / "models"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert_base.tiny", marks=pytest.mark.soak),
        "gpt2_decode.dynamic",
        "loop_rnn.tiny",
        pytest.param("sd15_unet.tiny", marks=pytest.mark.soak),
    ],
)
def test_generic_form_is_read_by_iree_opt(name: str):
    """Verified as far as LLVM knows the ops: func, memref and tensor ops, types, regions."""
    tool = shutil.which("iree-opt")
    assert tool is not None, "iree-base-compiler is one of the test dependencies"
    module = load(str(MODELS / f"{name}.onnx")).module
    text = StringIO()
    for level in Level:
        lower(module, Options(), until=level)
        Printer(text, print_generic_format=True).print_op(module)
        text.write("\n// -----\n")
    options = ["--allow-unregistered-dialect", "--split-input-file", "-", "-o", "/dev/null"]
    run = subprocess.run([tool, *options], input=text.getvalue(), capture_output=True, text=True)
    assert run.returncode == 0, f"{name}: {run.stderr[:2000]}"
