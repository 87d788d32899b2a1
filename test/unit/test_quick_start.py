"""Dataclasses of a command compile their methods when these are first called."""

import dataclasses
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from ge.tools.cli import quick_start

PLACE = """
from dataclasses import dataclass, field, replace
@dataclass(frozen=True, slots=True, order=True)
class Place:
    row: int
    cols: list = field(default_factory=list)
class Inner(Place):
    pass
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the methods whose texts were compiled."""
    names: list[str] = []
    make: Any = getattr(dataclasses, quick_start.MAKER)

    def count(name: str, *text: Any, **more: Any) -> Any:
        names.append(name)
        return make(name, *text, **more)

    monkeypatch.setattr(dataclasses, quick_start.MAKER, count)
    monkeypatch.setattr(quick_start, "_makers", [])
    quick_start.compile_methods_late()
    return names


late = pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python compiles them together")


def defined(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a module of this name defines."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(PLACE, vars(module))
    return vars(module)


@late
def test_methods_are_compiled_at_the_first_call(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = defined("ge.place", monkeypatch)
    place, inner, replace = space["Place"], space["Inner"], space["replace"]
    assert not made
    assert place(1, [2]) == place(row=1, cols=[2])
    assert inner(1) != inner(2)
    assert made == ["__init__", "__eq__"]
    assert repr(replace(place(1), row=3)) == "Place(row=3, cols=[])"
    assert place(1) < place(2)
    assert made == ["__init__", "__eq__", "__repr__", "__lt__"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        place(1).row = 2
    with pytest.raises(TypeError, match=r"Place.__init__\(\) missing 1 required"):
        place()
    assert place.__init__.__qualname__ == "Place.__init__"


@late
def test_classes_of_others_are_made_as_ever(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    defined("other.place", monkeypatch)
    assert "__init__" in made


@late
def test_a_command_compiles_few_methods() -> None:
    """Of more than 600 dataclasses that it imports."""
    text = """
import dataclasses, sys
made, make = [], dataclasses._create_fn
def count(name, *text, **more):
    made.append(name)
    return make(name, *text, **more)
count = type(count)(count.__code__, globals())
dataclasses._create_fn = count
sys.argv = ["ge-compile", "--print-pipeline"]
from ge_npu import ge_compile
ge_compile()
print(len(made), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert int(done.stderr) < 400
