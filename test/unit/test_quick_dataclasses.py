"""Dataclasses of ge's own commands do what Python's do."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ge.dialects.support import quick_dataclasses

IS_QUICK = sys.version_info[:2] == (3, 11)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_frozen_get_del_attr", "_cmp_fn", "_hash_fn", "_repr_fn"):
        if hasattr(dataclasses, name):
            monkeypatch.setattr(dataclasses, name, getattr(dataclasses, name))  # to be undone
    quick_dataclasses.make_quickly()


def classes() -> list[type[Any]]:
    """Of each kind: fields, frozen or not, ordered, with slots, without fields, derived."""

    @dataclasses.dataclass
    class Plain:
        x: Any = 1
        y: Any = dataclasses.field(default=2, repr=False)

    @dataclasses.dataclass(frozen=True, order=True)
    class Ordered:
        x: Any = 1
        y: Any = dataclasses.field(default=2, compare=False)

    @dataclasses.dataclass(frozen=True, slots=True)
    class Slots:
        x: Any = 1
        y: Any = 2

    @dataclasses.dataclass(frozen=True)
    class Empty:
        pass

    @dataclasses.dataclass(frozen=True)
    class Derived(Ordered):
        z: Any = 3

    return [Plain, Ordered, Slots, Empty, Derived]


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as e:
        return type(e), str(e)


def outcomes(kind: type[Any]) -> list[Any]:
    """What objects of a class say, whatever may be asked."""
    nan, one = float("nan"), kind()
    given = [kind(*[value][: len(dataclasses.fields(kind))]) for value in (1, 2, nan, nan, [1])]
    found: list[Any] = [repr(o).replace(kind.__qualname__, "") for o in given]
    for a in given:
        found.append(outcome(lambda a=a: hash(a)))
        found += [outcome(lambda a=a, b=b: a == b) for b in (*given, 1)]
        found += [outcome(lambda a=a, b=b: a < b) for b in given if a is not b]
        found += [outcome(lambda a=a, b=b: a >= b) for b in given if a is not b]
    found += [outcome(lambda n=n: setattr(one, n, 5)) for n in ("x", "z", "other")]
    return [*found, outcome(lambda: delattr(one, "x")), one == kind(), kind.__eq__.__qualname__]


def test_they_do_what_dataclasses_do(request: pytest.FixtureRequest) -> None:
    plain = [outcomes(kind) for kind in classes()]
    request.getfixturevalue("quick")
    assert [outcomes(kind) for kind in classes()] == plain


@pytest.mark.usefixtures("quick")
def test_those_that_hold_themselves_have_a_text() -> None:
    plain = classes()[0]()
    plain.x = plain
    assert repr(plain).endswith("Plain(x=...)")


@pytest.mark.skipif(not IS_QUICK, reason="other versions write methods in another way")
@pytest.mark.usefixtures("quick")
def test_nothing_but_init_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    made, create = list[str](), dataclasses.__dict__["_create_fn"]

    def counted(name: str, *args: Any, **more: Any) -> Any:
        made.append(name)
        return create(name, *args, **more)

    monkeypatch.setattr(dataclasses, "_create_fn", counted)
    assert made == ["__init__"] * len(classes())


@pytest.mark.skipif(not IS_QUICK, reason="other versions write methods in another way")
def test_who_imports_ge_keeps_those_of_python() -> None:
    """A command alone makes them quickly."""
    code = "import dataclasses as d; {}; print(d._hash_fn.__module__)"
    run = [sys.executable, "-c", code.format("import ge; ge.Session, ge.compile")]
    assert subprocess.check_output(run, text=True).split()[-1] == "dataclasses"
    tool = "from ge.lowering.cli.command_line import guarded; import sys; sys.argv[1:] = []; "
    tool += "guarded('ge-opt', None, lambda args: 0)"
    found = subprocess.check_output([sys.executable, "-c", code.format(tool)], text=True)
    assert found.split()[-1] == quick_dataclasses.__name__
