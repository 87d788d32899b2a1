"""What PyTorch's exporter cannot translate, said with the line of the user's program."""

import re
from typing import Any

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.traces import user_line

TARGET = re.compile(r"call_function\[(target=[^\]\s]+)\]")
HINT = (
    "give a translation (custom_translation_table), or keep the op out of the graph "
    "(torch.compiler.disable)"
)


def unsupported(error: BaseException, exported: Any) -> GeError:
    """The error for an exported program that PyTorch's exporter refuses: the op, and its line."""
    chain = causes(error)
    inner = str(chain[-1]).strip().partition("\n")[0]
    for text in map(str, chain):
        if found := TARGET.search(text):
            op = found[1].removeprefix("target=").removeprefix("torch.ops.")
            line = line_of_target(found[1], exported)
            return GeError(f"{op} has no translation: {inner}", line, HINT)
    return GeError(f"PyTorch's exporter cannot translate the model: {inner}")


def causes(error: BaseException) -> list[BaseException]:
    """An error, and what it comes from, the first cause last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain


def line_of_target(target: str, exported: Any) -> str:
    """The line of the first node that calls `target`, which may be part of another op."""
    for program in (exported, None):
        program = exported.run_decompositions() if program is None else program
        for node in program.graph.nodes:
            if f"[{target}]" in (node.format_node() or ""):
                return user_line(node.meta.get("stack_trace") or "")
    return ""
