"""A stream of batches through a session, whose stages overlap where that pays: `Session.run_many`.

    thread "feed"       batches -> checked, converted, copied to the device   (of batch n + 1)
    thread "compute"                computed on the device                    (of batch n)
    the caller                      copied back, yielded                      (of batch n - 1)

`prefetch` sets of memory for inputs, and as many for outputs, go round: a stage waits for a set
that is free. Results come in the order of the batches; so do errors: what came before the batch
that failed has been yielded. Whatever ends the stream, the threads end with it; only one that is
inside of the caller's iterable ends when that returns.

Threads that take turns at Python's lock cost time for each batch, and more where the threads of
OpenBLAS wait for a processor too. So the caller's thread does everything, as plain runs do, until
the last batches tell that overlapping would save at least `PAYS` of each, and again when it no
longer does.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array, array_on, is_tensor
from ge.runtime.device.executable import Registers
from ge.runtime.device.function import Memory, Staged
from ge.runtime.device.gears import Cut
from ge.runtime.device.profiler import observe

if TYPE_CHECKING:
    from ge.runtime.device.session import Session

PATIENCE = 1.0  # seconds that the end of a stream waits for the caller's iterable

WINDOW = 8  # batches, the last ones, that tell what overlapping saves

# Seconds of each batch that threads must save: a few times what their hand-overs cost (0.15 ms of
# processor time, measured)
PAYS = 1e-3

Outputs: TypeAlias = Generator[dict[str, Array], None, bool]
"""Of some batches; then whether there may be more, which are run the other way."""


@dataclass(slots=True)
class Read:
    """A batch as the arrays of a session. `other_s`: seconds that it took, apart from those to
    compute."""

    number: int
    arrays: list[Array]
    other_s: float


@dataclass(slots=True)
class Batch:
    """A batch on its way. `memory`: the set that it holds, of inputs, then of outputs. `cut`: the
    function that cuts the outputs, if its inputs were padded to a gear."""

    read: Read
    registers: Registers
    memory: Memory
    cut: Cut | None
    compute_s: float = 0.0


@dataclass(slots=True)
class Ended:
    """The end of the stream, and the error that it ended with; or of its threads alone."""

    error: BaseException | None = None
    goes_on: bool = False


def run_many(
    session: "Session", batches: Iterable[Any], prefetch: int
) -> Generator[dict[str, Array]]:
    """The outputs of each batch; see the top."""
    stages, goes_on, in_threads = Stages(session, iter(batches)), True, False
    while goes_on:
        goes_on = yield from overlapped(stages, prefetch) if in_threads else one_by_one(stages)
        in_threads = not in_threads
        stages.saved.clear()


def overlapped(stages: "Stages", prefetch: int) -> Outputs:
    """Batches in threads, as long as these are worth it."""
    stream = Stream(stages, prefetch)
    stream.start()
    try:
        while isinstance(batch := stream.next(), Batch):
            start = perf_counter()
            outputs = stages.unload(batch)
            stream.free_outputs.put(batch.memory)
            yield outputs
            stages.note(batch.compute_s, batch.read.other_s + perf_counter() - start)
            stream.paused = stream.paused or stages.saved_s < PAYS
        if batch.error is not None:
            raise batch.error
        return batch.goes_on
    finally:
        stream.stop()


def one_by_one(stages: "Stages") -> Outputs:
    """Batches in this thread, until others would be worth it."""
    copies_s: float | None = None  # seconds of a run that other threads would take from it
    while sum(stages.saved) < WINDOW * PAYS:
        if (read := stages.read()) is None:
            return False
        start = perf_counter()
        try:
            outputs = stages.session.run_checked(read.arrays)
        except GeError as e:
            raise of_batch(e, read.number) from None
        ran = perf_counter()
        if copies_s is None:
            copies_s = seconds_to_copy((*read.arrays, *outputs.values()))
        compute_s, ready = ran - start - copies_s, perf_counter()
        yield outputs
        stages.note(compute_s, read.other_s + copies_s + perf_counter() - ready)
    return True


def seconds_to_copy(arrays: Iterable[Array]) -> float:
    start = perf_counter()
    for array in arrays:
        array.copy()
    return perf_counter() - start


class Stages:
    """The stages of the work on each batch, in whichever thread, and the time that they take."""

    def __init__(self, session: "Session", batches: Iterator[Any]) -> None:
        self.session, self.batches = session, batches
        self.reader, self.count = BatchReader(session), 0
        self.numbers = [(name, session.result_number(name)) for name in session.output_names]
        self.saved: deque[float] = deque(maxlen=WINDOW)  # seconds, of each batch

    @property
    def staged(self) -> Staged:
        """Made when threads are first worth it."""
        return self.session.staged

    def input_memory(self) -> Memory:
        return self.staged.memory(self.staged.inputs)

    def output_memory(self) -> Memory:
        return self.staged.memory(self.staged.outputs)

    def read(self) -> Read | None:
        """The next item of the caller's, checked and converted; None after the last one."""
        start = perf_counter()
        if (batch := next(((b,) for b in self.batches), None)) is None:
            return None
        number, self.count = self.count, self.count + 1
        arrays = self.reader.read(batch[0], number)
        return Read(number, arrays, perf_counter() - start)

    def load(self, read: Read, memory: Memory) -> Batch:
        start = perf_counter()
        try:
            arrays, cut = self.session.fitted(read.arrays)
        except GeError as e:
            raise of_batch(e, read.number) from None
        registers = self.staged.load(self.session.arguments(arrays), memory)
        read.other_s += perf_counter() - start
        return Batch(read, registers, memory, cut)

    def compute(self, batch: Batch, memory: Memory) -> None:
        start = perf_counter()
        self.session.step(partial(self.staged.compute, memory=memory), batch.registers)
        batch.memory, batch.compute_s = memory, perf_counter() - start
        observe(self.session, batch.compute_s, batch.read.arrays)

    def unload(self, batch: Batch) -> dict[str, Array]:
        results, cut = self.staged.unload(batch.registers, batch.memory), batch.cut
        outputs = {name: results[number] for name, number in self.numbers}
        return outputs if cut is None else cut(outputs, {})

    def note(self, compute_s: float, other_s: float) -> None:
        """Note what overlapping saves, or would save, of a batch: the lesser of the seconds to
        compute it and those of all else, with those that the caller used its outputs for. Several
        devices have threads of their own: batches of theirs are run one after the other."""
        alone = self.session.mesh is None
        self.saved.append(min(compute_s, other_s) if alone else 0.0)

    @property
    def saved_s(self) -> float:
        """Seconds that overlapping saves of a batch: the mean over the last ones, of which there is
        at least one."""
        return sum(self.saved) / len(self.saved)


