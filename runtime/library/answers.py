"""What the library has been asked before (`asking.py`), in a file: a compilation that finds its
programs in a folder need not find out again which launches have one.

Launches are told apart by all that a program follows from: ops with their properties, how they are
wired, types, what short constants are, and the target. The file belongs to one compiler, whose
hash is in its name. Compilations add lines to it, so that what was asked before is never written
again, and take those of others; a line that does not hold together is none.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph.constant import ConstantOp, small_constant
from ge.dialects.support.context import having
from ge.dialects.support.environment import WRONG, Unsound, add_line, read_lines
from ge.dialects.support.types import number_of
from ge.dialects.targets.target import Target

_texts: dict[Any, str] = {}  # of attributes, by their numbers


@dataclass
class Answers:
    """Those of a file."""

    path: Path
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    new: dict[str, Any] = field(default_factory=dict[str, Any])
    end: int = 0  # of what is known of the file

    @classmethod
    @cache
    def at(cls, path: str) -> "Answers":
        return cls(Path(path))

    def read(self) -> None:
        """Take what was added to the file since; nothing where there is none of ours."""
        with suppress(Unsound, *WRONG):
            lines, self.end = read_lines(self.path, self.end)
            for line in lines:
                self.known.update(line)

    def write(self) -> None:
        """Add what was found out."""
        if self.new:
            with suppress(OSError):  # then it is found out again
                start, end = add_line(self.path, self.new)
                self.end = end if start == self.end else self.end
            self.new.clear()


@contextmanager
def answers_in(path: str) -> Generator[None]:
    """Take answers from a file, and keep others there; none where `path` is empty."""
    if not path:
        yield
        return
    answers = Answers.at(path)
    answers.read()
    with having(answers):
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
