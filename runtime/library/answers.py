"""What the library has been asked before (`asking.py`), in a file: a compilation that finds its
programs in a folder need not find out again which launches have one.

Launches are told apart by all that a program follows from: ops with their properties, how they are
wired, types, what short constants are, and the target. The file belongs to one compiler, whose
hash is in its name; it begins with the hash of the rest, and what does not hold together is no
file.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.support.context import setting
from ge.dialects.support.own_files import WRONG, Unsound, read_entry, write_entry
from ge.dialects.support.types import number_of
from ge.dialects.targets.target import Target

_texts: dict[Any, str] = {}  # of attributes, by their numbers


@dataclass
class Answers:
    """Those of a file; `path` None: none are kept."""

    path: Path | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    new: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    @cache
    def at(cls, path: str) -> "Answers":
        answers = cls(Path(path))
        answers.known.update(answers.read())
        return answers

    def read(self) -> dict[str, Any]:
        """What the file holds now; nothing where there is none that holds together."""
        assert self.path is not None
        with suppress(Unsound, *WRONG):
            return read_entry(self.path)
        return {}

    def write(self) -> None:
        """Add what was found out. Others may have added theirs meanwhile."""
        if self.path is None or not self.new:
            return
        held = self.read() | self.new
        self.new.clear()
        with suppress(OSError):  # then it is found out again
            write_entry(self.path, held)


ANSWERS: ContextVar[Answers | None] = ContextVar("answers", default=None)


@contextmanager
def answers_in(path: str) -> Generator[None]:
    """Take answers from a file, and keep others there; none where `path` is empty."""
    if not path:
        yield
        return
    answers = Answers.at(path)
    with setting(ANSWERS, answers):
        yield
    answers.write()


def signature(body: Body, target: Target) -> str:
    """Of all that a program follows from."""
    return sha256("\n".join([facts_of(target), *lines_of(body)]).encode()).hexdigest()


@cache
def facts_of(target: Target) -> str:
    return json.dumps(asdict(target), default=str)


def lines_of(body: Body) -> Iterator[str]:
    places: dict[SSAValue, int] = {}
    for value in body.inputs:
        places[value] = len(places)
        elements = small_constant(value)
        yield written(value.type) + ("" if elements is None else written(elements))
    for op in body.ops:
        yield f"{op.name} {properties_of(op)} {[places[v] for v in op.operands]}"
        for result in op.results:
            places[result] = len(places)
            yield written(result.type)
    yield str([places[v] for v in body.outputs])


def properties_of(op: Operation) -> str:
    if isinstance(op, ConstantOp):
        return written(op.value)
    return " ".join([f"{name}={written(a)}" for name, a in sorted(op.properties.items())])


def written(attribute: Attribute) -> str:
    number = number_of(attribute)
    if (text := _texts.get(number)) is None:
        text = _texts[number] = str(attribute)
    return text
