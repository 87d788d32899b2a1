"""Work on weights is done once, at load: expressions of constants move to `@prepare`.

    %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
    %t = graph.transpose %w ...
    %y = graph.matmul %x, %t ...
becomes
    %t = graph.constant #graph.weight<"prepared.0"> : tensor<32x64xf32>
    %y = graph.matmul %x, %t ...
  and
    func.func private @prepare() -> (tensor<32x64xf32> {graph.name = "prepared.0"}) {
      %w = graph.constant #graph.weight<"w"> ...
      %t = graph.transpose %w ...
      func.return %t ...
    }

The session runs `@prepare` when the payload is loaded; compiling needs shapes only. An expression
whose result has more elements than its largest operand and more than `grow` bytes (a broadcast, a
tile) stays in `@main`; for a gather (of relative positions), which would be a launch in each run,
the limit is 16 times as high, and a pad may have twice as many elements. Ops without operands
(fills) are cloned to where they are used. A weight that is used in several shapes is stored once:
its reshapes stay in `@main`, as views. So does what dequantizes integers for matmuls, convolutions
and sums, which take a weight or a table as it is stored (see `transforms/fusion/epilogues.py`), and
for what is in a loop, once before it.
"""

import itertools
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import Control, LoopOp
from ge.dialects.graph.convolution import Convolution
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.indexing import Picking
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.recurrent import Recurrent
from ge.dialects.graph.shape import ReshapeOp, TransposeOp
from ge.dialects.graph.sharding import AxisIndexOp
from ge.dialects.graph.slicing import PadOp, SliceOp
from ge.dialects.graph.stated import port
from ge.dialects.support.functions import functions, main_function
from ge.dialects.support.operation import all_ops
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import byte_size, has_size, numel, shape_of
from ge.transforms.analysis.views import whole_of
from ge.transforms.graph.control_flow import insert_before, is_pure

FUNCTION = "prepare"
WEIGHTED = (MatmulOp, Convolution)  # ops whose launches take weights as they are stored
STORED = (*WEIGHTED, Recurrent)  # ops whose weights need not be floats in memory
GATHERED = 16  # how many times `grow` the result of a gather may take


def _grows(op: TensorOp, limit: int) -> bool:
    if isinstance(op, Picking):
        limit *= GATHERED
    largest = max((numel(shape_of(o)) for o in op.operands), default=0)
    if isinstance(op, PadOp):
        largest *= 2
    return any(numel(shape_of(r)) > largest and byte_size(r.type) > limit for r in op.results)


def is_table(value: SSAValue) -> bool:
    """Return whether a value is more than a vector in any shape: at least two dimensions are not
    1."""
    return has_size(value) and sum(d > 1 for d in shape_of(value)) > 1


def stays_stored(op: Operation, constant: Container[Operation | Block]) -> bool:
    """Return whether an op dequantizes a weight for matmuls, convolutions and recurrent layers, in
    loops too, or a table for a sum with a value that is not constant, and it takes fewer bytes as
    it is stored."""
    if not isinstance(op, DequantizeOp):
        return False
    users = users_of(op.result)
    stored = sum(byte_size(v.type) for v in op.operands)
    is_added = len(users) == 1 and is_table(op.result) and _adds(users[0], constant, op)
    is_weight = bool(users) and all(isinstance(u, STORED) for u in users)
    return (
        (is_weight or is_added)
        and all(u.parent is op.parent or isinstance(u.parent_op(), LoopOp) for u in users)
        and stored < byte_size(op.result.type)
    )


def users_of(value: SSAValue) -> list[Operation]:
    """The users of a value, or of the weight that it is in the order of lanes."""
    users = [use.operation for use in value.uses]
    while len(users) == 1 and isinstance(users[0], TransposeOp | ReshapeOp | SliceOp):
        users = [use.operation for use in users[0].results[0].uses]
    return users


def _adds(op: Operation, constant: Container[Operation | Block], table: Operation) -> bool:
    """Return whether an op is the sum of a table and another value."""
    others = [v.owner for v in op.operands if v.owner is not table]
    return isinstance(op, AddOp) and len(others) == 1 and others[0] not in constant


