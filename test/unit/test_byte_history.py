"""Cells of repeated patterns say the same as a table with an entry for each byte."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from ge.runtime.check.byte_history import Bytes, Comb, History, combs_of

BUFFERS: list[SSAValue] = list(Block(arg_types=[f32] * 3).args)

SIZE = 200


@st.composite
def combs(draw: st.DrawFn) -> Comb:
    """Runs within the first `SIZE` bytes; often with a pitch in common, often all of a row."""
    pitch = draw(st.sampled_from([4, 6, 8, 8, 8, 12, 16, 5]))
    width = draw(st.integers(1, pitch))
    count = draw(st.integers(1, 12))
    if draw(st.booleans()):
        width, count = width * count, 1
        pitch = width
    low = draw(st.integers(0, SIZE - ((count - 1) * pitch + width)))
    return Comb(low, pitch, width, count)


def bytes_of(comb: Comb) -> set[int]:
    return {at for low, high in comb.runs() for at in range(low, high)}


def write(memory: Bytes, comb: Comb, new: History) -> list[tuple[History, int]]:
    """Write; what was there before, with the number of bytes."""
    found: list[tuple[History, int]] = []
    for runs in comb.ranges():
        found += [(part.history, size) for part, size in memory.parts(*runs)]
        memory.write(new, *runs)
    return found


def read(memory: Bytes, comb: Comb, reader: int) -> list[tuple[History, int]]:
    """Read, which the bytes remember."""
    found: list[tuple[History, int]] = []
    for runs in comb.ranges():
        for part, size in memory.parts(*runs):
            found.append((part.history, size))
            old = part.history
            part.history = History(old.buffer, old.writer, (*old.readers, reader))
    return found


def counted(found: Iterator[tuple[History, int]]) -> dict[History, int]:
    result: dict[History, int] = {}
    for history, size in found:
        result[history] = result.get(history, 0) + size
    return result


def table_of(memory: Bytes) -> dict[int, History]:
    pieces = list(memory.pieces())
    table = {at: history for low, high, history in pieces for at in range(low, high)}
    assert len(table) == sum(high - low for low, high, _ in pieces)
    assert [p[0] for p in pieces] == sorted(p[0] for p in pieces)
    return table


Access = tuple[Comb, bool, int]

accesses = st.lists(st.tuples(combs(), st.booleans(), st.integers(0, 2)), max_size=12)


def run(steps: list[Access], memory: Bytes, table: dict[int, History]) -> None:
    for task, (comb, writes, buffer) in enumerate(steps):
        before = [table[at] for at in sorted(bytes_of(comb)) if at in table]
        new = History(BUFFERS[buffer], task)
        found = write(memory, comb, new) if writes else read(memory, comb, task)
        assert counted(iter(found)) == counted((h, 1) for h in before)
        for at in bytes_of(comb):
            if writes:
                table[at] = new
            elif (old := table.get(at)) is not None:
                table[at] = History(old.buffer, old.writer, (*old.readers, task))
        assert table_of(memory) == table


@settings(max_examples=400, deadline=None)
@given(accesses)
def test_each_byte_has_its_history(steps: list[Access]):
    run(steps, Bytes(), {})


@settings(max_examples=200, deadline=None)
@given(accesses, accesses, accesses)
def test_branches_are_joined(first: list[Access], one: list[Access], other: list[Access]):
    memory, table = Bytes(), dict[int, History]()
    run(first, memory, table)
    copy, copied = memory.copy(), dict(table)
    run(one, memory, table)
    run(other, copy, copied)
    both = {at: h for at, h in table.items() if at in copied and copied[at].buffer is h.buffer}
    assert table_of(memory.merged(copy)) == both


@settings(max_examples=300, deadline=None)
@given(combs(), combs())
def test_combs_overlap_where_they_share_bytes(one: Comb, other: Comb):
    assert one.overlaps(other) == bool(bytes_of(one) & bytes_of(other))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=4), st.integers(1, 4))
def test_views_are_the_bytes_of_their_elements(dims: list[tuple[int, int]], width: int):
    strides: list[tuple[int, int]] = []
    inner = width
    for n, gap in reversed(dims):
        strides.insert(0, (n, inner + gap * width))
        inner = n * (inner + gap * width)
    starts = {0}
    for n, stride in strides:
        starts = {s + i * stride for s in starts for i in range(n)}
    expected = {7 + s + i for s in starts for i in range(width)}
    found = [at for comb in combs_of(7, width, strides) for at in sorted(bytes_of(comb))]
    assert len(found) == len(expected)
    assert set(found) == expected
