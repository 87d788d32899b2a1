"""A body for each gear: the sizes for which a dynamic program is compiled, one by one.

    func.func @main(%x: tensor<?x64xf32> {graph.dims = ["batch", ""]}) -> tensor<?x32xf32> {
      %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
      %0 = graph.matmul %x, %w : ... -> tensor<?x32xf32>
      func.return %0
    }
becomes, for a batch of 1 or 8,
    func.func @main(%x: tensor<?x64xf32> ...) -> tensor<?x32xf32> {
      %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
      %gear = graph.map_index %x axes [0] table [array<i64: 1>, array<i64: 8>] : ...
      %1 = graph.case %gear : (tensor<i64>) -> tensor<?x32xf32> {
        %2 = graph.assume_shape %x shape [1, 64] : (tensor<?x64xf32>) -> tensor<1x64xf32>
        %3 = graph.matmul %2, %w : ... -> tensor<1x32xf32>
        graph.yield %3
      } {
        (the same for 8)
      }
      func.return %1
    }

It runs on the fused level, so that all that is decided on the graph is decided once. In a gear
types are inferred again, and what follows from sizes alone (shape arithmetic) is computed. Weights
stay outside, and so does what comes out equal in all gears. `graph.padding` says which dimensions
of inputs may be padded (see `padding.py`). A program without gears, or without dynamic inputs, is
not changed.

In the body of a gear

    %1 = graph.shape_of %0 : (tensor<8x64xf32>) -> tensor<2xi64>
    %2 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<?x64xf32>
    %3 = graph.reshape %2 shape %1 : (tensor<?x64xf32>, tensor<2xi64>) -> tensor<?x?xf32>
becomes
    %2 = graph.relu %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import graph as g
from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.graph.stated import PADDING, name_of
from ge.dialects.support.editing import detach, erase, replace_uses
from ge.dialects.support.operation import (
    cloned,
    put_before,
    put_last,
)
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    shape_of,
)
from ge.transforms.graph.branches import hoist_common_ops, use_equal_values
from ge.transforms.graph.control_flow import (
    insert_before,
    is_pure,
    keep_results,
    nested_blocks,
    replace_op,
)
from ge.transforms.graph.fold_constants import FROM_SIZES, fold_block, fold_op
from ge.transforms.graph.infer_shapes import infer_op, refresh_signature
from ge.transforms.rewriting.passes import MainPass
from ge.transforms.shapes.gears import Gears, Request, gears_of
from ge.transforms.shapes.padding import paddings
from ge.transforms.shapes.split_oversized import gathered


def settle_fused(op: FusedOp, limit: int) -> None:
    """A fused op on operands of other types, with its body inferred anew."""
    block = op.parent
    assert block is not None
    if isinstance(op, CustomOp):  # a kernel of the user's, which has its operands as they are
        new = op.on(op.inputs)
        block.insert_op_before(new, op)
        replace_op(op, new.results)
        return
    left: list[TensorOp] = []
    for arg, value in zip(op.block.args, op.inputs, strict=True):
        replace_uses(arg, value)
    for member in op.members:
        fold_op(member, limit)
    for member in reversed(op.members):
        if not isinstance(member, g.ConstantOp) and all(
            r.first_use is None for r in member.results
        ):
            erase(member)
    results = list(op.yielded)
    for member in op.members:
        detach(member, op.block)
        put_before(block, member, op)
        if not isinstance(member, g.ConstantOp):
            left.append(member)
    if len(left) > 1:
        computed = [v for v in dict.fromkeys(results) if v.owner in left]
        new = gathered(type(op), left, computed, op.properties)
        insert_before(op, new)
        outside = dict(zip(computed, new.results, strict=True))
        results = [outside.get(v, v) for v in results]
    replace_op(op, results)


def sweep(block: Block) -> None:
    """Erase ops whose results have no uses."""
    for op in reversed(list(block.ops)):
        if op.results and is_pure(type(op)) and all(r.first_use is None for r in op.results):
            erase(op)
            continue
        for inner in nested_blocks(op):
            sweep(inner)


# ---- the gears -------------------------------------------------------------------------------


def assumed(block: Block, shapes: Mapping[SSAValue, list[int]]) -> dict[SSAValue, SSAValue]:
    """Begin the block of a gear; returns for each input its value of this shape in the block."""
    values: dict[SSAValue, SSAValue] = {}
    for arg, shape in shapes.items():
        op = g.AssumeShapeOp.at(arg, shape)
        op.result.name_hint = arg.name_hint
        block.add_op(op)
        values[arg] = op.result
    return values


def copy_of(func: FuncOp, outside: set[Operation], shapes: Mapping[SSAValue, list[int]]) -> Region:
    """A clone of the body for inputs of these shapes."""
    block = Block()
    values = assumed(block, shapes)
    for op in func.body.block.ops:
        if op in outside:
            continue
        if isinstance(op, ReturnOp):
            block.add_op(g.YieldOp(*(values.get(v, v) for v in op.operands)))
        else:
            put_last(block, cloned(op, values))
    return Region(block)


def take(func: FuncOp, outside: set[Operation], shapes: Mapping[SSAValue, list[int]]) -> Region:
    """The body itself, without its end, for inputs of these shapes."""
    block, body = Block(), func.body.block
    for arg, value in assumed(block, shapes).items():
        arg.replace_uses_with_if(value, lambda use: not isinstance(use.operation, g.AssumeShapeOp))
    *ops, returned = body.ops
    for op in ops:
        if op not in outside:
            op.detach()
            block.add_op(op)
    block.add_op(g.YieldOp(*returned.operands))
    return Region(block)


def padding_attribute(func: FuncOp, gears: Gears) -> DictionaryAttr:
    names = [
        (None if func.res_attrs is None else name_of(func.res_attrs.data[i].data)) or f"result{i}"
        for i in range(len(func.function_type.outputs))
    ]
    entries: dict[str, Attribute] = {}
    for dim, cuts in paddings(func, gears).items():
        if isinstance(cuts, str):
            entries[dim] = StringAttr(cuts)
            continue
        axes: dict[str, list[int]] = {}
        for i, axis in cuts:
            axes.setdefault(names[i], []).append(axis)
        entries[dim] = DictionaryAttr(
            {n: DenseArrayBase.from_list(i64, of_output) for n, of_output in axes.items()}
        )
    return DictionaryAttr(entries)


@contextmanager
def named(gears: Gears, row: Sequence[int]) -> Generator[None]:
    """Report shape conflicts with the sizes of their gear."""
    try:
        yield
    except VerifyException as error:
        sizes = ", ".join(f"{n}={size}" for n, size in zip(gears.names, row, strict=True))
        error.args = (f"{error}, in the gear {sizes}",)
        raise


def expand(func: FuncOp, gears: Gears, fallback: bool = False) -> None:
    """Put the body into a case with a branch for each gear, and one for all other sizes."""
    body, args = func.body.block, func.body.block.args
    returned = body.last_op
    assert isinstance(returned, ReturnOp)
    outside: set[Operation] = {op for op in body.ops if isinstance(op, g.ConstantOp)}
    func.attributes[PADDING] = padding_attribute(func, gears)
    types = [v.type for v in returned.operands]
    sized: list[dict[SSAValue, list[int]]] = []
    for row in gears.rows:
        sized.append({})
        for (i, axis), size in gears.sizes(row).items():
            sized[-1].setdefault(args[i], list(shape_of(args[i])))[axis] = size
    if fallback:
        dynamic = dict.fromkeys(args[i] for where in gears.places.values() for i, _ in where)
        sized.append({arg: list(shape_of(arg)) for arg in dynamic})
    regions = [copy_of(func, outside, shapes) for shapes in sized[:-1]]
    regions.append(take(func, outside, sized[-1]))
    places = [where[0] for where in gears.places.values()]
    index = g.MapIndexOp.make([args[i] for i, _ in places], [a for _, a in places], gears.rows)
    case = g.CaseOp(operands=[index.result], result_types=[types], regions=[regions])
    for op in (index, case):
        op.location = func.location
        body.insert_op_before(op, returned)
    returned.operands = list(case.results)
    for row, region in zip(gears.rows, regions, strict=False):
        with named(gears, row):
            fold_block(region.block, FROM_SIZES, settle_fused)
    hoist_common_ops(case)
    infer_op(case)
    use_equal_values(case)
    case = keep_results(case, {r.index for r in case.results if r.first_use is not None})
    for region in case.regions:
        sweep(region.block)
    sweep(body)
    refresh_signature(func)


@dataclass(frozen=True)
class ExpandGearsPass(MainPass):
    """Give @main a body for each gear: for some sizes of its dynamic inputs."""

    name = "expand-gears"

    batch: str = ""
    """Sizes of the first dimension of inputs: `1,2,4`."""
    image_size: str = ""
    """Heights and widths of images: `224,224;512,512`."""
    dims: str = ""
    """Sizes of all other dynamic dimensions: `1,256;1,512`."""
    fallback: bool = False
    """Add a body for all other sizes, whose values the device allocates."""

    def run(self, main: FuncOp) -> None:
        request = Request(self.batch, self.image_size, self.dims)
        if request:
            expand(main, gears_of(main, request), self.fallback)
