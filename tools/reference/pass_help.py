"""What `ge-opt --list-passes` says: a pass's docstring and the fields of its dataclass."""

import ast
import dataclasses
import inspect
import textwrap
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from xdsl.passes import ModulePass

from ge.lowering.pipeline.pass_options import type_text


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