class Stream:
    """The threads of a stream, and the queues between them."""

    def __init__(self, stages: Stages, prefetch: int) -> None:
        self.stages = stages
        self.free_inputs: SimpleQueue[Memory | None] = SimpleQueue()
        self.free_outputs: SimpleQueue[Memory | None] = SimpleQueue()
        self.loaded: SimpleQueue[Batch | Ended] = SimpleQueue()
        self.computed: SimpleQueue[Batch | Ended] = SimpleQueue()
        for _ in range(prefetch):
            self.free_inputs.put(stages.input_memory())
            self.free_outputs.put(stages.output_memory())
        self.stopped = self.paused = self.reading = False
        self.process = os.getpid()
        self.feeder = _thread(self.feed, "ge feed")
        self.computer = _thread(self.compute, "ge compute")

    def start(self) -> None:
        self.feeder.start()
        self.computer.start()

    def next(self) -> Batch | Ended:
        """The batch that was computed next. Raises GeError in a child of the process that has the
        threads."""
        if os.getpid() != self.process:
            text = "this stream of batches belongs to the process that began it"
            raise GeError(text, hint="call run_many in the child, where its threads are")
        return self.computed.get()

    def feed(self) -> None:
        try:
            while not self.paused:
                if (read := self.next_batch()) is None:
                    self.loaded.put(Ended())
                    return
                if (memory := self.free_inputs.get()) is None:
                    return
                self.loaded.put(self.stages.load(read, memory))
            self.loaded.put(Ended(goes_on=True))
        except BaseException as e:  # the caller's thread raises it
            self.loaded.put(Ended(e))

    def next_batch(self) -> Read | None:
        """The next batch; None after the last one, and where nobody waits for it."""
        self.reading = True  # before the look at `stopped`, as `stop` looks the other way round
        try:
            return None if self.stopped else self.stages.read()
        finally:
            self.reading = False

    def compute(self) -> None:
        while isinstance(batch := self.loaded.get(), Batch):
            if (memory := self.free_outputs.get()) is None:
                return
            loaded = batch.memory
            try:
                self.stages.compute(batch, memory)
            except BaseException as e:
                self.computed.put(Ended(of_batch(e, batch.read.number)))
                return
            self.free_inputs.put(loaded)
            self.computed.put(batch)
        self.computed.put(batch)

    def stop(self) -> None:
        """End the threads: each is woken where it waits."""
        self.stopped = True
        for queue in (self.free_inputs, self.free_outputs):
            queue.put(None)
        self.feeder.join(PATIENCE if self.reading else None)
        self.loaded.put(Ended())
        self.computer.join()


