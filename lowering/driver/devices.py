"""What the program of one device says of all devices of its mesh: what they send each other, and
what each has."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.collectives import AllGatherOp, Collective, ExchangeOp, OfWhole
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import LoopOp as GraphLoopOp
from ge.dialects.graph.sharding import PARAMETERS, Pipeline, mesh_of_parts, parts_of
from ge.dialects.graph.stated import name_of
from ge.dialects.graph.transfers import Transfers, common, needs_of
from ge.dialects.npu_task.control import LoopOp
from ge.dialects.npu_task.memory import FOREVER, trips
from ge.dialects.npu_task.ops import ConstantOp as TaskConstantOp
from ge.dialects.npu_task.ops import LaunchOp, kernels_of
from ge.dialects.npu_task.pipeline import (
    link_bytes,
    main_of_stage,
    sends_of,
    stages_of,
    type_of_link,
)
from ge.dialects.support.functions import functions, main_function
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.support.operation import all_ops, ops_of, yielded
from ge.dialects.support.types import byte_size, constant_ints, has_size, is_dynamic
from ge.dialects.targets.target import TARGET, Target, target_for
from ge.runtime.clock.pipeline import PipelineTime
from ge.runtime.library.costs.collectives import collective_us
from ge.runtime.library.costs.moved import Moved


def device_figures(module: ModuleOp) -> dict[str, Any]:
    """The `devices` part of the report; empty for a program of one device."""
    if stages_of(module):
        return {"devices": pipeline_figures(module)}
    mesh, main = mesh_of_parts(module), main_function(module)
    if mesh is None or main is None:
        return {}
    kernels = {name: kernel.main for name, kernel in kernels_of(module).items()}
    target = target_for(main) if TARGET in main.attributes else None
    rows: dict[Hashable, dict[str, Any]] = {}
    for ops, times in in_one(main.body.block, kernels):
        name, size = sent(ops, mesh)
        if size or has_no_size(ops[0]):
            axes = [axis_name(a, mesh) for a in ops[0].group()]
            key = name, size, tuple(axes), ops[0].algorithm
            row = {"op": name, "bytes": size, "axes": axes, "count": 0}
            rows.setdefault(key, row | timed(ops, target))["count"] += times
    collectives = list(rows.values())
    figures = {
        "count": mesh.count,
        "mesh": dict(mesh.sizes),
        "collectives": collectives,
        "sent_bytes": sum(moved(row, mesh) for row in collectives),
        "parameter_bytes": parameter_bytes(module),
    }
    return {"devices": figures}


def pipeline_figures(module: ModuleOp) -> dict[str, Any]:
    """The `devices` part for a pipeline, with that of each stage. A kind of collective counts as
    often as on the devices of the stage that has most of it."""
    pipeline, main = Pipeline.of(module), main_function(module)
    assert pipeline is not None
    assert main is not None
    time = PipelineTime.of(module, target_for(main))
    kinds: dict[Hashable, dict[str, Any]] = {}
    stages: list[dict[str, Any]] = []
    for number, stage in enumerate(stages_of(module)):
        own: Mapping[str, Any] = device_figures(stage).get("devices", {})
        rows = [
            row | {"count": row["count"] * pipeline.microbatches}
            for row in (*own.get("collectives", ()), *sends(stage, pipeline, time))
        ]
        for row in rows:
            key = row["op"], row["bytes"], tuple(row["axes"])
            kept = kinds.setdefault(key, row)
            kinds[key] = max(kept, row, key=lambda r: r["count"])
        launches = sum(isinstance(op, LaunchOp) for op in main_of_stage(stage).walk())
        stages.append({
            "launches": launches,
            "us": time.stages[number],
            "utilisation": time.utilisation(number),
            "parameter_bytes": parameter_bytes(stage),
            "sent_bytes": sum(moved(row, pipeline.devices) for row in rows),
            "buffer_bytes": sum(link_bytes(stage).values()),
            "collectives": rows,
        })  # fmt: skip
    return {
        "count": pipeline.devices.count,
        "mesh": dict(pipeline.devices.sizes),
        "collectives": list(kinds.values()),
        "sent_bytes": max(s["sent_bytes"] for s in stages),
        "parameter_bytes": max(s["parameter_bytes"] for s in stages),
        "pipeline": time.report() | {"axis": pipeline.axis, "stages": stages},
    }


def sends(stage: ModuleOp, pipeline: Pipeline, time: PipelineTime) -> Iterator[dict[str, Any]]:
    """Yield what a device of a stage sends to others, for one microbatch."""
    rows: dict[int, dict[str, Any]] = {}
    for op in sends_of(stage):
        if (t := type_of_link(op, stage)) is None:
            continue
        size = byte_size(t)
        row = {"op": "send", "bytes": size, "axes": [pipeline.axis], "count": 0}
        rows.setdefault(size, row | {"us": time.sending_us(size)})["count"] += 1
    yield from rows.values()


def repeated(block: Block, times: int) -> Iterator[tuple[Operation, int]]:
    """The ops of a block and of those in it, and how many times each runs: loops of unknown length
    count as one iteration."""
    for op in ops_of(block):
        yield op, times
        inside = times
        if isinstance(op, LoopOp):
            least, _ = trips(op)
            inside *= least if 0 < least < FOREVER else 1
        elif isinstance(op, GraphLoopOp) and op.trip_count is not None:
            inside *= prod(constant_ints(op.trip_count) or (1,))
        for region in op.regions:
            for inner in region.blocks:
                yield from repeated(inner, inside)


def in_one(
    block: Block, kernels: Mapping[str, Operation]
) -> Iterator[tuple[list[Collective], int]]:
    """The collectives of a block, and how many times each runs. Exchanges that each complete the
    result of the last one, the pieces of one value, are one."""
    found: list[tuple[list[Collective], int]] = []
    made: dict[SSAValue, list[Collective]] = {}  # by what the last piece was put into
    for op, times in repeated(block, 1):
        inner = kernels.get(op.callee) if isinstance(op, LaunchOp) else op
        if not isinstance(inner, Collective):
            continue
        before = next((made[v] for v in op.operands if v in made), None)
        if before is not None and isinstance(inner, ExchangeOp) and inner.onto is not None:
            before.append(inner)
            own = before
        else:
            own = [inner]
            found.append((own, times))
        if isinstance(inner, ExchangeOp):
            results = op.outs if isinstance(op, LaunchOp) else op.results
            made |= dict.fromkeys(results, own)
    yield from found


def sent(ops: Sequence[Collective], mesh: Mesh) -> tuple[str, int]:
    """The name and the bytes of a collective: what is reduced, gathered or scattered on a device;
    of boxes what the device that sends most sends, unless each sends all others as much; 0 where
    the size is not known."""
    op, *others = ops
    name = op.name.rpartition(".")[2]
    if has_no_size(op):
        return name, 0
    if not isinstance(op, OfWhole):
        return name, byte_size((op.result if isinstance(op, AllGatherOp) else op.input).type)
    by_device: dict[int, int] = {}
    for own in (op, *(o for o in others if isinstance(o, OfWhole))):
        found, _, sizes = Moved.by(own).sends(mesh)
        for device, size in zip(found.tolist(), sizes.sum(axis=1).tolist(), strict=True):
            by_device[device] = by_device.get(device, 0) + size
    bytes_sent, payload = max(by_device.values()), byte_size(op.input.type)
    devices = mesh.parts(op.group())
    if not isinstance(op, ExchangeOp) and bytes_sent * devices == payload * (devices - 1):
        return name, payload
    return ("halo" if is_halo(op, mesh) else "shift"), bytes_sent


def has_no_size(op: Collective) -> bool:
    """Tell whether the bytes of a collective are known at run time alone."""
    return is_dynamic(op.input.type)


def is_halo(op: OfWhole, mesh: Mesh) -> bool:
    """Tell whether a device in the middle keeps all that it has, and gets more."""
    transfers = Transfers(mesh.by_place, mesh.count // 2, op.whole, op.has.data, needs_of(op))
    return common(transfers.own, transfers.need) == list(transfers.own)


def timed(ops: Sequence[Collective], target: Target | None) -> dict[str, Any]:
    """The algorithm of a collective, and its time; nothing where no target is stated, or the
    size is not known."""
    algorithm = ops[0].algorithm
    if target is None or algorithm is None or has_no_size(ops[0]):
        return {}
    us = sum(collective_us(op, target) for op in ops)
    return {"algorithm": str(algorithm.data), "us": us}


def axis_name(axis: Axis, mesh: Mesh) -> str:
    return axis.name if mesh.is_whole(axis) else f"{axis.name}:({axis.pre}){axis.size}"


def moved(row: dict[str, Any], mesh: Mesh) -> int:
    """The bytes that a device sends for a collective, by the algorithm that sends least."""
    payload: int = row["bytes"] * row["count"]
    if row["op"] in ("halo", "shift", "send"):
        return payload
    sizes = (int(a.split(")")[1]) if ":" in a else mesh.sizes[a] for a in row["axes"])
    devices = prod(sizes)
    return (1 + (row["op"] == "all_reduce")) * (devices - 1) * payload // devices


def parameter_bytes(module: ModuleOp) -> int:
    """The bytes of the weights that a device keeps, of each once; of those that the module states
    as parameters, and what is prepared of them, where it states some."""
    main, sizes = main_function(module), dict[str, int]()
    stated, made = module.attributes.get(PARAMETERS), origins(module)
    names = (
        {n.data for n in cast("ArrayAttr[StringAttr]", stated)}
        if isinstance(stated, ArrayAttr)
        else None
    )
    for op in () if main is None else all_ops(main.body.blocks):
        if isinstance(op, ConstantOp | TaskConstantOp) and isinstance(op.value, WeightAttr):
            key = op.value.data
            if names is None or not names.isdisjoint(made.get(key, {key})):
                sizes[key] = byte_size(op.result.type) if has_size(op.result) else 0
    return sum(sizes.values())


def origins(module: ModuleOp) -> dict[str, set[str]]:
    """The keys of the whole weights that parts, and what is prepared at load, are made of."""
    of: dict[str, set[str]] = {key: {part.of} for key, part in parts_of(module).items()}
    prepare = functions(module).get("prepare")
    if prepare is None:
        return of
    made: dict[SSAValue, set[str]] = {}
    for op in ops_of(prepare.body.block):
        own = set[str]().union(*(made.get(v, set[str]()) for v in op.operands))
        if isinstance(op, ConstantOp) and op.key is not None:
            own |= of.get(op.key, {op.key})
        made |= dict.fromkeys(op.results, own)
    for table, value in zip(prepare.res_attrs or (), yielded(prepare.body.block)):
        of[name_of(table.data) or ""] = made.get(value, set[str]())
    return of
