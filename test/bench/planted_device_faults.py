"""Faults planted across the devices of random programs: does the checker report each one that can
change a result, or make devices wait for ever?

    python test/bench/planted_device_faults.py --cases 5000 [--seed N] [--timings N]

A case is a random graph, cut over a random mesh (`random_shardings.py`) and compiled all the way
down. The program as it is must be proved, and give the same bits in every random timing of all
devices. Then copies of it get a fault each: a wait or an acknowledgement is dropped or moved,
collectives are of other axes or another kind, of another stream or in another order, a buffer that
they use lies elsewhere, an argument or an exchange says another sharding, a mask is taken away, a
number of an op on a part is that of no op on the whole. Where all devices together give other bits,
or fail, the fault must have been reported."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from planted_faults import move, network
from random_graphs import Graphs, op_classes
from random_shardings import MESHES, mesh_of_text, stated
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i1,
    i64,
)
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.acknowledge import AcknowledgeOp
from ge.dialects.graph.collectives import Collective, CombineKind, OfWhole, OverAxes
from ge.dialects.graph.constant import WeightAttr
from ge.dialects.graph.convolution import ConvOp
from ge.dialects.graph.elementwise import CastOp, CompareOp, SelectOp
from ge.dialects.graph.image import ResizeOp
from ge.dialects.graph.pooling import PoolOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.graph.sharding import SHARDING, AxesAttr, AxisIndexOp, ShardingAttr, mesh_of
from ge.dialects.graph.stated import name_of
from ge.dialects.npu_task.attributes import figure, state
from ge.dialects.npu_task.control import IfOp
from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, SlotOp, WaitOp
from ge.dialects.support.editing import replace_uses
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import functions, main_function
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.tensor_op import TensorOp, attribute
from ge.dialects.support.types import element_type, is_dynamic, shape_of
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.transforms.schedule.split_launches import SplitLaunchesPass
from ge.transforms.sharding import partition_spmd
from ge.transforms.sharding.cut_attention import Exchanged
from ge.transforms.sharding.local_ops import Add, Part, build, with_properties

Given = tuple[Mapping[str, Any], RandomPayload]  # inputs, weights
Outputs = dict[str, Any]


CHUNKED = 0.4
"""The share of programs in which what devices send each other comes in chunks wherever it can, with
the launches that make and use it."""


IMAGES = (  # ops on images of 16x8, what becomes of the rows
    ("conv %x, %w pads [1, 1, 1, 1]", 1), ("conv %x, %w strides [2, 1] pads [1, 1, 1, 1]", 1 / 2),
    ("conv %x, %w dilations [2, 1] pads [2, 1, 2, 1]", 1),
    ("conv_transpose %x, %w strides [2, 1] pads [1, 1, 0, 1]", 2),
    ("pool max %x kernel [3, 1] strides [1, 1] pads [1, 0, 1, 0]", 1),
    ("pool average %x kernel [2, 1] strides [2, 1]", 1 / 2),
    ("softmax %x axis 1", 1), ("softmax %x axis 3", 1), ("tanh %x", 1),
    ("resize %x sizes [1, 4, ROWS, 8] coordinates asymmetric nearest_mode floor", 2),
)  # fmt: skip


def image_network(rng: random.Random) -> str:
    """A graph of ops with windows, and of those along an axis."""
    lines, value, rows = list[str](), "%x", 16

    def image(rows: int) -> str:
        return f"tensor<1x4x{rows}x8xf32>"

    for i in range(rng.randint(2, 5)):
        text, by = rng.choice(IMAGES)
        if not 8 <= (new := int(rows * by)) <= 64:
            continue
        types, text = [image(rows)], text.replace("%x", value).replace("ROWS", str(new))
        if "%w" in text:
            types.append("tensor<4x4x3x3xf32>")
            lines.append(f'%w{i} = graph.constant #graph.weight<"w{i}"> : {types[1]}')
        value, text = f"%{i}", text.replace("%w", f"%w{i}")
        lines.append(f"{value} = graph.{text} : ({', '.join(types)}) -> {image(new)}")
        rows = new
    body = "\n".join(lines)
    return f"func.func @main(%x: {image(16)}) -> {image(rows)} {{\n{body}\nreturn {value} : " \
        f"{image(rows)}\n}}"  # fmt: skip


EXCHANGED = 0.06
"""The share of programs that are attention between exchanges, in parts of its queries."""


MESHES_OF_FOUR = ('"tp"=4', '"a"=2, "b"=2')


def exchanged_attention(rng: random.Random) -> str:
    """Attention of whole rows of tokens: these are cut around it, and heads in it."""
    keys, masked, axes = rng.choice((4, 8)), rng.random() < 0.7, rng.choice(MESHES_OF_FOUR)
    own = ", ".join(axis.partition("=")[0] for axis in axes.split(", "))
    x, q, k = "tensor<1x16x32xf32>", "tensor<1x16x8x4xf32>", f"tensor<1x16x{keys}x4xf32>"
    mask, m = ("mask %m ", ", tensor<1x1x16x16xf32>") if masked else ("", "")

    def cut(name: str, value: str, dim: int, t: str) -> str:
        dims = ", ".join(f"{{{own}}}" if d == dim else "{}" for d in range(t.count("x")))
        return f"%{name} = graph.shard %{value} sharding <@mesh, [{dims}]> : ({t}) -> {t}"

    def weight(name: str, size: int) -> str:
        return f'%w{name} = graph.constant #graph.weight<"w{name}"> : tensor<32x{size}xf32>'

    lines = [cut("xs", "x", 1, x)]
    for name, heads, t in (("q", 8, q), ("k", keys, k), ("v", keys, k)):
        w, p = f"tensor<32x{4 * heads}xf32>", f"tensor<1x16x{4 * heads}xf32>"
        lines += [
            weight(name, 4 * heads),
            f"%p{name} = graph.matmul %xs, %w{name} : ({x}, {w}) -> {p}",
            f"%h{name} = graph.reshape %p{name} shape [1, 16, {heads}, 4] : ({p}) -> {t}",
            cut(f"r{name}", f"h{name}", 1, t),
            cut(name, f"r{name}", 2, t),
        ]
    first = " ".join(f"{n}_tokens_first true" for n in ("query", "key", "value", "result"))
    lines += [
        f"%a = graph.attention %q, %k, %v {mask}{first} : ({q}, {k}, {k}{m}) -> {q}",
        cut("o", "a", 2, q),
        cut("b", "o", 1, q),
        f"%r = graph.reshape %b shape [1, 16, 32] : ({q}) -> {x}",
        weight("o", 32),
        f"%y = graph.matmul %r, %wo : ({x}, tensor<32x32xf32>) -> {x}",
        cut("z", "y", 1, x),
        f"return %z : {x}",
    ]
    given = ", %m: tensor<1x1x16x16xf32>" if masked else ""
    head = f"graph.mesh @mesh [{axes}]\nfunc.func @main(%x: {x}{given}) -> {x} {{"
    return "\n".join((head, *lines, "}"))


def in_parts(seed: int) -> random.Random | None:
    """Numbers for a program of attention in parts, where the seed has one; `program` takes none
    of its own for that, so that other seeds keep their programs."""
    rng = random.Random(f"parts {seed}")
    return rng if rng.random() < EXCHANGED else None


def program(
    seed: int, graphs: Graphs, ctx: Context, parameters: "Parameters | None" = None
) -> tuple[ModuleOp, Given] | None:
    """The compiled program of a seed, and what it is given; None where nothing is sent in it."""
    rng, parameters = random.Random(seed), parameters or Parameters()
    if (own := in_parts(seed)) is not None:
        module = Parser(ctx, exchanged_attention(own)).parse_module()
    elif (kind := rng.random()) < 0.6:
        module = Parser(ctx, network(rng) if kind < 0.4 else image_network(rng)).parse_module()
    elif (graph := graphs.make(seed)) is not None:
        module = graph.clone()
    else:
        return None
    if any(is_dynamic(v.type) for op in module.walk() for v in (*op.operands, *op.results)):
        return None
    given = random_inputs(module), RandomPayload(module.clone())
    if own is None:
        stated(rng, mesh_of_text(rng.choice(MESHES)), module)
    fusion, memory = rng.choice(("off", "default")), rng.choice((0, 1, 1, 2))
    options = Options(fusion=fusion, memory=memory, verify=False, tiles=False)
    try:
        with (
            patch.object(partition_spmd, "build", parameters.build),
            patch.object(Exchanged, "fastest", lambda *_: (2 if own else 1, 1e9)),
        ):
            lower(module, options, until="buffers")
        if rng.random() < CHUNKED:
            SplitLaunchesPass(pieces=2, collectives=True).apply(ctx, module)
        lower(module, options)
    except (GeError, VerifyException, ValueError):  # random_shardings.py finds these
        return None
    return (module, given) if launches(module, Collective) else None


def met(module: ModuleOp, kind: Any) -> list[KernelOp]:
    """The kernels in which devices meet."""
    return [op for op in module.ops if isinstance(op, KernelOp) and isinstance(op.main, kind)]


def launches(module: ModuleOp, kind: Any) -> list[LaunchOp]:
    names = {k.sym_name.data for k in met(module, kind)}
    return [op for op in module.walk() if isinstance(op, LaunchOp) and op.callee in names]


def chosen(rng: random.Random, ops: list[Any]) -> Any:
    return rng.choice(ops) if ops else None


@dataclass
class Parameters:
    """Counts the ways to change a number of an op, as a part is made of it, so that it is that of
    no part of any op on the whole; and makes one of these changes."""

    wanted: int | None = None
    found: int = 0

    def build(self, part: Part, operands: Sequence[SSAValue], add: Add) -> list[SSAValue]:
        def changed(op: TensorOp) -> SSAValue:
            for properties in list(others(op, part)):
                if self.found == self.wanted:
                    op.properties.update(properties)
                self.found += 1
            return add(op)

        return build(part, operands, changed)


def others(op: TensorOp, part: Part) -> Iterator[Mapping[str, Attribute]]:
    """Other properties of an op of a part, with results of the same types."""
    cut = [d for d, axes in enumerate(part.strategy.dims) if axes]
    if type(op) is not type(part.op):
        return
    for properties in (*other_windows(op, cut), *other_axis(op, cut)):
        try:
            new = with_properties(op, list(op.operands), properties)
            new.verify()
        except (VerifyException, ValueError, IndexError):
            continue
        is_same = [r.type for r in new.results] == [r.type for r in op.results]
        new.drop_all_references()
        if is_same:
            yield properties


def other_windows(op: TensorOp, cut: Sequence[int]) -> Iterator[Mapping[str, Attribute]]:
    """Windows that pass the ends of parts, or those of an image that is resized in another way."""
    if isinstance(op, ResizeOp) and op.mode.data == "nearest":
        shapes = shape_of(op.input), shape_of(op.result)
        if any(shapes[0][d] != shapes[1][d] for d in cut):
            yield {"mode": type(op.mode).of("linear")}
    if not isinstance(op, ConvOp | PoolOp):
        return
    spatial = op.spatial() if isinstance(op, ConvOp) else shape_of(op.input)[2:]
    window = op.window().resolved(spatial)
    for i in (d - 2 for d in cut if d >= 2):
        for low, high, more in ((1, 0, 0), (0, 1, 0), (1, 1, 1), (2, 0, 1), (0, 2, 1)):
            pads, dilations = list(window.pads), list(window.dilations)
            pads[i] += low
            pads[i + window.rank] += high
            dilations[i] += more
            numbers = {"pads": attribute(pads), "dilations": attribute(dilations)}
            yield {name: n for name, n in numbers.items() if n is not None}


def other_axis(op: TensorOp, cut: Sequence[int]) -> Iterator[Mapping[str, Attribute]]:
    """An axis of which each device has a part: not of one element, as no text says which of such
    dimensions is cut."""
    cut = [d for d in cut if shape_of(op.results[0])[d] > 1]
    for name, value in op.properties.items():
        if name == "axis" and isinstance(value, IntegerAttr):
            yield from ({name: IntegerAttr(d, i64)} for d in cut)
        if name == "axes" and isinstance(value, DenseArrayBase) and len(value) == 1:
            yield from ({name: DenseArrayBase.from_list(i64, [d])} for d in cut)


# ---- faults ------------------------------------------------------------------------------------


def drop_wait(module: ModuleOp, rng: random.Random) -> str | None:
    op = chosen(rng, [op for op in module.walk() if isinstance(op, WaitOp)])
    return None if op is None else dropped(op, "dropped wait")


def drop_acknowledgement(module: ModuleOp, rng: random.Random) -> str | None:
    op = chosen(rng, launches(module, AcknowledgeOp))
    return None if op is None else dropped(op, "dropped acknowledgement")


def dropped(op: Operation, name: str) -> str:
    op.detach()
    op.erase()
    return name


def move_acknowledgement(module: ModuleOp, rng: random.Random) -> str | None:
    """Put an acknowledgement some ops later, or before its collective."""
    op = chosen(rng, launches(module, AcknowledgeOp))
    if op is None or (block := op.parent) is None:
        return None
    ops = list(block.ops)
    at = ops.index(op)
    target = rng.choice([i for i in range(max(at - 2, 0), min(at + 8, len(ops) - 1)) if i != at])
    op.detach()
    block.insert_op_before(op, ops[target]) if target < at else block.insert_op_after(
        op, ops[target]
    )
    return "moved acknowledgement"


def swap(module: ModuleOp, rng: random.Random) -> str | None:
    """Exchange two collectives of one block, or a collective and a task after it: one that follows
    from none between them, as kernels in another order may be those of another model."""
    first = chosen(rng, launches(module, Collective))
    later = [op for op in launches(module, object) if op.parent is first.parent]
    later = later[later.index(first) + 1 :][:4]
    used = [{owner_of(v) for v in (*op.ins, *op.outs)} for op in later]
    later = [op for i, op in enumerate(later) if not any(used[i] & own for own in used[:i])]
    if not later or (block := first.parent) is None:
        return None
    second = rng.choice(later)
    before = second.next_op
    second.detach()
    block.insert_op_before(second, first)
    first.detach()
    block.insert_op_before(first, before)
    return "swapped collective"


def other_stream(module: ModuleOp, rng: random.Random) -> str | None:
    op = chosen(rng, launches(module, Collective))
    streams = {o.stream.value.data for o in launches(module, object) if o.stream is not None}
    streams -= {op.stream.value.data}
    if not streams:
        return None
    op.properties["stream"] = IntegerAttr(rng.choice(sorted(streams)), i64)
    return "other stream"


def other_axes(module: ModuleOp, rng: random.Random) -> str | None:
    """Let a collective be over other axes of as many devices."""
    kernel, mesh = chosen(rng, met(module, OverAxes)), mesh_of(module)
    if kernel is None or mesh is None:
        return None
    own = kernel.main.axes.data
    axes = [a for a in every_axis(mesh) if (a,) != own and a.size == mesh.parts(own)]
    if not axes:
        return None
    kernel.main.properties["axes"] = AxesAttr((rng.choice(axes),))
    return "other axes"


def every_axis(mesh: Mesh) -> list[Axis]:
    halves = [Axis(n, p, 2) for n, size in mesh.axes if size == 4 for p in (1, 2)]
    return [Axis(n, 1, size) for n, size in mesh.axes] + halves


def other_kind(module: ModuleOp, rng: random.Random) -> str | None:
    kernels = [
        k
        for k in met(module, OverAxes)
        # what is left of a sum of one element for each device may as well be that of a maximum
        if "kind" in k.main.properties and 1 not in shape_of(k.main.operands[0])
    ]
    if (kernel := chosen(rng, kernels)) is None:
        return None
    kinds = {"sum", "max", "min"} - {str(kernel.main.properties["kind"].data)}
    kernel.main.properties["kind"] = CombineKind.of(rng.choice(sorted(kinds)))
    return "other kind"


def other_place(module: ModuleOp, rng: random.Random) -> str | None:
    """Put a buffer of a collective where another one is, or some bytes further."""
    op = chosen(rng, launches(module, Collective))
    slots = [o for v in (*op.ins, *op.outs) if isinstance(o := owner_of(v).owner, SlotOp)]
    if (slot := chosen(rng, slots)) is None:
        return None
    same = [o for o in module.walk() if isinstance(o, SlotOp) and o.segment == slot.segment]
    low = slot.offset.value.data
    places = [o.offset.value.data for o in same] + [low + 64, low + 512, max(low - 512, 0)]
    return move(module, slot, rng.choice(places), "other place")


def no_place(module: ModuleOp, rng: random.Random) -> str | None:
    """Let each device choose where a buffer of a collective lies."""
    op = chosen(rng, launches(module, Collective))
    slots = [o for v in (*op.ins, *op.outs) if isinstance(o := owner_of(v).owner, SlotOp)]
    if (slot := chosen(rng, slots)) is None or (block := slot.parent) is None:
        return None
    t = slot.result.type
    assert isinstance(t, MemRefType)
    new = AllocOp([], [], t)
    block.insert_op_before(new, slot)
    replace_uses(slot.result, new.memref)
    return dropped(slot, "no place")


def other_figure(module: ModuleOp, rng: random.Random) -> str | None:
    """State that collectives bring more or less."""
    main = main_function(module)
    assert main is not None
    stated = figure(main, "received_bytes") or 0
    state(main, received_bytes=rng.choice([stated + 4, stated * 2 + 1, stated // 2]))
    return "other figure"


PLACE = """
func.func @first() {
  %0 = graph.axis_index over <AXIS> : () -> tensor<i64>
  %1 = graph.constant dense<0> : tensor<SIZESi64>
  %2 = graph.compare eq %0, %1 : (tensor<i64>, tensor<SIZESi64>) -> tensor<SIZESi1>
  return
}
"""


def other_condition(module: ModuleOp, rng: random.Random) -> str | None:
    """Let a condition, behind which devices meet, follow from their place."""
    met, mesh = launches(module, Collective), mesh_of(module)
    branches = [op for op in module.walk() if isinstance(op, IfOp) and not op.results
                and any(op.is_ancestor(inner) for inner in met)]  # fmt: skip
    prepare = functions(module).get("prepare")
    if (op := chosen(rng, branches)) is None or mesh is None or prepare is None:
        return None
    axis, size = rng.choice(mesh.axes)
    sizes = "".join(f"{n}x" for n in shape_of(op.condition))
    text = PLACE.replace("AXIS", f'"{axis}"={size}').replace("SIZES", sizes)
    made = Parser(context(), text).parse_module()
    block = next(iter(functions(made).values())).body.block
    *ops, is_first, _ = block.ops
    name = DictionaryAttr({"graph.name": StringAttr("prepared.place")})
    last = prepare.body.block.last_op
    assert last is not None
    for inner in (*ops, is_first):
        inner.detach()
        prepare.body.block.insert_op_before(inner, last)
    last.operands = (*last.operands, *is_first.results)
    prepare.res_attrs = ArrayAttr([*(prepare.res_attrs or ()), name])
    prepare.update_function_type()
    given = ConstantOp(WeightAttr("prepared.place"), op.condition.type)
    assert op.parent is not None
    op.parent.insert_op_before(given, op)
    op.operands[0] = given.result
    return "other condition"


def changed(rng: random.Random, sharding: Sharding, mesh: Mesh) -> Sharding | None:
    """A sharding with parts of the same sizes by other axes, or in another order."""
    resolved, found = sharding.resolved(mesh), list[Sharding]()
    for d, own in enumerate(resolved.dims):
        others = [(a,) for a in every_axis(mesh)]
        others += [tuple(reversed(own))] + [
            (Axis(a.name, 2, 2), Axis(a.name, 1, 2)) for a in own if a.size == 4
        ]
        for new in others:
            if own and new != own and mesh.parts(new) == mesh.parts(own):
                dims = (*resolved.dims[:d], new, *resolved.dims[d + 1 :])
                found.append(Sharding(dims, unreduced=resolved.unreduced))
    return rng.choice(found) if found else None


def other_sharding(module: ModuleOp, rng: random.Random) -> str | None:
    """Let an argument or result be cut by other axes."""
    main, mesh = main_function(module), mesh_of(module)
    assert main is not None
    assert mesh is not None
    name = rng.choice(("arg_attrs", "res_attrs"))
    tables = list(getattr(main, name).data) if getattr(main, name) is not None else []
    i = rng.randrange(len(tables)) if tables else 0
    own = tables[i].data.get(SHARDING) if tables else None
    new = changed(rng, own.data, mesh) if isinstance(own, ShardingAttr) else None
    if new is None:
        return None
    tables[i] = DictionaryAttr({**tables[i].data, SHARDING: ShardingAttr(new)})
    setattr(main, name, ArrayAttr(tables))
    return "other sharding"


def other_parts(module: ModuleOp, rng: random.Random) -> str | None:
    """Let what is exchanged be cut by other axes than it is."""
    kernel, mesh = chosen(rng, met(module, OfWhole)), mesh_of(module)
    if kernel is None or mesh is None:
        return None
    name = rng.choice([n for n in ("has", "to") if n in kernel.main.properties])
    new = changed(rng, kernel.main.properties[name].data, mesh)
    if new is None:
        return None
    kernel.main.properties[name] = ShardingAttr(new)
    return "other parts"


def drop_mask(module: ModuleOp, rng: random.Random) -> str | None:
    """Let what stands behind the last element be."""
    masks = [
        op
        for op in module.walk()
        if isinstance(op, SelectOp)
        and op.on_true.type == op.result.type
        and not isinstance(op.parent_op(), KernelOp)  # the op of a launch is not taken away
        and is_of_place(module, op.condition)
    ]
    if (op := chosen(rng, masks)) is None:
        return None
    replace_uses(op.result, op.on_true)
    return "dropped mask"


def is_of_place(module: ModuleOp, value: SSAValue) -> bool:
    """True for a mask that is computed of a device's place, when the program is loaded or in the
    kernel."""
    op = value.owner
    if isinstance(op, ReshapeOp):
        return is_of_place(module, op.input)
    if isinstance(op, CompareOp):
        limit = op.rhs.owner.operands if isinstance(op.rhs.owner, CastOp) else [op.rhs]
        is_index = str(op.predicate.data) == "lt" and element_type(op.lhs) == i64
        is_index = is_index and len(shape_of(op.lhs)) == 1 and shape_of(limit[0]) == ()
        return is_index and follows_from_place(module, op.lhs)
    if not isinstance(value, BlockArgument) or element_type(value) != i1:
        return False
    found = behind(module, value)
    return bool(found) and all(v is not None and is_of_place(module, v) for v in found)


def follows_from_place(module: ModuleOp, value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, Operation):
        return isinstance(op, AxisIndexOp) or any(
            follows_from_place(module, v) for v in op.operands
        )
    return any(v is not None and follows_from_place(module, v) for v in behind(module, value))


def behind(module: ModuleOp, value: SSAValue) -> list[SSAValue | None]:
    """What an argument of an op, or of a kernel, stands for; None for what is no constant."""
    assert isinstance(value, BlockArgument)
    parent = value.owner.parent_op()
    if not isinstance(parent, KernelOp):
        return [parent.operands[value.index]] if isinstance(parent, FusedOp) else []
    users = (op for op in launches(module, object) if op.callee == parent.sym_name.data)
    owners = [op.ins[value.index].owner for op in users]
    made = prepared(module)
    return [
        made.get(o.value.data)
        if isinstance(o, ConstantOp) and isinstance(o.value, WeightAttr)
        else None
        for o in owners
    ]


def prepared(module: ModuleOp) -> dict[str, SSAValue]:
    """What is computed when the program is loaded, by name."""
    func = functions(module).get("prepare")
    if func is None or func.res_attrs is None or (last := func.body.block.last_op) is None:
        return {}
    pairs = zip(func.res_attrs.data, last.operands, strict=True)
    return {name: value for table, value in pairs if (name := name_of(table.data)) is not None}


FAULTS: tuple[Callable[[ModuleOp, random.Random], str | None], ...] = (
    drop_wait, drop_acknowledgement, move_acknowledgement, swap, other_stream, other_axes,
    other_place, other_sharding, other_parts, no_place, other_figure,
)  # fmt: skip
RARE = drop_mask, other_condition, other_kind
"""Faults for which few programs have a place: they come first."""


# ---- cases -------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came out."""

    programs: int = 0
    devices: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    reported: Counter[str] = field(default_factory=Counter[str])
    harmful: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