def _thread(target: Callable[[], None], name: str) -> Thread:
    """A thread that sees the context variables of the caller."""
    return Thread(target=copy_context().run, args=(target,), name=name, daemon=True)


def of_batch(error: BaseException, number: int) -> BaseException:
    """The error with the number of the batch, which is that of the iterable."""
    if not isinstance(error, GeError):
        return error
    return GeError(f"batch {number}: {error.message}", error.where, error.hint)


# ---- batches ---------------------------------------------------------------------------------


class BatchReader:
    """Reads batches: arrays by name, or in the order of the inputs (a tuple, a list, or the one
    array of a model with one input); tensors of torch and others that have `numpy()` too. Parts of
    a batch beside the inputs are left out: the labels of a data set."""

    def __init__(self, session: "Session") -> None:
        self.session, self.names = session, session.input_names
        self.known: list[tuple[np.dtype[Any], tuple[int, ...]]] = []  # of the batch before

    def read(self, batch: Any, number: int) -> list[Array]:
        try:
            values = self.named(batch)
            arrays = self.as_before(values)
            if arrays is None:
                arrays = self.session.checked(values)
                self.known = [(a.dtype, a.shape) for a in arrays]
            return arrays
        except GeError as e:
            raise of_batch(e, number) from None

    def named(self, batch: Any) -> Mapping[str, Any]:
        if isinstance(batch, Mapping):
            named = cast("Mapping[str, Any]", batch)
            names = self.names if all(n in named for n in self.names) else named
            return {name: as_array(named[name], name) for name in names}
        values = cast("Sequence[Any]", batch if isinstance(batch, tuple | list) else (batch,))
        if len(values) < len(self.names):
            listing = ", ".join(map(str, self.session.inputs)) or "none"
            hint = f"the inputs are {listing}; a batch is a dict by these names, or in this order"
            raise GeError(f"{len(values)} arrays for {len(self.names)} inputs", hint=hint)
        return {n: as_array(v, n) for n, v in zip(self.names, values, strict=False)}

    def as_before(self, values: Mapping[str, Any]) -> list[Array] | None:
        """The arrays in order where types and shapes are those of the batch before, which was
        checked."""
        if not self.known or len(values) != len(self.known):
            return None
        arrays: list[Array] = []
        for name, (dtype, shape) in zip(self.names, self.known, strict=True):
            array = values.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return None
            if not array.flags.c_contiguous:
                return None
            arrays.append(array)
        return arrays


def as_array(value: Any, name: str) -> Any:
    """The contents of a tensor, or any other value, as an array of numpy. Raises GeError for values
    that cannot be read."""
    if type(value) is np.ndarray:
        return value
    try:
        for step in ("detach", "cpu"):
            if callable(method := getattr(value, step, None)):
                value = method()
        if is_tensor(value):
            return array_on(value)
        return np.asarray(value.numpy() if callable(getattr(value, "numpy", None)) else value)
    except Exception as e:
        reason = " ".join(str(e).split()) or type(e).__name__
        raise GeError(f"input '{name}' cannot be read as an array: {reason}") from None
