"""The `npu_task` dialect: kernels, launches, buffers, streams and events.

It serves three levels, each a step nearer to the machine:

tasks    `npu_task.kernel` outlines what one launch computes (equal kernels are shared);
         `npu_task.launch` runs it on tensors, in destination-passing style:
           %0 = tensor.empty() : tensor<8x32xf32>
           %1 = npu_task.launch @linear_0 ins(%x, %w : ...) outs(%0 : ...) -> tensor<8x32xf32>
buffers  the same launch on memrefs; static results are written to `outs` and are no SSA results:
           npu_task.launch @linear_0 ins(%x, %w : ...) outs(%y : memref<8x32xf32, hbm>)
program  buffers are slots of one pool, launches and copies are on streams, events order them:
           %y = npu_task.slot "arena"[4096] : memref<8x32xf32, #npu_task.space<hbm>>
           npu_task.launch @linear_0 on 0 ins(...) outs(%y : ...)
           npu_task.record 3 on 0
           npu_task.wait 3 on 2

A result whose shape is known only at run time has no destination: at every level it is an SSA
result, and the device allocates it when the kernel has computed its shape.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    ParametrizedAttribute,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,

    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ge.dialects.interfaces import TensorOp


class Space(StrEnum):
    """Memories that a buffer can be in."""

    HOST = "host"
    HBM = "hbm"


@irdl_attr_definition
class SpaceAttr(EnumAttribute[Space], SpacedOpaqueSyntaxAttribute):
    """Memory space of a memref: `#npu_task<space hbm>`."""

    name = "npu_task.space"


HOST, HBM = SpaceAttr(Space.HOST), SpaceAttr(Space.HBM)


class Engine(StrEnum):
    """What executes a task: the cube cores, the vector cores, the DMA of host transfers, or the
    control processor (small integer work that decides shapes and branches)."""

    CUBE = "cube"
    VECTOR = "vector"
    DMA = "dma"
    HOST = "host"


@irdl_attr_definition
class EngineAttr(EnumAttribute[Engine], SpacedOpaqueSyntaxAttribute):
    name = "npu_task.engine"


@irdl_attr_definition
class TilingAttr(ParametrizedAttribute):
    """How a kernel is cut: `#npu_task.tiling<[128, 256, 64] blocks 24 buffers 2>`.

    `tile` are the sizes of one tile: (m, n, k) of a cube kernel, (elements,) of a vector kernel.
    `blocks` cores work side by side; with 2 buffers loading overlaps with computing.
    """

    name = "npu_task.tiling"
    tile: DenseArrayBase
    blocks: IntAttr
    buffers: IntAttr

    @classmethod
    def of(cls, tile: Sequence[int], blocks: int, buffers: int) -> "TilingAttr":
        return cls(DenseArrayBase.from_list(i64, list(tile)), IntAttr(blocks), IntAttr(buffers))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(v) for v in self.tile.get_values())

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            tile = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            parser.parse_keyword("blocks")
            blocks = parser.parse_integer()
            parser.parse_keyword("buffers")
            buffers = parser.parse_integer()
        return [DenseArrayBase.from_list(i64, tile), IntAttr(blocks), IntAttr(buffers)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            tile = ", ".join(str(v) for v in self.sizes)
            printer.print_string(f"[{tile}] blocks {self.blocks.data} buffers {self.buffers.data}")

    def verify(self) -> None:
        if min(self.sizes, default=1) < 1 or self.blocks.data < 1:
            raise VerifyException("tile sizes and blocks are at least 1")
        if self.buffers.data not in (1, 2):
            raise VerifyException(f"buffers is 1 or 2, not {self.buffers.data}")


# ---- kernels and launches --------------------------------------------------------------------


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The results of a kernel."""

    name = "npu_task.return"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure()))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class KernelOp(IRDLOperation):
    """What one launch computes, on tensors: one graph or fused op, and the constants it needs.
    Launches of equal kernels share one. `engine` and `tiling` hold for every launch."""

    name = "npu_task.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    engine = prop_def(EngineAttr)
    tiling = opt_prop_def(TilingAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name `on` $engine (`tiling` $tiling^)? attr-dict-with-keyword $body"

    def __init__(self, name: str, engine: Engine, tiling: TilingAttr | None, block: Block):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "engine": EngineAttr(engine),
                "tiling": tiling,
            },
            regions=[Region(block)],
        )

    @property
    def input_types(self) -> tuple[Attribute, ...]:
        return tuple(a.type for a in self.body.block.args)

    @property
    def output_types(self) -> tuple[Attribute, ...]:
        last = self.body.block.last_op
        return tuple(o.type for o in last.operands) if isinstance(last, ReturnOp) else ()

    @property
    def main(self) -> TensorOp:
        """The op that the launch is for: the last one before the return."""
        *_, op = (o for o in self.body.block.ops if isinstance(o, TensorOp))
        return op

    def verify_(self) -> None:
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException("the body ends in npu_task.return")
        if not any(isinstance(o, TensorOp) for o in self.body.block.ops):
            raise VerifyException("the body is empty")


