"""The line of a user's program that a node stands for, as PyTorch's exporter writes it."""

import re
from pathlib import Path

from onnx import NodeProto

STACK_TRACE = "pkg.torch.onnx.stack_trace"  # metadata of nodes
FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]*(?:\n +([^\n]*))?')
LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")
OURS = str(Path(__file__).parents[1] / "torch")  # PyTorch leaves out the frames of a mere function
LONGEST = 120  # characters of a line that are shown


def user_line(trace: str) -> str:
    """`FILE:LINE: code` of the innermost frame of a Python stack trace outside of PyTorch, or of
    the innermost one; "" if there is none outside of ge."""
    frames = [frame for frame in FRAME.findall(trace) if not frame[0].startswith(OURS)]
    own = [frame for frame in frames if not LIBRARY.search(frame[0])]
    if not frames:
        return ""
    file, line, code = (own or frames)[-1]
    return f"{file}:{line}: {code[:LONGEST].strip()}".rstrip(": ")


def line_of(node: NodeProto) -> str:
    """The line that a node says it stands for, "" if it says none."""
    return next((user_line(p.value) for p in node.metadata_props if p.key == STACK_TRACE), "")