ERRORS = GeError, VerifyException, ValueError, KeyError, IndexError, AssertionError


def outcome(
    module: ModuleOp, given: Given, timings: int, seed: int, want: Outputs | None = None
) -> Outputs | str:
    """The bits of all outputs, or the reason why there are none. Where they are those that are
    wanted, if any are, in random timings as well."""
    try:
        session = Session(module, given[1], poison=True, sanitize=False)
        found = dict(session.run(given[0]))
        if timings and (want is None or same(found, want)):
            session.fuzz_schedule(given[0], timings, seed)
    except ERRORS as e:
        return f"{type(e).__name__}: {e}"
    return found


def same(a: Outputs, b: Outputs, about: bool = False) -> bool:
    """True for outputs of the same bits; or, of programs that may be fused in other ways, of about
    the same numbers."""
    if not about:
        return all(a[name].tobytes() == b[name].tobytes() for name in b)
    numbers = (((a[n].astype(np.float64)), b[n].astype(np.float64)) for n in b)
    return all(np.allclose(x, y, 1e-2, 1e-3, equal_nan=True) for x, y in numbers)


def problems_of(module: ModuleOp) -> list[str]:
    try:
        module.verify()
    except VerifyException as e:
        return [f"{e} [V]"]
    seen = set[Operation]()
    for op in module.walk():  # as ge-check does, when it reads a text
        if isinstance(op, LaunchOp) and any(
            isinstance(v.owner, Operation) and v.owner not in seen for v in op.operands
        ):
            return [f"{op.callee} uses what is not yet there [V]"]
        seen.add(op)
    return [p.message for p in check_program(module, with_tiles=False).problems]


