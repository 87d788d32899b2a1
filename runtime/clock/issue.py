"""The tasks that the host issues between two barriers, with their streams and the tasks that events
make each of them wait for, as a program states them or as a scheduler plans them."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from ge.dialects.npu_task.memory import Task
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
    _events: dict[int, list[Issue]] = field(default_factory=dict[int, list[Issue]])
    _waits: dict[int, list[Issue]] = field(default_factory=dict[int, list[Issue]])

    def add(self, op: Operation) -> Issue | None:
        """Issue an op; a task is returned, on 0 where it names no stream. Raises GeError for a wait
        whose event was not recorded."""
        stream = op.properties.get("stream")
        number = stream.value.data if isinstance(stream, IntegerAttr) else 0
        match op:
            case RecordOp():
                last = self._last.get(number)
                waits = self._waits.get(number, [])
                self._events[event_number(op)] = waits if last is None else [last, *waits]
            case WaitOp():
                event = event_number(op)
                if event not in self._events:
                    text = f"event {event} is waited for, but was not recorded since the last"
                    raise GeError(f"{text} barrier", str(location_of(op)))
                self._waits[number] = [*self._waits.get(number, ()), *self._events[event]]
            case _ if isinstance(op, Task):
                issue = self._last[number] = Issue(op, number, self._waits.pop(number, []))
                return issue
            case _:
                pass
        return None
