"""Cells of repeated patterns say the same as a table with an entry for each byte."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from ge.dialects.npu_task.memory import ByteBox
from ge.runtime.check.memory import Bytes, History, runs_of

BUFFERS: list[SSAValue] = list(Block(arg_types=[f32] * 3).args)

SIZE = 200


@st.composite
def boxes(draw: st.DrawFn) -> ByteBox:
    """Runs within the first `SIZE` bytes; often with a pitch in common, often all of a row, some of
    them several times."""
    pitch = draw(st.sampled_from([4, 6, 8, 8, 8, 12, 16, 5]))
    width = draw(st.integers(1, pitch))
    count = draw(st.integers(1, 12))
    if draw(st.booleans()):
        box = ByteBox(0, width * count)
    else:
        box = ByteBox(0, width, ((count, pitch),))
    if box.high * 2 < SIZE and draw(st.booleans()):
        step = draw(st.integers(box.high, SIZE - box.high))
        box = ByteBox(0, box.width, ((2, step), *box.dims))
    low = draw(st.integers(0, SIZE - box.high))
    return ByteBox(low, box.width, box.dims)


def bytes_of(box: ByteBox) -> set[int]:
    starts = {box.low}
    for count, pitch in box.dims:
        starts = {s + i * pitch for s in starts for i in range(count)}
    return {s + i for s in starts for i in range(box.width)}


def write(memory: Bytes, box: ByteBox, new: History) -> list[tuple[History, int]]:
    """Write; what was there before, with the number of bytes."""
    found: list[tuple[History, int]] = []
    for runs in runs_of(box):
        found += [(part.history, size) for part, size in memory.parts(*runs)]
        memory.write(new, *runs)
    return found


def read(memory: Bytes, box: ByteBox, reader: int) -> list[tuple[History, int]]:
    """Read, which the bytes remember."""
    found: list[tuple[History, int]] = []
    for runs in runs_of(box):
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
    pieces = list(memory.stretches())
    table = {at: history for low, high, history in pieces for at in range(low, high)}
    assert len(table) == sum(high - low for low, high, _ in pieces)
    assert [p[0] for p in pieces] == sorted(p[0] for p in pieces)
    return table


Access = tuple[ByteBox, bool, int]

accesses = st.lists(st.tuples(boxes(), st.booleans(), st.integers(0, 2)), max_size=12)


def run(steps: list[Access], memory: Bytes, table: dict[int, History]) -> None:
    for task, (box, writes, buffer) in enumerate(steps):
        before = [table[at] for at in sorted(bytes_of(box)) if at in table]
        new = History(BUFFERS[buffer], task)
        found = write(memory, box, new) if writes else read(memory, box, task)
        assert counted(iter(found)) == counted((h, 1) for h in before)
        for at in bytes_of(box):
            if writes:
                table[at] = new
            elif (old := table.get(at)) is not None:
                table[at] = History(old.buffer, old.writer, (*old.readers, task))
        assert table_of(memory) == table


@given(accesses)
def test_each_byte_has_its_history(steps: list[Access]):
    run(steps, Bytes(), {})


@given(accesses, accesses, accesses)
def test_branches_are_joined(first: list[Access], one: list[Access], other: list[Access]):
    memory, table = Bytes(), dict[int, History]()
    run(first, memory, table)
    copy, copied = memory.copy(), dict(table)
    run(one, memory, table)
    run(other, copy, copied)
    both = {at: h for at, h in table.items() if at in copied and copied[at].buffer is h.buffer}
    assert table_of(memory.merged(copy)) == both


@given(boxes())
def test_runs_are_the_bytes_of_their_box(box: ByteBox):
    stretches = [
        range(at, at + width)
        for low, high, pitch, width in runs_of(box)
        for at in range(low, high, pitch)
    ]
    found = [at for stretch in stretches for at in stretch]
    assert len(found) == box.size
    assert set(found) == bytes_of(box)


def test_pieces_of_a_range():
    memory = Bytes()
    new = History(BUFFERS[0], 0)
    write(memory, ByteBox(8, 2, ((4, 8),)), new)
    assert list(memory.stretches(9, 25)) == [(9, 10, new), (16, 18, new), (24, 25, new)]