EACH = 4
"""Faults planted in one program, each alone, in a copy of it."""


def check_case(seed: int, graphs: Graphs, ctx: Context, timings: int, tally: Tally) -> None:
    """Check one program as it is, and with some faults."""
    parameters = Parameters()
    if (made := program(seed, graphs, ctx, parameters)) is None:
        return
    module, given = made

    def other_program(wanted: int) -> tuple[ModuleOp, Given] | None:
        return program(seed, graphs, ctx, Parameters(wanted))

    problems = problems_of(module)
    want = outcome(module, given, max(timings // 4, 1), seed)
    if isinstance(want, str) and isinstance(outcome(module, given, 0, seed), str):
        return  # it refuses its inputs
    tally.programs += 1
    if problems:
        tally.wrong.append(f"seed {seed}: false alarm: {problems[0]}")
    elif isinstance(want, str):
        tally.wrong.append(f"seed {seed}: the program depends on timing: {want}")
    else:
        faults = planted(seed, module, parameters.found, other_program)
        check_faults(seed, given, faults, want, timings, tally)


OTHER_PARAMETER = "other parameter"


def planted(
    seed: int, right: ModuleOp, parameters: int,
    other_program: Callable[[int], tuple[ModuleOp, Given] | None],
) -> Iterator[tuple[str, ModuleOp]]:  # fmt: skip
    """Faults of several kinds, each in a program of its own; there are so many with another number
    of an op."""
    rng, count = random.Random(seed), 0
    if parameters and (made := other_program(rng.randrange(parameters))) is not None:
        count += 1
        yield OTHER_PARAMETER, made[0]
    for plant in (*RARE, *rng.sample(FAULTS, len(FAULTS))):
        module = right.clone()
        if count < EACH and (fault := plant(module, rng)) is not None:
            count += 1
            yield fault, module


def check_faults(
    seed: int, given: Given, faults: Iterable[tuple[str, ModuleOp]], want: Outputs, timings: int,
    tally: Tally,
) -> None:  # fmt: skip
    """Look for faults. What those do that are reported is seen of one in each program."""
    is_seen = False
    for fault, module in faults:
        tally.faults[fault] += 1
        problems = problems_of(module)
        tally.reported[fault] += bool(problems)
        tally.rules.update({p[p.rindex("[") + 1 : -1] for p in problems})
        if problems and is_seen:
            continue
        is_seen = is_seen or bool(problems)
        got = outcome(module, given, timings, seed + 1, want)
        if isinstance(got, str) or not same(got, want, fault == OTHER_PARAMETER):
            tally.harmful[fault] += 1
            if not problems:
                why = f": {got[:200]}" if isinstance(got, str) else ""
                tally.wrong.append(f"seed {seed}: {fault} does harm and is not reported{why}")


PROGRESS = 250
"""Faults after which a line tells how far it is."""


def run_cases(faults: int, timings: int, seed: int = 0) -> Tally:
    """Check programs from a seed on until so many faults were planted; prints what is wrong, and
    now and then how far it is."""
    ctx, graphs, tally = context(), Graphs(op_classes()), Tally()
    planted = 0
    while planted < faults:
        known = len(tally.wrong)
        check_case(seed, graphs, ctx, timings, tally)
        for line in tally.wrong[known:]:
            print(line, flush=True)
        seed += 1
        if (now := tally.faults.total()) // PROGRESS > planted // PROGRESS:
            print(f"{now} faults, next seed {seed}, {len(tally.wrong)} wrong", flush=True)
        planted = now
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=5000, help="planted faults")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--timings", type=int, default=8, help="of a faulty program")
    args = parser.parse_args()
    start = time.process_time()
    tally = run_cases(args.cases, args.timings, args.seed)
    print(f"{tally.programs} programs, rules {dict(sorted(tally.rules.items()))}")
    for name, count in sorted(tally.faults.items()):
        print(f"{name}: {count} planted, {tally.reported[name]} reported, "
              f"{tally.harmful[name]} seen to do harm")  # fmt: skip
    print(f"{len(tally.wrong)} wrong, {time.process_time() - start:.0f} s of CPU time")
    return bool(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