def is_dynamic(t: Attribute) -> bool:
    """Whether a tensor or memref type has a dimension that is known only at run time."""
    shape: Any = getattr(t, "get_shape", None)
    return shape is None or any(d < 0 for d in shape())


def data_type(t: Attribute) -> tuple[Attribute, tuple[int, ...]]:
    """Element type and shape of a tensor or memref type."""
    typed: Any = t
    return typed.element_type, typed.get_shape()


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """One launch of a kernel (see the top of this file for its form at each level)."""

    name = "npu_task.launch"
    kernel = prop_def(SymbolRefAttr)
    stream = opt_prop_def(IntegerAttr[I64])
    ins = var_operand_def()
    outs = var_operand_def()
    results_ = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$kernel (`on` $stream^)? (`ins` `(` $ins^ `:` type($ins) `)`)? "
        "(`outs` `(` $outs^ `:` type($outs) `)`)? attr-dict (`->` type($results_)^)?"
    )

    def __init__(
        self,
        kernel: str,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        results: Sequence[Attribute] = (),
        stream: int | None = None,
    ):
        super().__init__(
            operands=[ins, outs],
            result_types=[results],
            properties={
                "kernel": SymbolRefAttr(kernel),
                "stream": None if stream is None else IntegerAttr(stream, i64),
            },
        )

    @property
    def callee(self) -> str:
        return self.kernel.root_reference.data

    @property
    def on_buffers(self) -> bool:
        """Whether the launch is on memrefs (its static results are no SSA results)."""
        return any(isinstance(v.type, MemRefType) for v in (*self.operands, *self.results))

    def verify_against(self, kernel: KernelOp) -> None:
        """Check operands and results against the kernel. Raises VerifyException."""
        want = [data_type(t) for t in kernel.input_types]
        if [data_type(v.type) for v in self.ins] != want:
            raise VerifyException(f"ins differ from the inputs of @{self.callee}")
        static = [data_type(t) for t in kernel.output_types if not is_dynamic(t)]
        if [data_type(v.type) for v in self.outs] != static:
            raise VerifyException(f"outs differ from the static results of @{self.callee}")
        given = [data_type(v.type) for v in self.results]
        dynamic = [data_type(t) for t in kernel.output_types if is_dynamic(t)]
        every = [data_type(t) for t in kernel.output_types]
        if given != (dynamic if self.on_buffers else every):
            raise VerifyException(f"results differ from the results of @{self.callee}")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant that a launch reads: `dense<...>`, or `#graph.weight<"key">` into the payload.
    On memrefs it is a buffer of the weight segment."""

    name = "npu_task.constant"
    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict $value `as` type($result)"

    def __init__(self, value: Attribute, t: Attribute):
        super().__init__(properties={"value": value}, result_types=[t])


# ---- buffers ---------------------------------------------------------------------------------


@irdl_op_definition
class SlotOp(IRDLOperation):
    """A buffer at a fixed byte offset of a segment of device memory: "arena" (activations and
    workspaces, reused) or "io" (the model's inputs and outputs)."""

    name = "npu_task.slot"
    segment = prop_def(StringAttr)
    offset = prop_def(IntegerAttr[I64])
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$segment $offset attr-dict `:` type($result)"

    def __init__(self, segment: str, offset: int, t: Attribute):
        super().__init__(
            properties={"segment": StringAttr(segment), "offset": IntegerAttr(offset, i64)},
            result_types=[t],
        )

    def verify_(self) -> None:
        if self.segment.data not in ("arena", "io"):
            raise VerifyException(f'segment is "arena" or "io", not "{self.segment.data}"')
        if self.offset.value.data < 0:
            raise VerifyException(f"offset is at least 0, got {self.offset.value.data}")
        if is_dynamic(self.result.type):
            raise VerifyException(f"a slot has a static shape, not {self.result.type}")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies a buffer to another one of the same type but for memory space and layout."""

    name = "npu_task.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    stream = opt_prop_def(IntegerAttr[I64])
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$source `to` $target (`on` $stream^)? attr-dict `:` type($source) `to` type($target)"
    )

    def __init__(self, source: SSAValue, target: SSAValue, stream: int | None = None):
        super().__init__(
            operands=[source, target],
            properties={"stream": None if stream is None else IntegerAttr(stream, i64)},
        )

    def verify_(self) -> None:
        if data_type(self.source.type) != data_type(self.target.type):
            raise VerifyException(f"{self.source.type} does not fit into {self.target.type}")


@irdl_op_definition
class TransferOp(IRDLOperation):
    """Moves a buffer of dynamic shape between memories; the device allocates the new one."""

    name = "npu_task.transfer"
    source = operand_def(MemRefType)
    result = result_def(MemRefType)
    stream = opt_prop_def(IntegerAttr[I64])
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source (`on` $stream^)? attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, t: Attribute, stream: int | None = None):
        super().__init__(
            operands=[source],
            result_types=[t],
            properties={"stream": None if stream is None else IntegerAttr(stream, i64)},
        )

    def verify_(self) -> None:
        if data_type(self.source.type) != data_type(self.result.type):
            raise VerifyException(f"{self.source.type} does not become {self.result.type}")


# ---- events ----------------------------------------------------------------------------------


@irdl_op_definition
class RecordOp(IRDLOperation):
    """The event happens when all that was issued to the stream before is done."""

    name = "npu_task.record"
    event = prop_def(IntegerAttr[I64])
    stream = prop_def(IntegerAttr[I64])
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$event `on` $stream attr-dict"

    def __init__(self, event: int, stream: int):
        super().__init__(
            properties={"event": IntegerAttr(event, i64), "stream": IntegerAttr(stream, i64)}
        )


@irdl_op_definition
class WaitOp(IRDLOperation):
    """What is issued to the stream after this starts when the event has happened."""

    name = "npu_task.wait"
    event = prop_def(IntegerAttr[I64])
    stream = prop_def(IntegerAttr[I64])
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$event `on` $stream attr-dict"

    def __init__(self, event: int, stream: int):
        super().__init__(
            properties={"event": IntegerAttr(event, i64), "stream": IntegerAttr(stream, i64)}
        )


# ---- control flow on buffers -----------------------------------------------------------------


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values of a branch or of a loop's iteration."""

    name = "npu_task.yield"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(),))
    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class IfOp(IRDLOperation):
    """Runs one of two branches, by a memref<i1>. All streams are idle before and after.

    Each branch yields one buffer for each result of the `graph.if` it comes from. A static one
    is copied to its `outs` buffer (no copy where it is that buffer); a dynamic one is an SSA
    result.
    """

    name = "npu_task.if"
    condition = operand_def(MemRefType)
    outs = var_operand_def()
    results_ = var_result_def()
    then = region_def("single_block")
    otherwise = region_def("single_block")
    assembly_format = (
        "$condition `:` type($condition) (`outs` `(` $outs^ `:` type($outs) `)`)? "
        "(`->` type($results_)^)? attr-dict-with-keyword $then `else` $otherwise"
    )

    def __init__(
        self,
        condition: SSAValue,
        outs: Sequence[SSAValue],
        results: Sequence[Attribute],
        then: Region,
        otherwise: Region,
    ):
        super().__init__(
            operands=[condition, outs], result_types=[results], regions=[then, otherwise]
        )

    def verify_(self) -> None:
        for region in (self.then, self.otherwise):
            last = region.block.last_op
            if not isinstance(last, YieldOp):
                raise VerifyException("a branch ends in npu_task.yield")
            _check_targets(list(last.values), list(self.outs), len(self.results), "a branch")


