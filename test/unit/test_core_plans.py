"""Plans of the memories of a core: random kernels' plans are proved, and each fault is found."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.fused_op import Body
from ge.dialects.graph import elementwise
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import LayerNormOp, SoftmaxOp
from ge.dialects.graph.quantization import DynamicQuantizeOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import ConcatOp, SliceOp
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import tensor
from ge.dialects.targets.target import Target
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import FUSION_MODES, Options
from ge.lowering.text.reading import Source, parse_module
from ge.runtime.check.core_needs import broadcast_dims, distinct, distinct_below
from ge.runtime.check.cores import check_core_plans, prove_core_plans
from ge.runtime.library.costs.vector import VectorKernel
from ge.transforms.fusion.regions import LEAST_TILE

SMALL = """
ub_bytes = 16384
l1_bytes = 65536
l0a_bytes = 8192
l0b_bytes = 8192
l0c_bytes = 16384
"""
"""A core whose memories are soon full."""


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A target file like 910_merged, but for the memories."""
    preset = Path(str(tmp_path_factory.getbasetemp())) / "small.toml"
    import ge.dialects.targets

    (folder,) = ge.dialects.targets.__path__
    keys = {line.split(" = ")[0] for line in SMALL.split("\n") if line}
    lines = (Path(folder) / "910_merged.toml").read_text("utf-8").split("\n")
    kept = [line for line in lines if line.split(" = ")[0] not in keys]
    preset.write_text(SMALL + "\n".join(kept).replace('"910_merged"', '"small"'), "utf-8")
    return str(preset)


# ---- random kernels --------------------------------------------------------------------------


@dataclass
class Graph:
    """Builds @main from random decisions; all values have `rows` x `length` elements or fewer."""

    rows: int
    length: int
    element: Attribute
    entry: Block = field(default_factory=Block)
    values: list[SSAValue] = field(default_factory=list[SSAValue])

    def argument(self, *shape: int) -> SSAValue:
        return self.entry.insert_arg(tensor(shape, self.element), len(self.entry.args))

    def add(self, op: TensorOp) -> SSAValue:
        self.entry.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def pick(self, data: st.DataObject) -> SSAValue:
        return data.draw(st.sampled_from(self.values[-3:]))

    def grow(self, data: st.DataObject) -> None:
        """Add an op on a value of the full shape, which leaves one of that shape."""
        x, rows, length = self.pick(data), self.rows, self.length
        match data.draw(st.sampled_from(KINDS)):
            case "exp":
                self.add(elementwise.ExpOp.of(x))
            case "residual":
                self.add(elementwise.AddOp.of(x, self.pick(data)))
            case "other":
                self.add(elementwise.MulOp.of(x, self.argument(rows, length)))
            case "bias":
                self.add(elementwise.AddOp.of(x, self.argument(length)))
            case "scale":
                self.add(elementwise.MulOp.of(x, self.argument(rows, 1)))
            case "norm":
                scale = self.argument(length)
                self.add(LayerNormOp.of(x, scale, scale))
            case "softmax":
                self.add(SoftmaxOp.of(x, axis=1))
            case "centre":
                axis = data.draw(st.sampled_from((0, 1)))
                mean = ReduceOp.of(x, None, kind="mean", axes=(axis,))
                self.entry.add_op(mean)
                self.add(elementwise.SubOp.of(x, mean.result))
            case "turn":
                one = ReshapeOp.of(x, None, shape=(length, rows))
                two = TransposeOp.of(one.result, permutation=(1, 0))
                self.entry.add_op(one)
                self.add(two)
            case "rotate":
                at = data.draw(st.integers(0, length))
                parts = [
                    SliceOp.of(x, None, None, None, None, starts=(a,), ends=(b,), axes=(1,))
                    for a, b in ((at, length), (0, at))
                ]
                self.entry.add_ops(parts)
                self.add(ConcatOp.of([p.result for p in parts], axis=1))
            case "look up":
                table = self.argument(1000, length)
                places = GatherOp.of(table, self.entry.insert_arg(tensor((rows,), i64), 0))
                self.entry.add_op(places)
                self.add(elementwise.AddOp.of(x, places.result))
            case _:
                self.add(MatmulOp.of(x, self.argument(length, length)))

    def module(self, data: st.DataObject) -> ModuleOp:
        """@main, with some values as results besides the last one."""
        results = [self.values[-1]]
        if data.draw(st.booleans()):
            results.append(self.pick(data))
        results = list(dict.fromkeys(results))
        self.entry.add_op(ReturnOp(*results))
        types = [v.type for v in self.entry.args], [v.type for v in results]
        return ModuleOp([FuncOp("main", types, Region(self.entry))])


