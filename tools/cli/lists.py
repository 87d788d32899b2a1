"""What `ge-opt --list-...` says: what there is, sorted by name, and of which package it is."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from ge.dialects.graph.support.op_names import nearest_name, short_name
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed, left_out
from ge.dialects.targets.target import Target
from ge.dialects.text.errors import PLUGIN
from ge.dialects.text.values import did_you_mean
from ge.lowering.pipeline.pass_options import PassTable, require_pass
from ge.lowering.plugins.universe import GE_UNIVERSE, rule_table
from ge.tools.reference import ops as reference
from ge.tools.reference.ops import example_of
from ge.tools.reference.passes import pass_help

T = TypeVar("T")

ALL = "all"  # xDSL's own too
OTHERS = "plug-in"  # whose is what a file adds


def table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Name, package and summary, sorted by name."""
    rows = sorted(rows)
    widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    lines = (f"{name:{widths[0]}}  {of:{widths[1]}}  {what}".rstrip() for name, of, what in rows)
    return "\n".join(lines)


def first_sentence(doc: str | None) -> str:
    """Of a docstring, without its end, on one line."""
    paragraph = " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())
    return textwrap.shorten(re.split(r"[.:;](?: |$)", paragraph)[0], 100, placeholder=" ...")


def owners(kind: str) -> Callable[[str], str]:
    """Make a function which gives the package of a name of `Universe.all_<kind>`."""
    universes: dict[str, Universe] = {"xdsl": XDSL_UNIVERSE, "ge": GE_UNIVERSE}
    universes |= {p.name: p.universe for p in installed()}
    names = {n: of for of, u in universes.items() for n in getattr(u, f"all_{kind}")}
    return lambda name: names.get(name, OTHERS)


