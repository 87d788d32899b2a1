"""ge-parser: what is in a module, a dump, a model or a program, and what differs between two."""

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.support.diagnostics import listing
from ge.dialects.support.errors import GeError
from ge.dialects.support.streams import print_result
from ge.dialects.targets.target import target_for
from ge.lowering.driver.compiler import load
from ge.lowering.levels.level import level_of
from ge.tools.views.data import LevelGraph, plain
from ge.tools.views.facts import ModuleFigures, facts_of
from ge.tools.views.levels import level_graph
from ge.tools.views.model import ge_level, is_ge_text, model_level

if TYPE_CHECKING:
    from ge.tools.views.difference import Difference


def run(args: argparse.Namespace) -> int:
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
    if args.json:
        print_result(json.dumps(plain(about), indent=2))
    else:
        print_result("\n".join(lines(about, args.most)))
    return 0


def counts(level: LevelGraph) -> dict[str, int]:
    """Nodes by type, the most first."""
    kinds = Counter(n.op for n in level.nodes if n.op not in ("input", "output"))
    return dict(kinds.most_common())


def lines(about: dict[str, Any], most: int) -> list[str]:
    found: list[str] = []
    if nodes := about.get("nodes"):
        listed = listing([f"{n} {op}" for op, n in nodes.items()], most, ", ")
        what = "ONNX" if about["file"].endswith(".onnx") else "graph"
        found.append(f"{what}: {sum(nodes.values())} nodes: {listed}")
    if why := about.get("not read as a graph"):
        found.append(f"not read as a graph: {why}")
    if (facts := about.get("facts")) is not None:
        found += fact_lines(facts, most)
    return found


def fact_lines(facts: ModuleFigures, most: int) -> list[str]:
    inside = f", {facts.inside} more in their bodies" if facts.inside else ""
    found = [f"{facts.level} level: {facts.ops} ops{inside}"]
    for what, ports in (("inputs", facts.inputs), ("outputs", facts.outputs)):
        listed = listing([f"{name}: {t}" for name, t in ports.items()], most, ", ")
        found.append(f"{what}: {listed or 'none'}")
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


def chain_lines(facts: ModuleFigures, most: int) -> list[str]:
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


def level_of_file(path: str, as_nodes: bool = False) -> LevelGraph:
    """The ops of a file; of an ONNX one the nodes that it has, where that is wanted or it cannot be
    read as a graph."""
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