KINDS = (
    "exp", "residual", "other", "bias", "scale", "norm", "softmax", "centre", "turn", "rotate",
    "look up", "product",
)  # fmt: skip


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.ops if isinstance(op, KernelOp) and op.tiling is not None]


EXAMPLES = settings().max_examples // 4  # each is a compile
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([64, 77, 512, 1000, 4096]))


def random_module(
    rows: int, length: int, element: Attribute, data: st.DataObject, options: Options
) -> ModuleOp:
    """The program of a random graph."""
    graph = Graph(rows, length, element)
    graph.values.append(graph.argument(rows, length))
    for _ in range(data.draw(st.integers(1, 8))):
        graph.grow(data)
    module = graph.module(data)
    lower(module, options)
    return module


@settings(max_examples=EXAMPLES)
@given(SIZES, SIZES, st.sampled_from([f16, f32]), st.sampled_from(FUSION_MODES), st.data())
def test_plans_of_random_kernels_are_proved(
    rows: int, length: int, element: Attribute, fusion: str, data: st.DataObject
) -> None:
    module = random_module(rows, length, element, data, Options(fusion=fusion))
    assert [str(p) for p in check_core_plans(module)] == []


@settings(max_examples=EXAMPLES)
@given(rows=SIZES, length=SIZES, element=st.sampled_from([f16, f32]), data=st.data())
def test_tiles_shrink_until_they_fit(
    rows: int, length: int, element: Attribute, small: str, data: st.DataObject
) -> None:
    """On a core with little memory no kernel has a plan that does not fit."""
    module = random_module(rows, length, element, data, Options(target=small))
    assert [str(p) for p in check_core_plans(module)] == []


@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_limits_may_have_more_dimensions_than_what_they_limit(shape: tuple[int, ...]) -> None:
    block = Block(arg_types=[tensor(shape, f32), tensor((), f32), tensor((1,), f32)])
    block.add_op(op := elementwise.ClampOp.of(*block.args))
    block.add_op(ReturnOp(op.result))
    types = (list(block.arg_types), [op.result.type])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    lower(module, Options())
    assert not check_core_plans(module)


