"""Calls of numpy, prepared for arrays that stay where they are."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ge.runtime.numbers.scratch import Scratch

Action = Callable[[], object]


class Plan:
    """Calls to be made one after the other, as often as one likes, and the memory that they compute
    in: views and everything else that follows from shapes is made once."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.calls: list[Action] = []

    def add(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self.calls.append(partial(function, *arguments, **named))

    def run(self) -> None:
        for call in self.calls:
            call()
