"""Control flow of the `npu_task` dialect: branches and loops on buffers."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import HBM, HOST, data_type, fits, space_of
from ge.dialects.support.constraints import BUFFERS
from ge.dialects.support.operation import GeOp
from ge.dialects.support.tensor_op import IndexMap
from ge.dialects.support.types import DYNAMIC, array_ints, is_dynamic


@irdl_op_definition
class YieldOp(GeOp):
    """The end of a branch or of a loop's iteration."""

    name = "npu_task.yield"
    values = var_operand_def(BUFFERS)
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(IfOp, CaseOp, LoopOp)))
    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class IfOp(GeOp):
    """Runs one of two branches, by a buffer of one i1. All streams are idle before and after.

        %n = npu_task.if %c : memref<i1, ...> outs(%y : ...) -> memref<?xf32, ...>
            order [1, 0] {
          npu_task.yield %a, %b : ...
        } else {
          npu_task.yield %c, %d : ...
        }

    Each branch yields one buffer for each entry of `order`. 1: it is copied to the next of
    `outs` (nothing is copied where it is that buffer); 0: it is copied to the next result.
    """

    name = "npu_task.if"
    condition = operand_def(BUFFERS)
    outs = var_operand_def(BUFFERS)
    order = prop_def(DenseArrayBase.constr(i64))
    results_ = var_result_def(BUFFERS)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    assembly_format = (
        "$condition `:` type($condition) (`outs` `(` $outs^ `:` type($outs) `)`)? "
        "(`->` type($results_)^)? `order` $order attr-dict-with-keyword $then `else` $otherwise"
    )

    def __init__(
        self,
        condition: SSAValue,
        outs: Sequence[SSAValue],
        results: Sequence[Attribute],
        order: Sequence[bool],
        then: Region,
        otherwise: Region,
    ):
        super().__init__(
            operands=[condition, outs],
            result_types=[results],
            properties={"order": flags(order)},
            regions=[then, otherwise],
        )

    def verify_(self) -> None:
        _check_single(self.condition, i1, "the condition")
        _check_memory(self.outs, self.results)
        _check_order(self.order, "order", len(self.outs), len(self.results))
        for region in (self.then, self.otherwise):
            _check_branch(self, region)


@irdl_op_definition
class MapIndexOp(IndexMap):
    """The number of the gear that buffers have the sizes of, on the host, which knows sizes before
    anything is copied: see `dialects/support/tensor_op.py`."""

    name = "npu_task.map_index"
    inputs = var_operand_def(BUFFERS)
    result = result_def(BUFFERS)
    traits = traits_def(Pure())
    assembly_format = (
        "$inputs `axes` $axes `table` $table attr-dict `:` functional-type($inputs, $result)"
    )

    def verify_(self) -> None:
        self.check()
        if data_type(self.result.type) != (i64, ()) or space_of(self.result.type) != HOST:
            raise VerifyException(f"the index is one i64 of the host, not {self.result.type}")


def leaves_sizes_open(main: FuncOp) -> bool:
    """True if the function has inputs of unknown shapes, and no gears for them."""
    if not any(is_dynamic(t) for t in main.function_type.inputs.data):
        return False
    return not any(isinstance(op, IndexMap) for op in main.body.block.ops)


