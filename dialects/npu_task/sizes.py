"""The bytes of what is on the device and of a size that is known only at run time, as expressions
of the dimensions of a program's inputs: `256 * batch`, or `at most 16 * batch` where only data tell
how many they are."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult

from ge.dialects.npu_task.attributes import HBM, is_dynamic, space_of
from ge.dialects.npu_task.program_info import BYTES

AT_MOST = "at most "


def unknown_results(op: Operation) -> list[OpResult]:
    """The results of a task that are on the device and of a size that is not known."""
    return [r for r in op.results if space_of(r.type) == HBM and is_dynamic(r.type)]


def state_bytes(op: Operation, texts: Sequence[str]) -> None:
    """Say the bytes of each of `unknown_results`: "" where nothing is known."""
    op.attributes[BYTES] = ArrayAttr(map(StringAttr, texts))


def stated_bytes(op: Operation) -> list[str]:
    """The bytes of each of `unknown_results`; "" where nothing is stated."""
    attr, count = op.attributes.get(BYTES), len(unknown_results(op))
    texts = cast("ArrayAttr[Attribute]", attr).data if isinstance(attr, ArrayAttr) else ()
    stated = [t.data if isinstance(t, StringAttr) else "" for t in texts]
    return stated if len(stated) == count else [""] * count


def expression_of(text: str) -> str:
    """The expression that bytes are, or that they are at most."""
    return text.removeprefix(AT_MOST)