def _is_leaf(op: Operation | Block) -> bool:
    """Return whether an op is cheaper to recompute than to keep: a constant, or a fill."""
    return isinstance(op, Operation) and not op.operands


def constant_expressions(block: Block, limit: int, stored: bool) -> dict[Operation, None]:
    """The constants of a block and of the branches and loops in it, and the ops that depend on
    constants only, in order; of ops in branches and loops those that cannot fail. With `stored`
    without those that dequantize weights and tables for their users."""
    expressions: dict[Operation, None] = {}
    for op in all_ops([block]):
        if op.parent is not block and not isinstance(op.parent_op(), Control):
            continue
        if isinstance(op, ConstantOp):
            expressions[op] = None
        elif (
            isinstance(op, TensorOp)
            and not isinstance(op, FusedOp)
            and not op.regions
            and is_pure(type(op))
            and not (isinstance(op, AxisIndexOp) and op.in_time)
            and all(o.owner in expressions for o in op.operands)
            and all(map(has_size, op.results))
            and not _grows(op, limit)
            and not (stored and stays_stored(op, expressions))
            and (op.parent is block or not op.can_fail())
        ):
            expressions[op] = None
    return expressions


def computed(expressions: Mapping[Operation, None]) -> Sequence[SSAValue]:
    """Return the results of constant expressions that other ops use, except constants, fills, and
    views of a weight that is used in another shape too."""
    used = [
        r for op in expressions for r in op.results
        if any(use.operation not in expressions for use in r.uses)
    ]  # fmt: skip
    weights = Counter(whole_of(r) for r in used)
    shared = {w for w, n in weights.items() if n > 1 and isinstance(w.owner, ConstantOp)}
    return [r for r in used if not _is_leaf(r.owner) and whole_of(r) not in shared]


def new_keys(used: Container[str | None], count: int) -> list[str]:
    """The first `count` keys `prepared.N` that the model's own weights do not have."""
    numbered = (f"prepared.{i}" for i in itertools.count())
    return list(itertools.islice((key for key in numbered if key not in used), count))


def outline(block: Block, limit: int, stored: bool) -> FuncOp | None:
    """Move the constant expressions of `block` to a new function (not inserted); replace their
    results by weights with the keys `prepared.N`. None if there are none."""
    expressions = constant_expressions(block, limit, stored)
    frontier = computed(expressions)
    if not frontier:
        return None
    needed: dict[Operation, None] = {}
    stack: list[Operation | Block] = [r.owner for r in frontier]
    while stack:
        op = stack.pop()
        if isinstance(op, Operation) and op not in needed:
            needed[op] = None
            stack.extend(o.owner for o in op.operands)
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    body.add_ops([op.clone(mapping) for op in expressions if op in needed])
    body.add_op(ReturnOp(*(mapping[r] for r in frontier)))
    own = {op.key for op in all_ops([block]) if isinstance(op, ConstantOp)}
    keys = new_keys(own, len(frontier))
    for key, value in zip(keys, frontier, strict=True):
        assert isinstance(value.owner, Operation)
        weight = insert_before(value.owner, ConstantOp.make(WeightAttr(key), value.type))
        value.replace_uses_with_if(weight.result, lambda use: use.operation not in expressions)
    return FuncOp(
        FUNCTION,
        ([], [v.type for v in frontier]),
        Region(body),
        visibility="private",
        res_attrs=ArrayAttr([DictionaryAttr(port(k)) for k in keys]),
    )


@dataclass(frozen=True)
class PrepareWeightsPass(ModulePass):
    """Move expressions of weights to a function that is run once, when the payload is loaded.
    `grow`: bytes up to which a result may have more elements than its operands; `stored`: whether
    weights of integers that are dequantized for matmuls, convolutions and sums stay integers."""

    name = "prepare-weights"

    grow: int = 1 << 20
    stored: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if main is None or FUNCTION in functions(op):
            return
        if (prepare := outline(main.body.block, self.grow, self.stored)) is not None:
            op.body.block.add_op(prepare)