@irdl_op_definition
class CaseOp(GeOp):
    """Runs the branch with the number `index`, a buffer of one i64, of the host where the sizes of
    inputs decide: then the program of each branch is sunk. Otherwise as `npu_task.if`; results may
    also be in the host's memory.

        %n = npu_task.case %i : memref<i64, ...> -> memref<?xf32, ...> order [0] {
          npu_task.yield %a : ...
        } {
          npu_task.yield %b : ...
        }
    """

    name = "npu_task.case"
    index = operand_def(BUFFERS)
    outs = var_operand_def(BUFFERS)
    order = prop_def(DenseArrayBase.constr(i64))
    results_ = var_result_def(BUFFERS)
    branches = var_region_def("single_block")
    assembly_format = (
        "$index `:` type($index) (`outs` `(` $outs^ `:` type($outs) `)`)? "
        "(`->` type($results_)^)? `order` $order attr-dict-with-keyword $branches"
    )

    def __init__(
        self,
        index: SSAValue,
        outs: Sequence[SSAValue],
        results: Sequence[Attribute],
        order: Sequence[bool],
        branches: Sequence[Region],
    ):
        super().__init__(
            operands=[index, outs],
            result_types=[results],
            properties={"order": flags(order)},
            regions=[branches],
        )

    @property
    def is_decided_by_host(self) -> bool:
        return space_of(self.index.type) == HOST

    def verify_(self) -> None:
        if not self.is_decided_by_host:
            _check_single(self.index, i64, "the index")
        _check_memory(self.outs, ())
        _check_order(self.order, "order", len(self.outs), len(self.results))
        if not self.branches:
            raise VerifyException("a case has at least one branch")
        for region in self.branches:
            _check_branch(self, region)


@irdl_op_definition
class LoopOp(GeOp):
    """Runs the body `trip` times (a buffer of one i64; absent: no limit) while `condition` (one
    i1; absent: always) holds. All streams are idle before and after each iteration.

    Body arguments: the iteration number (memref<i64>), the condition (memref<i1>), then the
    carried buffers. The body yields the next condition, the next carried values, the scan
    elements. Carried values have an entry in `order`. 1: the value is in the next of the buffers
    `carried`, and the next values are copied there, all at the same time. 0: the value starts as
    the next of `inits` and ends as a result. Scan elements are stacked along a new first axis; they
    have an entry in `stacked`. 1: in the next of the buffers `scans`; 0: in a result.
    Results: first those of carried values, then those of scan elements.
    """

    name = "npu_task.loop"
    trip = opt_operand_def(BUFFERS)
    condition = opt_operand_def(BUFFERS)
    carried = var_operand_def(BUFFERS)
    inits = var_operand_def(BUFFERS)
    scans = var_operand_def(BUFFERS)
    order = prop_def(DenseArrayBase.constr(i64))
    stacked = prop_def(DenseArrayBase.constr(i64))
    results_ = var_result_def(BUFFERS)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`trip` $trip^ `:` type($trip))? (`while` $condition^ `:` type($condition))? "
        "(`carried` `(` $carried^ `:` type($carried) `)`)? "
        "(`inits` `(` $inits^ `:` type($inits) `)`)? "
        "(`scans` `(` $scans^ `:` type($scans) `)`)? "
        "(`->` type($results_)^)? `order` $order `stacked` $stacked "
        "attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        trip: SSAValue | None,
        condition: SSAValue | None,
        carried: Sequence[SSAValue],
        inits: Sequence[SSAValue],
        scans: Sequence[SSAValue],
        order: Sequence[bool],
        stacked: Sequence[bool],
        results: Sequence[Attribute],
        body: Region,
    ):
        super().__init__(
            operands=[trip, condition, carried, inits, scans],
            result_types=[results],
            properties={"order": flags(order), "stacked": flags(stacked)},
            regions=[body],
        )

    def verify_(self) -> None:
        values, args = _yielded(self.body, "the body"), self.body.block.args
        carried, scans = len(self.order), len(self.stacked)
        if len(values) != 1 + carried + scans:
            raise VerifyException(
                f"the body yields {len(values)} values; 1 condition, {carried} carried and "
                f"{scans} scanned ones are expected"
            )
        if len(args) != 2 + carried:
            raise VerifyException(f"the body takes {2 + carried} arguments")
        if self.trip is not None:
            _check_single(self.trip, i64, "the trip count")
        if self.condition is not None:
            _check_single(self.condition, i1, "the condition")
        _check_single(args[0], i64, "the iteration number", ())
        _check_single(args[1], i1, "the condition in the body", ())
        _check_single(values[0], i1, "the next condition")
        _check_memory((*self.carried, *self.scans), (*args[2:], *self.results))
        _check_order(self.order, "order", len(self.carried), len(self.inits))
        dynamic = len(self.results) - len(self.inits)
        _check_order(self.stacked, "stacked", len(self.scans), dynamic)
        results, stacks = self.results[: len(self.inits)], self.results[len(self.inits) :]
        moving = [a for a, f in zip(args[2:], array_ints(self.order), strict=True) if not f]
        for arg, result, init in zip(moving, results, self.inits, strict=True):
            _check_type(init, arg.type)
            _check_type(init, result.type)
        for arg, buffer in zip((a for a in args[2:] if a not in moving), self.carried, strict=True):
            if arg.type != buffer.type:
                raise VerifyException(f"argument {arg.index} is {arg.type}, not {buffer.type}")
        last = values[1 : 1 + carried]
        _check_fit(last, self.order, self.carried, results)
        _check_fit(last, self.order, self.carried, moving)
        _check_fit(values[1 + carried :], self.stacked, self.scans, stacks, row=True)


