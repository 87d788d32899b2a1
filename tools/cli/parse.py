"""ge-parser: what is in a module, a dump, a model or a program, and what differs between two."""

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ge.dialects.support.streams import print_result
from ge.dialects.text.values import whole
from ge.tools.cli.arguments import argument
from ge.tools.cli.command_line import ArgumentParser

if TYPE_CHECKING:
    from ge.tools.views.data import LevelGraph
    from ge.tools.views.difference import Difference
    from ge.tools.views.facts import ModuleFigures

EPILOG = """examples:
  ge-parser model.onnx
  ge-parser program.mlir --target 910b2 --json
  ge-parser --diff ge_dump/02-fold-constants.mlir ge_dump/42-verify-level.mlir
  ge-parser ge_dump                       (the folder of GE_DUMP_GRAPH=1)
"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser("ge-parser", __doc__, EPILOG)
    what = "a .mlir of any level, a .onnx, a dump in GE's text form (.pbtxt), or a folder of dumps"
    parser.add_argument("input", metavar="FILE", nargs="?", help=what)
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"),
        help="report what happened to each op of A in B (two levels, dumps or models); exit "
        "status 0 if nothing differs, else 1")  # fmt: skip
    parser.add_argument("--target", metavar="NAME|FILE.toml", default="",
        help="whose times are shown; of a program, by default, the one that it names")  # fmt: skip
    parser.add_argument("--most", metavar="N", type=argument(whole(1)), default=20,
        help="so many rows, changes and steps of the chain (default 20)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="all of it, as JSON")
    return parser


def run(arguments: Sequence[str]) -> int:
    from ge.dialects.support.errors import GeError

    args = build_parser().parse_args(arguments)
    if args.diff and args.input:
        raise GeError("--diff A B takes two files, and no other")
    if args.diff:
        return compare(args)
    if not args.input:
        raise GeError("a file is missing", hint="see ge-parser --help")
    if os.path.isdir(args.input):
        return list_dumps(args)
    return describe(args)


def describe(args: argparse.Namespace) -> int:
    from ge.dialects.support.errors import GeError
    from ge.dialects.targets.target import target_for
    from ge.lowering.driver.compiler import load
    from ge.tools.views.facts import facts_of
    from ge.tools.views.model import ge_level, is_ge_text, model_level

    about: dict[str, Any] = {"file": args.input}
    if is_ge_text(args.input):
        return show_about(args, about | {"nodes": counts(ge_level(args.input))})
    if is_onnx := args.input.endswith(".onnx"):
        level, _ = model_level(args.input)
        about["nodes"] = counts(level)
    try:
        module = load(args.input).module
    except GeError as error:
        if not is_onnx:
            raise
        about["not read as a graph"] = str(error)
    else:
        main = next(iter(module.ops), module)
        facts = facts_of(module, target_for(main, args.target))
        about["facts"] = facts
    return show_about(args, about)


def show_about(args: argparse.Namespace, about: dict[str, Any]) -> int:
    """Print what is known of a file."""
    from ge.tools.views.data import plain

    if args.json:
        print_result(json.dumps(plain(about), indent=2))
    else:
        print_result("\n".join(lines(about, args.most)))
    return 0


def counts(level: "LevelGraph") -> dict[str, int]:
    """Nodes by type, the most first."""
    from collections import Counter

    kinds = Counter(n.op for n in level.nodes if n.op not in ("input", "output"))
    return dict(kinds.most_common())


def lines(about: dict[str, Any], most: int) -> list[str]:
    """What people are shown."""
    found: list[str] = []
    if nodes := about.get("nodes"):
        listed = ", ".join(f"{n} {op}" for op, n in list(nodes.items())[:most])
        what = "ONNX" if about["file"].endswith(".onnx") else "graph"
        found.append(f"{what}: {sum(nodes.values())} nodes: {listed}")
    if why := about.get("not read as a graph"):
        found.append(f"not read as a graph: {why}")
    if (facts := about.get("facts")) is not None:
        found += fact_lines(facts, most)
    return found


def fact_lines(facts: "ModuleFigures", most: int) -> list[str]:
    inside = f", {facts.inside} more in their bodies" if facts.inside else ""
    found = [f"{facts.level} level: {facts.ops} ops{inside}"]
    for what, ports in (("inputs", facts.inputs), ("outputs", facts.outputs)):
        listed = ", ".join(f"{name}: {t}" for name, t in list(ports.items())[:most])
        more = f", and {len(ports) - most} more" if len(ports) > most else ""
        found.append(f"{what}: {listed or 'none'}{more}")
    if facts.dims:
        found.append(f"open dimensions: {', '.join(facts.dims)}")
    size = facts.weight_bytes / 2**20
    found.append(f"parameters: {facts.parameters:,} in {facts.weights} weights, {size:,.2f} MiB")
    found.append(f"{'count':>7} {'Mmac':>10} {'Mvector':>10} {'MiB moved':>10}  op")
    for row in facts.kinds[:most]:
        unknown = f" ({row.open} of open size)" if row.open else ""
        found.append(
            f"{row.count:7} {row.macs / 1e6:10,.3f} {row.vector / 1e6:10,.3f} "
            f"{row.bytes / 2**20:10,.3f}  {row.op} {row.type}{unknown}"
        )
    if len(facts.kinds) > most:
        found.append(f"        and {len(facts.kinds) - most} more kinds")
    macs, moved = (sum(getattr(r, key) for r in facts.kinds) for key in ("macs", "bytes"))
    vector = sum(r.vector for r in facts.kinds)
    found.append(
        f"work: {macs:,} multiply-accumulates, {vector:,} element operations, "
        f"{moved / 2**20:,.2f} MiB to and from memory"
    )
    if facts.memory:
        listed = ", ".join(f"{key} {value:,}" for key, value in facts.memory.items())
        found.append(f"memory: {listed}")
    return found + chain_lines(facts, most)


def chain_lines(facts: "ModuleFigures", most: int) -> list[str]:
    if not facts.chain:
        return []
    what = "critical path" if facts.level == "program" else "longest chain, each op timed alone"
    longest = sorted(facts.chain, key=lambda s: -s.us)[:most]
    shown = [s for s in facts.chain if s in longest]
    rest = len(facts.chain) - len(shown)
    found = [f"{what}: {len(facts.chain)} ops, {facts.chain_us:,.1f} us on {facts.machine}"]
    found += [f"{step.us:12,.1f} us  {step.op} {step.name}" for step in shown]
    return found + ([f"        and {rest} shorter ones"] if rest else [])


# ---- two of them -----------------------------------------------------------------------------


def level_of_file(path: str, as_nodes: bool = False) -> "LevelGraph":
    """The ops of a file; of an ONNX one the nodes that it has, where that is wanted or it cannot be
    read as a graph."""
    from ge.dialects.support.errors import GeError
    from ge.lowering.driver.compiler import load
    from ge.lowering.levels.level import level_of
    from ge.tools.views.levels import level_graph
    from ge.tools.views.model import ge_level, is_ge_text, model_level

    if is_ge_text(path):
        return ge_level(path)
    is_onnx = path.endswith(".onnx")
    if is_onnx and as_nodes:
        return model_level(path)[0]
    try:
        module = load(path).module
    except GeError:
        if not is_onnx:
            raise
        return model_level(path)[0]
    return level_graph(module, level_of(module))[0]


def compare(args: argparse.Namespace) -> int:
    from ge.tools.views.data import plain
    from ge.tools.views.difference import difference

    first, second = args.diff
    as_nodes = first.endswith(".onnx") and second.endswith(".onnx")
    levels = level_of_file(first, as_nodes), level_of_file(second, as_nodes)
    found = difference(*levels, (first, second))
    if args.json:
        changes = [
            {"kind": c.kind, "before": c.before, "after": c.after, "why": c.why}
            for c in found.changes
        ]
        about = {"a": first, "b": second, "by": found.by, "same": found.same, "changes": changes}
        print_result(json.dumps(plain(about), indent=2))
    else:
        print_result("\n".join(difference_lines(found, args.most)))
    return int(bool(found.changes))


def difference_lines(found: "Difference", most: int) -> list[str]:
    counted = ", ".join(f"{n} {kind}" for kind, n in found.counts.items()) or "nothing differs"
    lines = [f"{found.same} ops are the same; {counted} (matched by {found.by})"]
    lines += map(str, found.changes[:most])
    if len(found.changes) > most:
        lines.append(f"and {len(found.changes) - most} more: --most {len(found.changes)}")
    return lines


def list_dumps(args: argparse.Namespace) -> int:
    """One line for each dump of a folder: how many ops it has, and of which level."""
    from pathlib import Path

    from ge.tools.views.make import dumped

    files = dumped(Path(args.input))
    rows: list[dict[str, Any]] = []
    for name, file in files:
        level = level_of_file(str(file))
        ops = sum(n.parent < 0 and n.op not in ("input", "output") for n in level.nodes)
        rows.append({"file": file.name, "pass": name, "level": level.name, "ops": ops})
    if args.json:
        print_result(json.dumps(rows, indent=2))
    else:
        print_result("\n".join(f"{r['ops']:6} ops  {r['level']:8} {r['file']}" for r in rows))
    return 0
