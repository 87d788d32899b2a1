"""No file of the tree tells where somebody's machine keeps its files: exporters write stack traces
into models, tools write paths into what they print, and both get committed. Binary files count."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = {"bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr"}
"""The same on every machine; the rules about sources and packages cover what is below."""

PRIVATE = (
    {"home", "root", "tmp", "Users", "Volumes", "private", "mnt", "media", "opt", "srv", "var"}
    | {"data", "build", "workspace", "workspaces", "work", "scratch", "content", "kaggle", "github"}
    | {path.parts[1] for path in (ROOT, Path.home()) if len(path.parts) > 1}
) - SYSTEM
"""Top-level folders with files of people and build machines, this one among them."""

NAME = rb"[\w.+@-]+"
ALONE = rb"/(?<![\w.+@~%$)}\]/:-]/)"
"""A slash with nothing before it that makes a path relative, or the path of a URL. (Patterns that
begin with the character that is rare are found fast.)"""
ANYWHERE = (
    rb"(?:%s)/%s" % ("|".join(sorted(PRIVATE)).encode(), NAME),
    rb"(?:%s/)+(?:site|dist)-packages\b" % NAME,
)
SOURCE = rb"(?:%s/)+%s\.(?:py|pyc|ipynb|so|c|cc|cpp|h|hpp|whl)\b" % (NAME, NAME)
ELSEWHERE = (
    rb":(?<=(?<![A-Za-z0-9])[A-Za-z]:)(?:\\{1,4}|/)[A-Za-z][\w .-]+(?:\\{1,4}|/)[A-Za-z][\w.-]+",
    rb"file:///(?<=\bfile:///)%s/" % NAME,
)
IN_TEXT = [*map(re.compile, (ALONE + rb"(?:%s)" % b"|".join((*ANYWHERE, SOURCE)), *ELSEWHERE))]
IN_BINARY = [*map(re.compile, (rb"/(?:%s)" % b"|".join(ANYWHERE), ALONE + SOURCE, *ELSEWHERE))]
"""In a binary file a string may come after a length that looks like a character."""
CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a]")


def files() -> Iterator[Path]:
    """All files of the project but what tools leave behind."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = parts[0].startswith(".") and parts[0] not in (".ci", ".gitignore")
        built = parts[0] in ("build", "dist") or any(p.endswith(".egg-info") for p in parts)
        if path.is_file() and not hidden and not built and "__pycache__" not in parts:
            yield path


def machine_paths(data: bytes) -> list[str]:
    """The paths of machines in the bytes of a file, or of the members of an archive."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(member.encode(), archive.read(member)) for member in archive.namelist()]
        return [path for part in members for bytes_ in part for path in machine_paths(bytes_)]
    patterns = IN_BINARY if CONTROL.search(data) else IN_TEXT
    found = (match.group() for pattern in patterns for match in pattern.finditer(data))
    return [path.decode("utf-8", "replace") for path in found]


def test_no_file_holds_a_path_of_a_machine():
    paths = list(files())
    assert {".onnx", ".npz", ".mlir", ".py"} <= {path.suffix for path in paths}
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in sorted(set(machine_paths(path.read_bytes())))
    ]
    assert not wrong, "\n".join(wrong)


def joined(*parts: str) -> str:
    """Put together here, as this file must not hold a path of a machine either."""
    return "/".join(("", *parts))


PATHS = [
    joined("home", "me", "train"),
    joined("root", "x"),
    joined("tmp", "a1b2", "model.onnx"),
    joined("Users", "me", "net.onnx"),
    joined("var", "folders", "x"),
    joined("usr", "lib", "python3", "dist-packages", "torch"),
    joined("venv", "lib", "python3.11", "site-packages", "torch"),
    joined("anywhere", "scripts", "export.py"),
    "file://" + joined("share", "x"),
    "C:" + "\\".join(("", "Users", "me", "net.onnx")),
    "D:" + "\\\\".join(("", "models", "net.onnx")),
    str(ROOT / "test"),
]


def onnx_file(text: str) -> bytes:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["x"], ["y"])
    node.metadata_props.add(key="stack", value=text)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([node], "g", [value], [output])
    return helper.make_model(graph).SerializeToString()


def npz_file(text: str) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, text=np.frombuffer((text + " " * 100).encode(), np.uint8))
    return file.getvalue()


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_a_machine_is_seen(path: str):
    for before in ("", 'File "', "at ", "("):
        text = before + path
        assert machine_paths(text.encode()), text
        assert machine_paths(onnx_file(text)), text
        assert machine_paths(npz_file(text)), text
        assert machine_paths(save({"x": np.zeros(1)}, {"source": text})), text


@pytest.mark.parametrize(
    "text",
    [
        "#!" + joined("usr", "bin", "env bash"),
        "< " + joined("dev", "null"),
        joined("m", "embeddings", "MatMul_output_0"),
        "https://example.org" + joined("home", "page") + joined("tmp", "x.py"),
        'File "site-packages/torch/nn/modules/linear.py", line 134',
        "runtime/library/costs/cost.py and ./test/unit/test_x.py, $(BIN)/x/y.py",
        r"T:\d+ E:\w",
    ],
)
def test_other_slashes_are_fine(text: str):
    assert not machine_paths(text.encode())