def loaded(names: Iterable[str], getters: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Those that can be loaded; a warning names the others."""
    found: dict[str, T] = {}
    for name in names:
        try:
            found[name] = getters[name]()
        except GeError as e:
            left_out(f"'{name}'", e, e.hint)
    return found


# ---- passes, rules, dialects, targets ------------------------------------------------------------


def list_passes(names: str, passes: PassTable) -> str:
    """Help on some passes, or on those of ge, packages and plug-ins; for `all`, the names of xDSL's
    too. Raises GeError for a name that no pass has."""
    of = owners("passes")

    def described(name: str, cls: type[ModulePass]) -> str:
        head, below, rest = pass_help(cls).partition("\n")
        return f"{head}{'' if of(name) == 'ge' else f' (of {of(name)})'}{below}{rest}"

    if names and names != ALL:
        chosen = [require_pass(name, passes) for name in names.split(",")]
        return "\n\n".join(described(name, passes[name]()) for name in chosen)
    own = sorted(name for name in passes if of(name) != "xdsl")
    texts = [described(name, cls) for name, cls in loaded(own, passes).items()]
    if names != ALL:
        return "\n\n".join([*texts, "xDSL's own passes and output formats: --list-passes=all"])
    upstream = "\n".join(f"    {name}" for name in sorted(XDSL_UNIVERSE.all_passes))
    formats = ", ".join(sorted(XDSL_UNIVERSE.all_targets))
    head = "of xDSL (--list-passes=NAME says more):"
    return "\n\n".join(
        [*texts, f"{head}\n{upstream}", f"output formats (--output-format): {formats}"]
    )


def list_rules() -> str:
    """The rules that passes are made of, which `--fusion-disable` takes."""
    return table((name, of_module(module), what) for name, (what, module) in rule_table().items())


def of_module(module: str) -> str:
    """The package that a module is of."""
    top = module.partition(".")[0]
    names = {p.module.partition(".")[0]: p.name for p in installed()} | {"ge": "ge", "xdsl": "xdsl"}
    return OTHERS if module.startswith(PLUGIN) else names.get(top, OTHERS)


def list_dialects(known: Universe) -> str:
    of = owners("dialects")
    return table((name, of(name), "") for name in known.all_dialects)


def list_targets() -> str:
    """The NPUs that are known by name."""
    names = dict.fromkeys(Target.presets(), "ge")
    names |= {name: p.name for p in installed() for name in p.adds.targets}
    found = loaded(names, {name: partial(Target.load, name) for name in names})
    return table((name, names[name], target_text(t)) for name, t in found.items())


def target_text(target: Target) -> str:
    cores = f"{target.cube_cores} cube and {target.vector_cores} vector cores"
    return f"{cores} at {target.clock_ghz:g} GHz, {target.hbm_bytes / 2**30:g} GiB"


# ---- ops -----------------------------------------------------------------------------------------


def list_ops(what: str, known: Universe) -> str:
    """All ops of ge, packages and plug-ins, those of a dialect, or of `all`; or one of them in
    full. Raises GeError for a name that nothing has."""
    of = owners("dialects")
    what = named_op(what, known)
    dialect = what.partition(".")[0]
    if what in ("", ALL):
        chosen = [name for name in known.all_dialects if what == ALL or of(name) != "xdsl"]
    elif dialect in known.all_dialects:
        chosen = [dialect]
    else:
        known_ops = [op.name for op in known.all_dialects["graph"]().operations]
        if "." not in what and (near := nearest_name(what, known_ops)):
            raise GeError(f"there is no dialect or op '{what}'", hint=near)
        hint = did_you_mean(dialect, tuple(known.all_dialects), "; --list-dialects lists them")
        raise GeError(f"there is no dialect '{dialect}'{hint}")
    if len(chosen) == 1 and what:  # what cannot be loaded is an error then
        dialects = {dialect: known.all_dialects[dialect]()}
    else:
        dialects = loaded(chosen, known.all_dialects)
    ops = {op.name: op for d in dialects.values() for op in d.operations}
    if "." not in what:
        named = ((op, of(d.name)) for d in dialects.values() for op in d.operations)
        return table((op.name, package, first_sentence(op.__doc__)) for op, package in named)
    if what not in ops:
        hint = did_you_mean(what, tuple(ops), f"; --list-ops={dialect} lists them")
        raise GeError(f"there is no op '{what}'{hint}")
    return op_help(ops[what], of(dialect))


def named_op(what: str, known: Universe) -> str:
    """The graph op that a word stands for which names neither a dialect nor an op in full: its own
    name (`matmul`), or that of a framework's op (`BatchMatMul`)."""
    if what in ("", ALL) or "." in what or what in known.all_dialects:
        return what
    graph = known.all_dialects["graph"]()
    return next((o.name for o in graph.operations if short_name(o.name) == short_name(what)), what)


def op_help(op: type[Operation], package: str) -> str:
    """Meaning, syntax, operands, attributes, results, traits and an example."""
    lines = [f"{op.name} (of {package})"]
    lines += textwrap.indent(inspect.cleandoc(op.__doc__ or ""), "    ").splitlines()
    if not issubclass(op, IRDLOperation):
        return "\n".join(lines)

    lines += _section("syntax", [_plain(line) for line in _syntax(reference.syntax(op))])
    for title, rows in (
        ("operands", reference.operand_rows(op)),
        ("attributes", reference.attribute_rows(op)),
        ("results", reference.result_rows(op)),
    ):
        lines += _section(title, [_plain(f"{n}: {k} ({h})") for n, k, h in rows])
    regions = [name for name, _ in op.get_irdl_definition().regions]
    lines += _section("regions", regions)
    lines += _section("traits", [_plain(", ".join(reference.traits_of(op)))])
    lines += _section("access", [_plain(reference.access_of(op))])
    if (example := example_of(op.name)) is not None:
        lines += _section("example", example.text.rstrip().splitlines())
    return "\n".join(lines)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {line}" for line in lines)] if any(lines) else []


def _syntax(markdown: str) -> list[str]:
    lines = markdown.splitlines()
    fence = [i for i, line in enumerate(lines) if line.startswith("```")]
    return lines[fence[0] + 1 : fence[1]] if fence else []


def _plain(markdown: str) -> str:
    return markdown.replace("`", "")
