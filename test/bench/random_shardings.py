"""Random graphs, cut over random meshes in random ways, must give what they give on one device.

    python test/bench/random_shardings.py --cases 2000 [--seed N]

A graph is one of `random_graphs.py` (ops of all classes, branches, loops, unknown dimensions). Its
arguments and results, and some values between, get shardings: of any axes and sub-axes, of sizes
that do not divide too. It is partitioned, and all devices run in one process."""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_graphs import Graphs, Reference, op_classes
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.sharding import SHARDING, MeshOp, ShardingAttr, ShardOp
from ge.dialects.support.digits import joined
from ge.dialects.support.editing import replace_uses
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.types import is_static, shape_of
from ge.dialects.text.printing import op_text
from ge.transforms.rewriting.passes import relation_of
from ge.transforms.sharding.partition_spmd import PartitionSpmdPass

MESHES = ("a=2", "a=4", "a=3", "a=2,b=2", "a=3,b=2", "a=2,b=4")


def mesh_of_text(text: str) -> Mesh:
    pairs = (axis.split("=") for axis in text.split(","))
    return Mesh(tuple((name, int(size)) for name, size in pairs))


def random_sharding(
    rng: random.Random, mesh: Mesh, shape: Sequence[int], gone: float = 0.4
) -> Sharding:
    """Axes, whole or in two, but a share that is `gone`, on dimensions that have at least as many
    elements."""
    dims: list[list[Axis]] = [[] for _ in shape]
    for name, size in rng.sample(mesh.axes, len(mesh.axes)):
        parts = [Axis(name, 1, size)]
        if size == 4 and rng.random() < 0.3:
            parts = [Axis(name, 1, 2), Axis(name, 2, 2)]
        for part in parts:
            if not shape or rng.random() < gone:
                continue
            own = dims[d := rng.randrange(len(shape))]
            if shape[d] >= part.size * mesh.parts(own):
                own.append(part)
    return Sharding(tuple(joined(tuple(own)) for own in dims))


def stated(rng: random.Random, mesh: Mesh, module: ModuleOp, gone: float = 0.4) -> None:
    """State random shardings in a module: of all axes but a share that is `gone`."""
    main = module.ops.first
    assert isinstance(main, FuncOp)
    block = main.body.block

    def tables(old: ArrayAttr[DictionaryAttr] | None, shapes: Sequence[Sequence[int]]):
        kept = old.data if old is not None else [DictionaryAttr({})] * len(shapes)
        return ArrayAttr(
            DictionaryAttr(
                {**t.data, SHARDING: ShardingAttr(random_sharding(rng, mesh, shape, gone))}
            )
            if is_static(tuple(shape)) and rng.random() < 0.8
            else t
            for t, shape in zip(kept, shapes, strict=True)
        )

    last = block.last_op
    assert last is not None
    main.arg_attrs = tables(main.arg_attrs, [shape_of(a) for a in block.args])
    main.res_attrs = tables(main.res_attrs, [shape_of(v) for v in last.operands])
    for op in list(block.ops):
        if isinstance(op, ConstantOp) or rng.random() < 0.85:
            continue
        for value in op.results[:1]:
            if is_static(shape := shape_of(value)):
                own = ShardingAttr(random_sharding(rng, mesh, shape, gone))
                new = ShardOp.of(value, sharding=own)
                block.insert_op_after(new, op)
                replace_uses(value, new.result)
                new.operands[0] = value
    module.body.block.insert_op_before(MeshOp.of(ordered(rng, mesh)), main)


def ordered(rng: random.Random, mesh: Mesh) -> Mesh:
    """The mesh, or one of which devices are in another order; of the numbers of `rng` none is
    taken, so that seeds keep their graphs."""
    own = random.Random()
    own.setstate(rng.getstate())
    is_plain = own.random() < 0.5
    return mesh if is_plain else replace(mesh, order=(*own.sample(range(n := mesh.count), n),))


def check(graphs: Graphs, seed: int) -> str | None:
    """What goes wrong with the graph of a seed; None where nothing does."""
    module = graphs.make(seed)
    if module is None:
        return None
    try:
        reference = Reference(module)
    except GeError:
        return None
    rng = random.Random(seed)
    partitioned = module.clone()
    stated(rng, mesh_of_text(rng.choice(MESHES)), partitioned)
    text = op_text(partitioned)
    PartitionSpmdPass().apply(Context(), partitioned)
    partitioned.verify()
    wrong = reference.difference(partitioned, relation_of(PartitionSpmdPass()))
    return None if wrong is None else f"{wrong}\n{text}\n{op_text(partitioned)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    graphs, wrong = Graphs(op_classes()), 0
    for seed in range(args.seed, args.seed + args.cases):
        try:
            text = check(graphs, seed)
        except Exception as e:
            text = f"{type(e).__name__}: {e}"
        if text is not None:
            wrong += 1
            print(f"seed {seed}: {text}")
    print(f"{args.cases} graphs, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
