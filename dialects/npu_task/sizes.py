"""The bytes of what is on the device and of a size that is known only at run time, as expressions
of the dimensions of a program's inputs: `256 * batch`, or `at most 16 * batch` where only data tell
how many they are; and, where the dimensions have ranges, its place in the "dynamic" segment, which
has room for the most bytes that it can take."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i64
from xdsl.ir import Attribute, Operation, OpResult

from ge.dialects.npu_task.attributes import HBM, space_of
from ge.dialects.npu_task.program_info import BYTES, OFFSETS
from ge.dialects.support.dims import Range, most
from ge.dialects.support.types import array_ints, is_dynamic

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


def most_bytes(text: str, ranges: Mapping[str, Range]) -> int | None:
    """The most bytes that a stated text allows where sizes are in these ranges."""
    return most(expression_of(text), ranges)


def state_offsets(op: Operation, offsets: Sequence[int]) -> None:
    """Say where each of `unknown_results` is; -1: the device allocates it."""
    op.attributes[OFFSETS] = DenseArrayBase.from_list(i64, offsets)


def placed_results(
    op: Operation, ranges: Mapping[str, Range]
) -> Iterator[tuple[OpResult, int, int]]:
    """The results that have a place in the "dynamic" segment, each with its offset and the most
    bytes that it takes: 0 where nothing is known of these."""
    attr = op.attributes.get(OFFSETS)
    offsets = array_ints(cast(Attribute, attr)) if isinstance(attr, DenseArrayBase) else ()
    results = unknown_results(op)
    if len(offsets) == len(results):
        for result, offset, text in zip(results, offsets, stated_bytes(op), strict=True):
            if offset >= 0:
                yield result, offset, most_bytes(text, ranges) or 0
