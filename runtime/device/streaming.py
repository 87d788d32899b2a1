"""A stream of batches through a session, whose stages overlap: `Session.run_many`.

    thread "feed"       batches -> checked, converted, copied to the device   (of batch n + 1)
    thread "compute"                computed on the device                    (of batch n)
    the caller                      copied back, yielded                      (of batch n - 1)

`prefetch` sets of memory for inputs, and as many for outputs, go round: a stage waits for a set
that is free. Results come in the order of the batches; so do errors: what came before the batch
that failed has been yielded. Whatever ends the stream, the threads end with it; only one that is
inside of the caller's iterable ends when that returns.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.device.executable import Registers
from ge.runtime.device.gears import Cut
from ge.runtime.device.staged import Memory
from ge.runtime.profile.profiler import observe

if TYPE_CHECKING:
    from ge.runtime.device.session import Session

PATIENCE = 1.0  # seconds that the end of a stream waits for the caller's iterable


@dataclass(slots=True)
class Batch:
    """A batch on its way. `memory`: the set that it holds, of inputs, then of outputs. `cut`: what
    cuts the outputs, where its inputs were padded to a gear."""

    number: int
    registers: Registers
    memory: Memory
    cut: Cut | None


@dataclass(slots=True)
class Ended:
    """The end of the stream, and the error that it ended with."""

    error: BaseException | None = None


def run_many(
    session: "Session", batches: Iterable[Any], prefetch: int
) -> Generator[dict[str, Array]]:
    """The outputs of each batch; see the top."""
    stream = Stream(session, iter(batches), prefetch)
    stream.start()
    try:
        while isinstance(batch := stream.computed.get(), Batch):
            results = session.staged.unload(batch.registers, batch.memory)
            stream.free_outputs.put(batch.memory)
            outputs = {name: results[number] for name, number in stream.numbers}
            yield outputs if batch.cut is None else batch.cut(outputs, {})
        if batch.error is not None:
            raise batch.error
    finally:
        stream.stop()


class Stream:
    """The threads of one stream, and what goes between them."""

    def __init__(self, session: "Session", batches: Iterator[Any], prefetch: int) -> None:
        self.session, self.batches, self.staged = session, batches, session.staged
        self.reader = BatchReader(session)
        self.free_inputs: SimpleQueue[Memory | None] = SimpleQueue()
        self.free_outputs: SimpleQueue[Memory | None] = SimpleQueue()
        self.loaded: SimpleQueue[Batch | Ended] = SimpleQueue()
        self.computed: SimpleQueue[Batch | Ended] = SimpleQueue()
        for _ in range(prefetch):
            self.free_inputs.put(self.staged.memory(self.staged.inputs))
            self.free_outputs.put(self.staged.memory(self.staged.outputs))
        self.numbers = [(name, session.result_number(name)) for name in session.output_names]
        self.stopped = self.reading = False
        self.feeder = _thread(self.feed, "ge feed")
        self.computer = _thread(self.compute, "ge compute")

    def start(self) -> None:
        self.feeder.start()
        self.computer.start()

    def feed(self) -> None:
        number = 0
        try:
            while (batch := self.next_batch()) is not None:
                arrays, cut = self.reader.read(batch[0], number)
                if (memory := self.free_inputs.get()) is None:
                    return
                registers = self.staged.load(self.session.arguments(arrays), memory)
                self.loaded.put(Batch(number, registers, memory, cut))
                number += 1
            self.loaded.put(Ended())
        except BaseException as e:  # the caller's thread raises it
            self.loaded.put(Ended(e))

    def next_batch(self) -> tuple[Any] | None:
        """The next item of the caller's; None after the last one, and where nobody waits for
        it."""
        self.reading = True  # before the look at `stopped`, as `stop` looks the other way round
        try:
            return None if self.stopped else next(((b,) for b in self.batches), None)
        finally:
            self.reading = False

    def compute(self) -> None:
        while isinstance(batch := self.loaded.get(), Batch):
            if (memory := self.free_outputs.get()) is None:
                return
            try:
                start = perf_counter()
                self.session.step(partial(self.staged.compute, memory=memory), batch.registers)
                observe(self.session, perf_counter() - start)
            except BaseException as e:
                self.computed.put(Ended(of_batch(e, batch.number)))
                return
            self.free_inputs.put(batch.memory)
            batch.memory = memory
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
    array of a model with one input); tensors of torch and others that have `numpy()` too."""

    def __init__(self, session: "Session") -> None:
        self.session, self.names = session, session.input_names
        self.known: list[tuple[np.dtype[Any], tuple[int, ...]]] = []  # of the batch before

    def read(self, batch: Any, number: int) -> tuple[list[Array], Cut | None]:
        """The arrays, padded to a gear where there are some, and what cuts the outputs."""
        try:
            values = self.named(batch)
            arrays = self.as_before(values)
            if arrays is None:
                arrays = self.session.checked(values)
                self.known = [(a.dtype, a.shape) for a in arrays]
            return self.session.fitted(arrays)
        except GeError as e:
            raise of_batch(e, number) from None

    def named(self, batch: Any) -> Mapping[str, Any]:
        if isinstance(batch, Mapping):
            named = cast("Mapping[str, Any]", batch)
            return {name: as_array(value, name) for name, value in named.items()}
        values = cast("Sequence[Any]", batch if isinstance(batch, tuple | list) else (batch,))
        if len(values) != len(self.names):
            listing = ", ".join(map(str, self.session.inputs)) or "none"
            hint = f"the inputs are {listing}; a batch is a dict by these names, or in this order"
            raise GeError(f"{len(values)} arrays for {len(self.names)} inputs", hint=hint)
        return {n: as_array(v, n) for n, v in zip(self.names, values, strict=True)}

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
    """What a tensor holds, as numpy's; anything else as it is."""
    if type(value) is np.ndarray:
        return value
    try:
        for step in ("detach", "cpu", "numpy"):
            if callable(method := getattr(value, step, None)):
                value = method()
        return np.asarray(value)
    except Exception as e:
        reason = " ".join(str(e).split()) or type(e).__name__
        raise GeError(f"input '{name}' cannot be read as an array: {reason}") from None
