"""Recording the launches of operations, to replay them as often as one likes:

    with ge.host.capture(context.stream(0)) as graph:
        operation.execute(pack, workspace, context)  # computes nothing yet
    graph.replay()
    graph.replay(other)     # with the values of another pack of the same types and shapes

While a stream is captured nobody may wait for the device, and the workspace may not grow.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.host.context import Recorder, Stream
from ge.runtime.host.operation import Operation, TensorDesc, VariantPack


class CapturedGraph(Recorder):
    """Tasks, with the arrays that they were recorded with."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Operation, VariantPack, Callable[[VariantPack], None]]] = []
        self.calls: list[VariantPack] = []
        self.open = True

    def called(self, pack: VariantPack) -> None:
        self.calls.append(pack)

    def record(
        self, operation: Operation, pack: VariantPack, run: Callable[[VariantPack], None]
    ) -> None:
        self.tasks.append((operation, pack, run))

    def replay(self, pack: VariantPack | None = None) -> None:
        """Run the tasks on the arrays that they were recorded with; those of a pack are copied
        there before, and results back. Raises GeError for a pack of other shapes."""
        if self.open:
            raise GeError("the graph is replayed while it is captured", hint="leave the block")
        if pack is not None:
            self._check(pack)
            _copy(pack.inputs, self.calls[0].inputs)
        for _, recorded, run in self.tasks:
            run(recorded)
        if pack is not None:
            _copy(self.calls[0].outputs, pack.outputs)

    def update(self, number: int, pack: VariantPack) -> None:
        """Have one task work on other arrays, also of other shapes that its operation takes. Raises
        GeError where there is no such task."""
        if type(number) is not int or not 0 <= number < len(self.tasks):
            raise GeError(f"there is no task {number!r}, the graph has {len(self.tasks)}")
        operation, _, run = self.tasks[number]
        operation.setup(pack)
        operation.check_arrays(pack)
        self.tasks[number] = operation, pack, run

    def _check(self, pack: VariantPack) -> None:
        if len(self.calls) != 1:
            raise GeError(f"{len(self.calls)} calls were captured: a pack is for one")
        want, got = self.calls[0].descs, pack.descs
        if want != got:
            texts = (", ".join(map(str, (*ins, *outs))) for ins, outs in (want, got))
            raise GeError(
                "the graph was captured with {}, it cannot be replayed with {}".format(*texts),
                hint="capture again",
            )


def _copy(sources: Sequence[Array | TensorDesc], targets: Sequence[Array | TensorDesc]) -> None:
    for source, target in zip(sources, targets, strict=True):
        if not isinstance(target, TensorDesc) and not isinstance(source, TensorDesc):
            np.copyto(target, source)


@contextmanager
def capture(stream: Stream) -> Generator[CapturedGraph]:
    """Record what is issued to a stream. Raises GeError when it is captured already."""
    if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "give it one of a context: context.stream(0)"
        raise GeError(f"{stream!r} is no stream", hint=hint)
    if stream.recorder is not None:
        raise GeError(f"stream {stream.number} is captured already")
    graph = CapturedGraph()
    stream.recorder = graph
    try:
        yield graph
    finally:
        stream.recorder = None
        graph.open = False
