"""What kernels say about working in place (`TensorOp.local_parts`, `in_place_pairs`) holds:
part i of a result does not change with what is outside of part i of the operand, and a launch whose
result is put over the operand gives the same numbers, also when its calls were prepared for that
memory. For every op class, and for fused ops."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from each_op import EACH_OP
from random_builder import Builder, Unsuitable
from random_graphs import Graphs, op_classes
from random_ops import make

from ge.dialects.fused_op import FusedOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.boxes import stretches
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import is_dynamic
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.device.interpreter import KernelCode
from ge.runtime.numbers.plan import Scratch

IN_PLACE = {
    "graph.add", "graph.relu", "graph.softmax", "graph.layer_norm", "graph.group_norm",
    "graph.rotary_embedding", "graph.scatter_elements", "graph.attention", "graph.cumulative",
}  # fmt: skip
"""Some of the ops that have to work in place for some operands."""

NEVER = {"graph.transpose", "graph.matmul", "graph.conv", "graph.max_pool", "graph.gather"}
"""Some that must not."""

SEEDS = max(2, settings().max_examples // 20)


def random_array(rng: np.random.Generator, t: Attribute) -> Array:
    element, shape = data_type(t)
    dtype = dtype_of(element)
    if dtype.kind in "biu":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    return np.asarray(rng.standard_normal(shape) * 2, dtype)


def kernels(module: ModuleOp, fusion: str) -> list[KernelOp]:
    """The static kernels that a module is lowered to."""
    module = module.clone()  # without what was made on the way, which uses values of it
    lower(module, Options(fusion=fusion, verify=False), until="tasks")
    found = [op for op in module.ops if isinstance(op, KernelOp)]
    return [k for k in found if not any(map(is_dynamic, (*k.input_types, *k.output_types)))]


def same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def check(kernel: KernelOp, seed: int) -> int:
    """Check all that a kernel says about itself; how many statements that were."""
    rng = np.random.default_rng(seed)
    code = KernelCode(kernel, {})
    inputs = [random_array(rng, t) for t in kernel.input_types]
    nowhere: list[Array | None] = [None] * len(kernel.output_types)
    with np.errstate(all="ignore"):
        want = [y.copy() for y in code.run([x.copy() for x in inputs], nowhere)]
        for result, operand in kernel.in_place_pairs():
            copies = [x.copy() for x in inputs]
            outs: list[Array | None] = [np.empty_like(y) for y in want]
            memory = copies[operand].reshape(-1).view(want[result].dtype)
            outs[result] = memory.reshape(want[result].shape)
            got = code.run(copies, outs)
            assert all(map(same, got, want)), f"result {result} over operand {operand}"
            assert same(copies[operand], want[result])
            check_bound(code, copies, outs, inputs, want)
            check_parts(kernel, code, inputs, operand, want, rng)
    return len(kernel.in_place_pairs())


def check_bound(
    code: KernelCode,
    memory: list[Array],
    outs: list[Array | None],
    inputs: list[Array],
    want: list[Array],
) -> None:
    """Calls that are prepared for some memory give the same each time."""
    places = [y.copy() if out is None else out for y, out in zip(want, outs, strict=True)]
    bound = code.bind(memory, places, Scratch())
    for _ in range(2 if bound is not None else 0):
        for place, x in zip(memory, inputs, strict=True):
            np.copyto(place, x)
        assert bound is not None
        bound()
        assert all(map(same, places, want))


def check_parts(
    kernel: KernelOp,
    code: KernelCode,
    inputs: list[Array],
    operand: int,
    want: list[Array],
    rng: np.random.Generator,
) -> None:
    """What is outside of a part of an operand has no influence on that part of the results."""
    op: Any = kernel.main
    parts = op.local_parts(list(op.operands).index(kernel.body.block.args[operand]))
    assert parts is not None
    chosen = int(rng.integers(parts))
    changed = [x.copy() for x in inputs]
    rows = changed[operand].reshape(parts, -1)
    rows[np.arange(parts) != chosen] = random_array(rng, kernel.input_types[operand]).reshape(
        parts, -1
    )[np.arange(parts) != chosen]
    got = code.run(changed, [None] * len(want))
    allowed = {r for r, _ in kernel.in_place_pairs() if want[r].size % parts == 0}
    for r, (a, b) in enumerate(zip(got, want, strict=True)):
        if r in allowed:
            a, b = (y.reshape(parts, -1)[chosen] for y in (a, b))
            assert same(a, b), f"result {r}: part {chosen} of {parts} depends on other parts"


@pytest.mark.parametrize("op", EACH_OP)
def test_every_op(op: type[TensorOp]) -> None:
    found = 0
    for seed in range(3 * SEEDS):
        if seed >= SEEDS and (found or op.name not in IN_PLACE):
            break
        try:
            b = Builder(seed)
            module = b.module(b.add(make(b, op)))
            for kernel in kernels(module, "off"):
                found += check(kernel, seed)
        except (Unsuitable, GeError):
            continue
    assert found or op.name not in IN_PLACE
    assert not found or op.name not in NEVER


def test_fused_ops() -> None:
    """Of random graphs, in the mode that fuses most."""
    found = 0
    for seed in range(max(13, settings().max_examples // 3)):
        module = Graphs(op_classes()).make(seed)
        try:
            made = [] if module is None else kernels(module, "aggressive")
        except GeError:
            continue
        for kernel in made:
            if isinstance(kernel.main, FusedOp):
                try:
                    found += check(kernel, seed)
                except GeError:  # the kernel refuses random operands
                    continue
    assert found > 10


STRETCHES = [  # an op, its operand, in how many stretches both lie, and whether it works in place
    ("graph.add %a, %b : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>", 1, 4, 4),
    ("graph.add %a, %b : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>", 1, 1, None),
    ("graph.matmul %a, %b : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>", 0, 6, None),
    ("graph.matmul %a, %b : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>", 1, 1, None),
    ("graph.rotary_embedding %a, %b, %c : (tensor<3x5x8xf32>, tensor<5x4xf32>, tensor<5x4xf32>)"
     " -> tensor<3x5x8xf32>", 0, 15, 15),
    ("graph.batch_norm %a, %b, %c, %d, %e : (tensor<1x5x1xf32>, tensor<5xf32>, tensor<5xf32>, "
     "tensor<5xf32>, tensor<5xf32>) -> tensor<1x5x1xf32>", 1, 5, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "operand", "count", "in_place"), STRETCHES)
def test_boxes_say_which_stretches_of_memory_belong_together(
    text: str, operand: int, count: int, in_place: int | None
) -> None:
    """Kernels that read an element again after they wrote there do not work in place."""
    types = text[text.index(": (") + 3 : text.index(") ->")].split(", ")
    args = ", ".join(f"%{name}: {t}" for name, t in zip("abcde", types, strict=False))
    result = text[text.index("->") + 3 :]
    body = f"%r = {text}\n  func.return %r : {result}"
    module = parse_module(
        context(), SourceText("k.mlir", f"func.func @main({args}) -> {result} {{\n  {body}\n}}")
    )
    (op,) = (op for op in module.walk() if isinstance(op, TensorOp))
    assert (stretches(op, operand), op.local_parts(operand)) == (count, in_place)


@pytest.mark.parametrize(("first", "in_place"), [("", 12), ("query_tokens_first true ", None)])
def test_attention_takes_the_place_of_a_query_in_the_same_order(
    first: str, in_place: int | None
) -> None:
    """Rows of another order would be overwritten before they are read."""
    t = "tensor<2x3x2x8xf32>" if not first else "tensor<2x2x3x8xf32>"
    k, result = "tensor<2x3x4x8xf32>", "tensor<2x3x2x8xf32>"
    text = (
        f"func.func @main(%q: {t}, %k: {k}, %v: {k}) -> {result} {{\n"
        f"  %r = graph.attention %q, %k, %v {first}: ({t}, {k}, {k}) -> {result}\n"
        f"  func.return %r : {result}\n}}"
    )
    module = parse_module(context(), SourceText("k.mlir", text))
    (op,) = (op for op in module.walk() if isinstance(op, TensorOp))
    assert op.local_parts(0) == in_place