@pytest.mark.parametrize("target", Target.presets())
def test_fusion_and_plan_agree_on_what_fits(target: str) -> None:
    """The working set by which fusion refuses a region is that of the plan."""
    machine = Target.load(target)
    block = Block(arg_types=[tensor((4096, 512), f32)] * 40)
    ops: list[TensorOp] = [elementwise.AddOp.of(block.args[0], block.args[1])]
    for value in block.args[2:]:
        ops.append(elementwise.MulOp.of(ops[-1].results[0], value))
    body = Body(ops, block.args, ops[-1].results)
    kernel = VectorKernel(body, machine)
    tile, align = kernel.shape.most, machine.core_alignment
    # 40 operands and the result twice, and one value that is written over again and again.
    each = -(-tile * 4 // align) * align
    assert kernel.on_core(tile, 2) == (2 * 41 + 1) * each <= machine.ub_bytes
    assert kernel.on_core(LEAST_TILE, 2) == (2 * 41 + 1) * 4 * LEAST_TILE


@pytest.mark.parametrize("size", [pytest.param(16, marks=pytest.mark.soak), 256])
def test_a_product_takes_no_more_than_fits(size: int, small: str) -> None:
    """Residuals join the launch of a product as long as a small tile of all of them fits."""
    graph = Graph(size, size, f16)
    graph.values.append(graph.argument(size, size))
    graph.add(MatmulOp.of(graph.values[0], graph.argument(size, size)))
    for _ in range(50):
        graph.add(elementwise.AddOp.of(graph.values[-1], graph.argument(size, size)))
    graph.entry.add_op(ReturnOp(graph.values[-1]))
    types = [v.type for v in graph.entry.args], [graph.values[-1].type]
    module = ModuleOp([FuncOp("main", types, Region(graph.entry))])
    lower(module, Options(target=small))
    assert [str(p) for p in check_core_plans(module)] == []
    assert 1 < sum(isinstance(op, KernelOp) for op in module.ops) < 12


CONCATENATED = """
func.func @main(%x: tensor<1x144x{size}x{size}xi8>, %w: tensor<{own}x144x3x3xi8>,
                %s: tensor<{own}xf32>, %y: tensor<1x{other}x{size}x{size}xf32>)
    -> (tensor<1x{all}x{size}x{size}xf32>, tensor<1x{all}x{size}x{size}xi8>) {{
  %c, %q = fused_op.conv(%x, %w, %s, %y)
      : (tensor<1x144x{size}x{size}xi8>, tensor<{own}x144x3x3xi8>, tensor<{own}xf32>,
         tensor<1x{other}x{size}x{size}xf32>)
      -> (tensor<1x{all}x{size}x{size}xf32>, tensor<1x{all}x{size}x{size}xi8>) {{
  ^bb0(%a: tensor<1x144x{size}x{size}xi8>, %b: tensor<{own}x144x3x3xi8>, %d: tensor<{own}xf32>,
       %e: tensor<1x{other}x{size}x{size}xf32>):
    %g = graph.constant dense<0.5> : tensor<f32>
    %z = graph.constant dense<-128> : tensor<i8>
    %0 = graph.conv %a, %b pads [1, 1, 1, 1] : (tensor<1x144x{size}x{size}xi8>,
        tensor<{own}x144x3x3xi8>) -> tensor<1x{own}x{size}x{size}xi32>
    %1 = graph.dequantize %0, %d {{axis = 1 : i64}}
        : (tensor<1x{own}x{size}x{size}xi32>, tensor<{own}xf32>)
        -> tensor<1x{own}x{size}x{size}xf32>
    %2 = graph.concat %1, %e axis 1 : (tensor<1x{own}x{size}x{size}xf32>,
        tensor<1x{other}x{size}x{size}xf32>) -> tensor<1x{all}x{size}x{size}xf32>
    %3 = graph.quantize %2, %g, %z to i8 : (tensor<1x{all}x{size}x{size}xf32>, tensor<f32>,
        tensor<i8>) -> tensor<1x{all}x{size}x{size}xi8>
    fused_op.yield %2, %3 : tensor<1x{all}x{size}x{size}xf32>, tensor<1x{all}x{size}x{size}xi8>
  }}
  func.return %c, %q : tensor<1x{all}x{size}x{size}xf32>, tensor<1x{all}x{size}x{size}xi8>
}}
"""


@given(st.integers(2, 20), st.integers(1, 40), st.sampled_from([1, 4, 7]))
@example(18, 30, 4)
def test_shares_of_shares_are_not_rounded_up(own: int, other: int, size: int) -> None:
    """A tile of what is concatenated has a part of the matmul's result, of which a part is a
    scale for each channel."""
    text = CONCATENATED.format(own=16 * own, other=8 * other, all=16 * own + 8 * other, size=size)
    module = parse_module(context(), Source("test", text))
    lower(module, Options())
    assert [str(p) for p in check_core_plans(module)] == []


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_what_is_below_a_tile_is_counted(large: list[int], data: st.DataObject) -> None:
    small = [data.draw(st.sampled_from((1, d))) for d in large]
    dims, total = broadcast_dims(tuple(small), tuple(large)), math.prod(large)
    index = np.broadcast_to(np.arange(math.prod(small)).reshape(small), large).reshape(-1)
    first = data.draw(st.integers(0, total - 1))
    last = data.draw(st.integers(first, total - 1))
    assert distinct(dims, first, last) == len(set(index[first : last + 1]))
    tile = data.draw(st.integers(1, total))
    tiles = [set(index[i : i + tile]) for i in range(0, total - tile + 1, tile)]
    assert len(tiles[0]) <= distinct_below(dims, tile) <= max(map(len, tiles))


@pytest.mark.parametrize("rows", [8, 4096])
def test_what_may_need_any_element_is_one_block(rows: int) -> None:
    """A global minimum and maximum: blocks do not see each other's elements."""
    block = Block(arg_types=[tensor((rows, 1024), f32)])
    block.add_op(op := DynamicQuantizeOp.of(block.args[0]))
    block.add_op(ReturnOp(*op.results))
    types = (list(block.arg_types), [r.type for r in op.results])
    module = ModuleOp([FuncOp("main", types, Region(block))])
    lower(module, Options())
    (kernel,) = kernels(module)
    assert kernel.tiling is not None
    assert kernel.tiling.blocks.data == 1
    proof = prove_core_plans(module)
    assert (proof.problems, proof.plans, proof.streamed) == ([], 1, int(rows > 8))
    (tile,) = kernel.tiling.sizes
    assert (tile == rows * 1024) == (rows == 8)
    kernel.tiling = TilingAttr.of((min(tile, 512),), 16, kernel.tiling.buffers.data)
    assert "may need any element" in str(check_core_plans(module)[0])


# ---- faults --------------------------------------------------------------------------------------

KERNELS = """
npu_task.kernel @chain on vector tiling <[1824] blocks 24 buffers 2> core <ub [in0 7296 at [0, 7296], in1 1024 at [29184], op0 7296 at [30208] from 1 to 2, op1 7296 at [30208] from 2 to 3, op2 7296 at [14592, 21888]]> {
^bb0(%0: tensor<4096x256xf32>, %1: tensor<256xf32>):
  %2 = fused_op.region(%0, %1) : (tensor<4096x256xf32>, tensor<256xf32>) -> tensor<4096x256xf32> {
  ^bb1(%3: tensor<4096x256xf32>, %4: tensor<256xf32>):
    %5 = graph.add %3, %4 : (tensor<4096x256xf32>, tensor<256xf32>) -> tensor<4096x256xf32>
    %6 = graph.exp %5 : (tensor<4096x256xf32>) -> tensor<4096x256xf32>
    %7 = graph.mul %6, %3 : (tensor<4096x256xf32>, tensor<4096x256xf32>) -> tensor<4096x256xf32>
    fused_op.yield %7 : tensor<4096x256xf32>
  }
  npu_task.return %2 : tensor<4096x256xf32>
}
npu_task.kernel @product on cube tiling <[64, 96, 160] blocks 24 buffers 2> core <l1 [lhs 20480 at [61440, 81920], rhs 30720 at [0, 30720]], l0a [lhs 20480 at [0, 20480]], l0b [rhs 30720 at [0, 30720]], l0c [sum 24576 at [0]], ub [op0 6144 at [0, 6144], in2 192 at [24576, 24768], op1 3072 at [18432, 21504]]> {
^bb0(%0: tensor<256x512xf16>, %1: tensor<512x1024xf16>, %2: tensor<1024xf16>):
  %3 = fused_op.linear(%0, %1, %2) : (tensor<256x512xf16>, tensor<512x1024xf16>, tensor<1024xf16>) -> tensor<256x1024xf16> {
  ^bb1(%4: tensor<256x512xf16>, %5: tensor<512x1024xf16>, %6: tensor<1024xf16>):
    %7 = graph.matmul %4, %5 : (tensor<256x512xf16>, tensor<512x1024xf16>) -> tensor<256x1024xf16>
    %8 = graph.add %7, %6 : (tensor<256x1024xf16>, tensor<1024xf16>) -> tensor<256x1024xf16>
    fused_op.yield %8 : tensor<256x1024xf16>
  }
  npu_task.return %3 : tensor<256x1024xf16>
}
func.func @main() {
  func.return
}
"""  # noqa: E501

FAULTS = {
    "not aligned": ("in1 1024 at [29184]", "in1 1024 at [29190]", "29190 is no multiple of 32"),
    "beyond the memory": ("op2 7296 at [14592, 21888]", "op2 7296 at [14592, 196576]", "of 196608"),
    "overlap": ("in1 1024 at [29184]", "in1 1024 at [28672]", "op2 and in1 are in use together"),
    "copies overlap": ("in0 7296 at [0, 7296]", "in0 7296 at [0, 7264]", "copies of in0 share"),
    "one copy": ("in0 7296 at [0, 7296]", "in0 7296 at [0]", "in0 has no second copy"),
    "one copy of a result": ("op2 7296 at [14592, 21888]", "op2 7296 at [14592]", "no second copy"),
    "part of a bias": ("in1 1024 at [29184]", "in1 512 at [29184, 29696]", "needs 1024"),
    "part of a tile": ("op0 7296 at [30208]", "op0 7264 at [30208]", "op0 has 7264 bytes"),
    "missing": ("op0 7296 at [30208] from 1 to 2, ", "", "op0, which has no buffer"),
    "too short": ("op0 7296 at [30208] from 1 to 2", "op0 7296 at [40000] from 1 to 1", "step 2"),
    "too late": ("op1 7296 at [30208] from 2 to 3", "op1 7296 at [40000] from 3 to 3", "step 2"),
    "alive over another one": ("at [30208] from 1 to 2", "at [30208] from 1 to 3", "op0 and op1"),
    "taken over elsewhere": (
        "op1 7296 at [30208] from 2", "op1 7296 at [30240] from 2", "op0 and op1"
    ),
    "no such step": ("[30208] from 2 to 3", "[30208] from 2 to 9", "no steps 2 to 9"),
    "small operand": ("l0a [lhs 20480 at", "l0a [lhs 20448 at", "l0a: lhs has 20448"),
    "one operand in L1": ("lhs 20480 at [61440, 81920]", "lhs 20480 at [61440]", "not there 2"),
    "too large for L0": ("l0b [rhs 30720 at [0, 30720]]", "l0b [rhs 30720 at [0, 40960]]", "65536"),
    "small sum": ("l0c [sum 24576", "l0c [sum 12288", "l0c: sum has 12288 bytes"),
    "no sum": (", l0c [sum 24576 at [0]]", "", "l0c has no buffer sum"),
    "half of L0C's elements": ("ub [op0 6144 at [0, 6144]", "ub [op0 3072 at [0, 6144]", "6144"),
    "two of a name": ("in1 1024 at [29184]", "in1 1024 at [29184], in1 32 at [40000]", "one name"),
    "on the host": ("@chain on vector", "@chain on host", "shape arithmetic only"),
    "on DMA": ("@chain on vector", "@chain on dma", "runs no kernel"),
    "on the cube": ("@chain on vector", "@chain on cube", "there are none in fused_op.region"),
    "a product on vectors": ("@product on cube", "@product on vector", "run on the cube, not on"),
    "a product on the host": ("@product on cube", "@product on host", "run on the cube, not on"),
    "more blocks than cores": ("[1824] blocks 24", "[1824] blocks 100000", "the 48 vector cores"),
    "more blocks than tiles": ("[64, 96, 160] blocks 24", "[256, 512, 160] blocks 24", "2 tiles"),
    "no fractals": ("[64, 96, 160]", "[64, 96, 100]", "multiples of 16"),
    "a larger tile": ("<[1824] blocks", "<[3648] blocks", "in0 has 7296 bytes"),
    "two sizes": ("<[64, 96, 160] blocks", "<[64] blocks", "a tile of 1 sizes is not for the cube"),
    "a memory twice": ("l0b [rhs 30720 at [0, 30720]]", "l0b [rhs 30720 at [0, 30720]], l0b [rhs "
                       "30720 at [0, 30720]]", "l0b is stated twice"),
    "another memory": ("core <ub [in0", "core <l1 [in0", "in0, which has no buffer"),
    "loaded late": ("in1 1024 at [29184]", "in1 1024 at [29184] from 1 to 2", "first step loads"),
    "of nothing": ("in1 1024 at [29184]", "in1 1024 at [29184], in7 32 at [40000]", "no value of"),
    "part of the bias of a product": ("in2 192 at [24576, 24768]", "in2 32 at [24576, 24768]",
                                      "needs 192 of it"),
    "none": (" core <ub [in0", " unplanned <ub [in0", "no plan of the core's memories"),
}  # fmt: skip


def problems(text: str) -> list[str]:
    return [p.message for p in check_core_plans(parse_module(context(), Source("k.mlir", text)))]


def test_a_plan_that_holds() -> None:
    assert problems(KERNELS) == []


UNKNOWN_SHAPES = """
npu_task.kernel @distinct on host {
^bb0(%0: tensor<8xf32>):
  %1, %2, %3, %4 = graph.unique %0 : (tensor<8xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<8xi64>, tensor<?xi64>)
  npu_task.return %1 : tensor<?xf32>
}
npu_task.kernel @product on cube {
^bb0(%0: tensor<?x8xf32>, %1: tensor<8x4xf32>):
  %2 = graph.matmul %0, %1 : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  npu_task.return %2 : tensor<?x4xf32>
}
npu_task.kernel @sums on cube {
^bb0(%0: tensor<?x8xf32>, %1: tensor<8x4xf32>):
  %2 = graph.einsum "ij,jk->ik" %0, %1 : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  npu_task.return %2 : tensor<?x4xf32>
}
func.func @main() {
  func.return
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@distinct on host", "@distinct on cube", "there are none in graph.unique"),
        ("@product on cube", "@product on vector", "run on the cube, not on vector"),
        ("@product on cube", "@product on host", "run on the cube, not on host"),
    ],
)
def test_engines_of_unknown_shapes(old: str, new: str, message: str) -> None:
    assert problems(UNKNOWN_SHAPES) == []
    assert any(message in problem for problem in problems(UNKNOWN_SHAPES.replace(old, new)))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(fault: str) -> None:
    old, new, message = FAULTS[fault]
    assert KERNELS.count(old) == 1, fault
    if fault == "none":
        start = KERNELS.index(" core <ub [in0")
        text = KERNELS[:start] + KERNELS[KERNELS.index(" {", start) :]
    else:
        text = KERNELS.replace(old, new)
    found = problems(text)
    assert any(message in problem for problem in found), found


def test_a_tile_program_is_in_place_of_a_plan() -> None:
    """Blocks are still those of a core's: times are estimated from them."""
    start = KERNELS.index(" core <ub [in0")
    end = KERNELS.index(" {", start)
    text = f"{KERNELS[:start]} tiles @chain_tiles{KERNELS[end:]}"
    proof = prove_core_plans(parse_module(context(), Source("k.mlir", text)))
    assert (proof.problems, proof.plans, proof.programs) == ([], 1, 1)
    assert proof.summary == "on-core plans of 1 kernels, tile programs in place of 1"
    problem, *_ = problems(text.replace("[1824] blocks 24", "[1824] blocks 100000"))
    assert "the 48 vector cores" in problem
