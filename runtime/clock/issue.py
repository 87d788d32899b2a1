"""What the host issues between two barriers: tasks with their streams and what events make each of
them wait for, as a program states it or as a scheduler plans it."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from ge.dialects.npu_task.ops import RecordOp, WaitOp, event_number
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError


@dataclass(slots=True, eq=False)
class Issue:
    """A task on its stream, after the tasks of other streams that it waits for."""

    op: Operation
    stream: int
    waits: "list[Issue]"


@dataclass
class IssueQueue:
    """Reads streams, records and waits of a program, in the order in which the host issues them."""

    _last: dict[int, Issue] = field(default_factory=dict[int, Issue])
    _events: dict[int, Issue | None] = field(default_factory=dict[int, Issue | None])
    _waits: dict[int, list[Issue]] = field(default_factory=dict[int, list[Issue]])

    def record(self, op: RecordOp) -> None:
        """The event is that the last task of the stream so far is done."""
        self._events[event_number(op)] = self._last.get(op.stream.value.data)

    def wait(self, op: WaitOp) -> None:
        """What is issued next to the stream waits for the event. Raises GeError where it
        was not recorded."""
        event = event_number(op)
        if event not in self._events:
            text = f"event {event} is waited for, but was not recorded since the last barrier"
            raise GeError(text, str(location_of(op)))
        if (recorded := self._events[event]) is not None:
            self._waits.setdefault(op.stream.value.data, []).append(recorded)

    def issue(self, op: Operation) -> Issue:
        """A task on the stream that it names; on 0 without."""
        stream = op.properties.get("stream")
        number = stream.value.data if isinstance(stream, IntegerAttr) else 0
        issue = self._last[number] = Issue(op, number, self._waits.pop(number, []))
        return issue