def _check_branch(op: IfOp | CaseOp, region: Region) -> None:
    values = _yielded(region, "a branch")
    if len(values) != len(op.order):
        raise VerifyException(f"a branch yields {len(values)} values, {len(op.order)} are expected")
    _check_fit(values, op.order, op.outs, op.results)


def flags(values: Sequence[bool]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, [int(v) for v in values])


def _yielded(region: Region, what: str) -> Sequence[SSAValue]:
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"{what} ends in npu_task.yield")
    return last.values


def _check_order(order: DenseArrayBase, name: str, ones: int, zeros: int) -> None:
    values = array_ints(order)
    if values.count(1) != ones or values.count(0) != zeros or len(values) != ones + zeros:
        raise VerifyException(f"'{name}' must have {ones} times 1 and {zeros} times 0")


def _check_fit(
    values: Sequence[SSAValue],
    order: DenseArrayBase,
    buffers: Sequence[SSAValue],
    results: Sequence[SSAValue],
    row: bool = False,
) -> None:
    """Check that each value fits its destination in `order`, or a row of it. Raises
    VerifyException."""
    fixed, passed = iter(buffers), iter(results)
    for value, static in zip(values, array_ints(order), strict=True):
        _check_type(value, (next(fixed) if static else next(passed)).type, row)


def _check_type(value: SSAValue, target: Attribute, row: bool = False) -> None:
    element, shape = data_type(target)
    if row and not shape:
        raise VerifyException(f"{target} has no rows")
    space = space_of(target) or HBM
    if not fits(value.type, MemRefType(element, shape[row:])) or space_of(value.type) != space:
        raise VerifyException(f"{value.type} does not fit into {'a row of ' * row}{target}")


def _check_single(
    value: SSAValue, element: Attribute, what: str, shape: tuple[int, ...] | None = None
) -> None:
    t, dims = data_type(value.type)
    one = all(d in (1, DYNAMIC) for d in dims) if shape is None else dims == shape
    if t != element or not one or space_of(value.type) != HBM:
        raise VerifyException(f"{what} is one {element} of the device, not {value.type}")


def _check_memory(buffers: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
    """Control flow writes to the device's memory, and to no buffer twice."""
    for value in (*buffers, *new):
        if space_of(value.type) != HBM:
            raise VerifyException(f"{value.type} is not in the memory of the device")
    if len(set(buffers)) != len(buffers):
        raise VerifyException("a buffer takes two of the values")


@irdl_op_definition
class PipelineOp(GeOp):
    """The outputs of all stages, of the inputs of all stages: whole values."""

    name = "npu_task.pipeline"
    inputs = var_operand_def(BUFFERS)
    outputs = var_result_def(BUFFERS)
    assembly_format = "$inputs attr-dict `:` functional-type($inputs, $outputs)"