@irdl_op_definition
class LoopOp(IRDLOperation):
    """Runs the body `trip` times (memref<i64>; absent: no limit) while `condition` (memref<i1>;
    absent: always) holds. All streams are idle before and after each iteration.

    Body arguments: the iteration number (memref<i64>), the condition (memref<i1>), then the
    carried buffers. Body yields: the next condition, the next carried values, the scan elements.
    Carried buffers with static shape (`carried`) hold the value between iterations and at the
    end; next values are copied there, all at the same time. Those with dynamic shape (`inits`)
    pass from iteration to iteration and come out as SSA results. `order` has an entry for each
    carried value: 1 static, 0 dynamic. Scan elements are stacked along a new first axis: into
    the buffer of `scans` where the trip count is static, else into an SSA result; `stacked` has
    an entry for each scan: 1 static, 0 dynamic. Results: dynamic carried, then dynamic scans.
    """

    name = "npu_task.loop"
    trip = opt_operand_def(MemRefType)
    condition = opt_operand_def(MemRefType)
    carried = var_operand_def()
    inits = var_operand_def()
    scans = var_operand_def()
    order = prop_def(DenseArrayBase)
    stacked = prop_def(DenseArrayBase)
    results_ = var_result_def()
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

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("the body ends in npu_task.yield")
        carried, scans = len(self.order), len(self.stacked)
        if len(last.values) != 1 + carried + scans:
            raise VerifyException(
                f"the body yields {len(last.values)} values; 1 condition, {carried} carried and "
                f"{scans} scanned ones are expected"
            )
        if len(self.body.block.args) != 2 + carried:
            raise VerifyException(f"the body takes {2 + carried} arguments")


def _check_targets(
    values: list[SSAValue], outs: list[SSAValue], dynamic: int, what: str
) -> None:
    static = [v for v in values if not is_dynamic(v.type)]
    if len(values) - len(static) != dynamic and len(values) != len(outs) + dynamic:
        raise VerifyException(
            f"{what} yields {len(values)} values for {len(outs)} outs and {dynamic} results"
        )


NpuTask = Dialect(
    "npu_task",
    [
        KernelOp,
        ReturnOp,
        LaunchOp,
        ConstantOp,
        SlotOp,
        CopyOp,
        TransferOp,
        RecordOp,
        WaitOp,
        YieldOp,
        IfOp,
        LoopOp,
    ],
    [SpaceAttr, EngineAttr, TilingAttr],
)
