"""Calls whose launches are recorded once and then replayed as one.

A replay needs the same operations on tensors of the same descriptions: the recorded arguments and
tilings are used as they are. For others it is refused; the tasks are captured again, or, in the
mode that updates, those that differ are written anew, if their number and kinds are the same.
"""

from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass

from ge.runtime.host.dispatch import Call
from ge.runtime.host.program import Leaf
from ge.runtime.host.schedule import HostSchedule, HostWork


@dataclass(slots=True)
class CapturedTasks:
    """What a capture recorded, and for which shapes."""

    descs: list[Hashable]  # of each unit
    kinds: list[Hashable]  # of each task
    tasks: list[Hashable]  # what each task was recorded with


class CapturedCall(Call):
    """A call whose launches are recorded, or replayed where shapes are as recorded."""

    def run_with(self, captured: MutableMapping[int, CapturedTasks], place: int) -> HostSchedule:
        """Replay what was captured at this place of the program, or capture it."""
        leaves = [leaf for unit in self.units for leaf in unit.leaves]
        new = CapturedTasks(
            [(id(unit.operation), unit.pack.descs) for unit in self.units],
            [_kind(leaf) for leaf in leaves],
            [_recorded(leaf) for leaf in leaves],
        )
        old, captured[place] = captured.get(place), new
        if old is not None and old.descs == new.descs:
            self.refresh()
        elif old is not None and self.mode.updates and old.kinds == new.kinds:
            self.counts.refused += 1
            self.update([a != b for a, b in zip(old.tasks, new.tasks, strict=True)])
        else:
            self.counts.refused += old is not None
            self.counts.captures += 1
            return self.run()
        return self.schedule

    def refresh(self) -> None:
        """Find that nothing changed but what the arguments point to, and replay."""
        last = len(self.units) - 1
        for number, unit in enumerate(self.units):
            self.setup(0, number, unit)
        self.add(0, HostWork.ARGUMENTS, self.target.host_arguments_us, self.units[0], last)
        self.counts.replays += 1
        self.replay(0, last)

    def update(self, changed: list[bool]) -> None:
        """Write the tasks that changed anew, then replay."""
        last = len(self.units) - 1
        place = 0
        for number, unit in enumerate(self.units):
            self.setup(0, number, unit)
            count = sum(changed[place : place + len(unit.leaves)])
            place += len(unit.leaves)
            if count:
                self.prelaunch(0, number, unit)
                us = self.target.host_update_us * count
                self.add(0, HostWork.LAUNCH, us, unit, number).reads = self._reads(number)
                self.counts.updates += count
        self.counts.replays += 1
        self.replay(0, last)


def _kind(leaf: Leaf) -> Hashable:
    signature = leaf.signature
    return None if signature is None else (signature.kind, signature.structure)


def _recorded(leaf: Leaf) -> Hashable:
    signature = leaf.signature
    return leaf.pack.descs if signature is None else (signature.sizes, signature.tiling)
