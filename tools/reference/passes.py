"""The pages of passes and rules: what stands above their modules, classes and functions. And what
`ge-opt --list-passes` says: a pass's docstring and the fields of its dataclass."""

import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from xdsl.passes import ModulePass

from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.pass_options import type_text
from ge.lowering.pipeline.stages import stages
from ge.lowering.plugins.universe import GE_UNIVERSE, PASSES, rules
from ge.tools.reference.markdown import code, from_docstring, paragraphs, table
from ge.transforms.rewriting.passes import relation_of


def _field_docs(cls: type) -> dict[str, str]:
    """Field -> the string below it in the class body (or `help` in its metadata)."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= {
                f.name: f.metadata["help"] for f in dataclasses.fields(base) if "help" in f.metadata
            }
            if "__annotations__" in vars(base):
                docs |= _strings_below_fields(base)
    return docs


@cache
def _strings_below_fields(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    docs: dict[str, str] = {}
    for statement, below in zip(tree.body, tree.body[1:], strict=False):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs


def summary(cls: type) -> str:
    doc = inspect.cleandoc(cls.__doc__ or "") if cls.__doc__ != ModulePass.__doc__ else ""
    text = " ".join(doc.split("\n\n")[0].split())
    return "" if text.startswith(f"{cls.__name__}(") else text  # the dataclass's own


def pass_help(cls: type[ModulePass]) -> str:
    """Name, what it does, and each option with type, default and meaning."""
    lines = [cls.name]
    lines += textwrap.wrap(summary(cls), 96, initial_indent="    ", subsequent_indent="    ")
    for option in options_of(cls):
        head = f"{option.name}=<{option.type}> ({option.default})"
        text = f"{head}: {option.help}" if option.help else head
        lines += textwrap.wrap(text, 96, initial_indent="      ", subsequent_indent="          ")
    return "\n".join(lines)


class PassOption(NamedTuple):
    """A field of a pass's dataclass, as texts."""

    name: str
    type: str
    default: str
    help: str


def options_of(cls: type[ModulePass]) -> list[PassOption]:
    """The options of a pass, in the order of its fields."""
    types, docs = get_type_hints(cls), _field_docs(cls)
    options: list[PassOption] = []
    for field in dataclasses.fields(cls):
        if not field.init or field.name == "name":
            continue
        default = "required"
        if field.default is not dataclasses.MISSING:
            default = f"default {default_text(field.default)}"
        elif field.default_factory is not dataclasses.MISSING:
            default = f"default {default_text(field.default_factory())}"
        kind = type_text(types[field.name])
        options.append(PassOption(field.name, kind, default, docs.get(field.name, "")))
    return options


def default_text(value: Any) -> str:
    """Return the default of an option as a user would write it; `none` where it is not set."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return "none" if value is None else str(value) or '""'


PASSES_INTRODUCTION = """# Passes

All passes of ge, by the folder that they are in. `ge-opt IN.mlir -p NAME{option=value}` runs one on
a module of any level; `ge-compile --print-pipeline` prints those that a model goes through, and
`ge-opt --list-passes=NAME` says what stands here. *Numbers* is what a pass may do to them, which
`--validate` holds it to. *Statistics* are the [rules](rules.md) that the report counts."""

RULES_INTRODUCTION = """# Rules

What passes are made of. `ge-compile --fusion-disable NAME` leaves a rule out, `--remarks` says
where it was applied or nearly matched, and the report counts both."""


def passes_page() -> str:
    """Each pass: what it rewrites, its options, level, rules and relation of numbers."""
    parts = [PASSES_INTRODUCTION]
    for room, names in PASSES.items():
        parts.append(f"## `{room.replace('.', '/')}`")
        parts += [pass_section(GE_UNIVERSE.all_passes[name]()) for name in sorted(names.split())]
    return paragraphs(*parts)


def rules_page() -> str:
    """Each rule with what it does."""
    rows = [(code(name), what) for name, what in rules().items()]
    return paragraphs(RULES_INTRODUCTION, table(["rule", "what it does"], rows))


def pass_section(cls: type[ModulePass]) -> str:
    module = sys.modules[cls.__module__]
    facts = [("Level", level_of_pass(cls)), ("Statistics", ", ".join(map(code, rules_of(cls))))]
    if (relation := numbers_of(cls)) is not None:
        facts.insert(1, ("Numbers", relation))
    options = [
        (code(o.name), code(o.type), code(o.default.removeprefix("default ")), o.help)
        for o in options_of(cls)
    ]
    above, own = from_docstring(module.__doc__), from_docstring(cls.__doc__)
    return paragraphs(
        f"### {cls.name}",
        own,
        "" if above.split("\n\n")[0] == own.split("\n\n")[0] else above,
        "\n".join(f"- *{name}*: {text}" for name, text in facts if text),
        table(["option", "type", "default", "meaning"], options),
    )


def numbers_of(cls: type[ModulePass]) -> str | None:
    """Say what a pass may do to the numbers; None if that depends on options that it requires."""
    try:
        return str(relation_of(cls()))
    except TypeError:
        return None


def rules_of(cls: type[ModulePass]) -> Sequence[str]:
    """The rules that the module of a pass declares or takes from another one."""
    known, found = _rules(), dict[str, None]()
    for value in vars(sys.modules[cls.__module__]).values():
        names: object = getattr(value, "names", ()) if not isinstance(value, str) else (value,)
        if isinstance(names, tuple):
            found |= {n: None for n in names if n in known}  # pyright: ignore[reportUnknownVariableType]
    return sorted(found)


_rules = cache(rules)


@cache
def _levels() -> dict[str, str]:
    """Pass of the default pipeline -> the level that it leads to."""
    levels: dict[str, str] = {}
    for level, passes in stages(Options(memory=3, pieces=True, tiles=True, merge_io=True)).items():
        for p in passes:
            levels.setdefault(p.name, str(level))
    return levels


def level_of_pass(cls: type[ModulePass]) -> str:
    """Return the level to which the default pipeline lowers when it runs a pass; empty if it does
    not run it."""
    level = _levels().get(cls.name)
    return f"runs on the way to `{level}` in the default pipeline" if level else ""
