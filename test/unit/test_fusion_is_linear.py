"""The search for launches looks at each op a number of times that does not grow with the program:
counted in ops of launches that the library is asked about, for shapes of programs that invite a
quadratic search."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from ge.dialects.fused_op import Body, FusedOp
from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.elementwise import AddOp, ExpOp, NegOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import RmsNormOp
from ge.dialects.graph.slicing import ConcatOp, SplitOp
from ge.dialects.support.boxes import Access
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import tensor
from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import dense
from ge.runtime.library.asking import Answer
from ge.transforms.fusion import merging, sending
from ge.transforms.fusion.fuse_linear import FuseLinearPass
from ge.transforms.fusion.fuse_norm import FuseNormPass
from ge.transforms.fusion.fuse_region import FuseRegionPass
from ge.transforms.fusion.merging import MOST_OPS
from ge.transforms.fusion.regions import MOST_OPERANDS

SHAPE = (64, 256)
Build = Callable[[Block, int], list[SSAValue]]


def add(block: Block, op: TensorOp) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def chain(block: Block, size: int) -> list[SSAValue]:
    value: SSAValue = block.args[0]
    for i in range(size):
        value = add(block, NegOp.of(value) if i % 2 else AddOp.of(value, block.args[1]))
    return [value]


def fan(block: Block, size: int) -> list[SSAValue]:
    """One value with many users, and their sum."""
    one = add(block, NegOp.of(block.args[0]))
    users = [add(block, ExpOp.of(one)) for _ in range(size // 2)]
    total = users[0]
    for user in users[1:]:
        total = add(block, AddOp.of(total, user))
    return [total]


def siblings(block: Block, size: int) -> list[SSAValue]:
    return [add(block, ExpOp.of(block.args[0])) for _ in range(size)]


def products(block: Block, size: int) -> list[SSAValue]:
    """Products of one input, and an op behind each."""
    import numpy as np

    results: list[SSAValue] = []
    for i in range(size // 2):
        weight = ConstantOp.make(dense(np.full((256, 4), i, np.float32)), tensor((256, 4), f32))
        product = MatmulOp.of(block.args[0], add(block, weight))
        results.append(add(block, ExpOp.of(add(block, product))))
    return results


def behind_product(block: Block, size: int) -> list[SSAValue]:
    """A chain, and many users, of one product."""
    weight = block.args[2]
    product = add(block, MatmulOp.of(block.args[0], weight))
    value, results = product, list[SSAValue]()
    for _ in range(size // 2):
        value = add(block, AddOp.of(value, block.args[1]))
        results.append(add(block, ExpOp.of(product)))
    return [value, *results]


def norms(block: Block, size: int) -> list[SSAValue]:
    """Norms of one value, and one behind another."""
    value, results = block.args[0], list[SSAValue]()
    for _ in range(size // 3):
        results.append(add(block, RmsNormOp.of(block.args[1], block.args[3])))
        value = add(block, AddOp.of(value, block.args[1]))
        value = add(block, RmsNormOp.of(value, block.args[3]))
    return [value, *results]


def joined(block: Block, size: int) -> list[SSAValue]:
    """A concat of many values."""
    parts = [add(block, NegOp.of(add(block, ExpOp.of(block.args[0])))) for _ in range(size)]
    return [add(block, ConcatOp.of(parts, axis=0))]


def parted(block: Block, size: int) -> list[SSAValue]:
    """A split into many columns, and the last ones."""
    sizes = [1] * (size - 1) + [SHAPE[1] - size + 1]
    split = SplitOp.of(block.args[0], None, axis=1, sizes=sizes, results=size)
    block.add_op(split)
    return [add(block, NegOp.of(part)) for part in split.results]


TARGET = "910_merged"  # on which all of these fuse


def weighed(build: Build, size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[FusedOp]]:
    """How many ops the launches had that were asked about, and the fused ops. Each launch has a
    program, whose time is made up."""
    block = Block(arg_types=[tensor(s, f32) for s in (SHAPE, SHAPE, (256, 256), (256,))])
    results = build(block, size)
    block.add_op(ReturnOp(*results))
    types = [v.type for v in block.args], [v.type for v in results]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    seen = 0

    def us(body: TensorOp | Body, target: Target) -> float:
        return target.launch_us + 0.1 * size_of(body)

    def size_of(body: TensorOp | Body) -> int:
        nonlocal seen
        seen += (size := len(Body.of(body).ops))
        return size

    def has_program(body: TensorOp | Body, _: Target) -> Answer:
        size_of(body)
        return Answer()

    monkeypatch.setattr(merging, "asked", has_program)
    monkeypatch.setattr(merging, "refused", lambda *asked: has_program(*asked).refusal)
    monkeypatch.setattr(merging, "answer_us", lambda body, _, target: us(body, target))
    for asks in ("core_us", "launch_us"):
        monkeypatch.setattr(merging, asks, us)
    for fusion in (FuseLinearPass(TARGET), FuseNormPass(TARGET), FuseRegionPass(TARGET)):
        fusion.apply(Context(), module)
    return seen, [op for op in module.walk() if isinstance(op, FusedOp)]


@pytest.mark.parametrize("build", [chain, fan, siblings, products, behind_product, norms])
def test_three_times_the_ops_take_three_times_the_steps(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, _ = weighed(build, 50, monkeypatch)
    many, fused = weighed(build, 150, monkeypatch)
    assert 0 < many < 4 * few
    assert all(len(op.members) <= MOST_OPS for op in fused)


@pytest.mark.parametrize("size", [4, MOST_OPERANDS + 1])
@pytest.mark.parametrize("build", [joined, parted])
def test_an_op_of_many_values_stays_alone(
    build: Build, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, fused = weighed(build, size, monkeypatch)
    members = [m for op in fused for m in op.members]
    assert any(isinstance(m, ConcatOp | SplitOp) for m in members) == (size <= MOST_OPERANDS)


def test_a_long_chain_becomes_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    _, fused = weighed(chain, 4 * MOST_OPS, monkeypatch)
    assert sum(len(op.members) for op in fused) == 4 * MOST_OPS
    assert len(fused) <= 5


def looked_at(layers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many ops the search for what is sent of products looks at, of layers of two products of
    one input, added to it: all of them follow from the first product."""
    x, w = "tensor<512x512xf16>", "tensor<512x512xf16>"
    lines = [f'%{name} = graph.constant #graph.weight<"{name}"> : {w}' for name in "vw"]
    for i in range(layers):
        lines += [
            f"%b{i} = graph.matmul %x{i}, %w : ({x}, {w}) -> {x}",
            f"%a{i} = graph.matmul %x{i}, %v : ({x}, {w}) -> {x}",
            f'%s{i} = graph.all_reduce sum %a{i} over <"tp"=4> : ({x}) -> {x}',
            f"%t{i} = graph.add %s{i}, %b{i} : ({x}, {x}) -> {x}",
            f"%x{i + 1} = graph.add %x{i}, %t{i} : ({x}, {x}) -> {x}",
        ]
    body = "\n".join(lines)
    text = f'graph.mesh @mesh ["tp"=4]\nfunc.func @main(%x0: {x}) -> {x} {{\n{body}\n'
    module = parse_module(context(), SourceText("m.mlir", f"{text}return %x{layers} : {x}\n}}"))
    seen, access = list[TensorOp](), sending.access

    def counted(op: TensorOp) -> Access:
        seen.append(op)
        return access(op)

    monkeypatch.setattr(sending, "access", counted)
    FuseLinearPass().apply(Context(), module)
    FuseRegionPass().apply(Context(), module)
    return len(seen)


def test_what_is_sent_of_siblings_is_looked_for_near_them(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (looked_at(layers, monkeypatch) for layers in (20, 60))
    assert 0 < many < 4 * few
