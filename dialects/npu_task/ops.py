"""The `npu_task` dialect: kernels, launches, buffers, streams and events.

tasks    `npu_task.kernel` outlines one launch's ops (equal kernels are shared);
         `npu_task.launch` runs it on tensors, in destination-passing style:
           %0 = tensor.empty() : tensor<8x32xf32>
           %1 = npu_task.launch @linear_0 ins(%x, %w : ...) outs(%0 : ...) -> tensor<8x32xf32>
buffers  the same launch on memrefs; static results are written to `outs` and are no SSA results:
           npu_task.launch @linear_0 ins(%x, %w : ...) outs(%y : memref<8x32xf32, ...>)
program  buffers are slots of one pool, launches and copies are on streams, events order them:
           %y = npu_task.slot arena 4096 : memref<8x32xf32, "hbm">
           npu_task.launch @linear_0 on 0 ins(...) outs(%y : ...)
           %event = npu_task.record 3 on 0
           npu_task.wait %event on 2

A result whose shape is known only at run time has no destination: at every level it is an SSA
result, which the device allocates when the kernel has computed its shape. Such a buffer is written
once, by its defining op, and live until its last use.

Generic passes may know which buffers launches and copies read and write; on tensors these have no
effects.
"""

from abc import ABC
from collections.abc import Iterator, Sequence, Set
from math import prod
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    ConstantLike,
    EffectInstance,
    IsolatedFromAbove,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    Pure,
    SymbolOpInterface,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import (
    HBM,
    HOST,
    Engine,
    EngineAttr,
    EventType,
    TilingAttr,
    data_type,
    fits,
    number,
    space_of,
    symbol,
)
from ge.dialects.support.constraints import BUFFERS, SHAPED, VALUES, choice, choice_def
from ge.dialects.support.functions import find_symbol, module_around
from ge.dialects.support.operation import (
    GeOp,
    all_ops,
    initialize,
    operands_of,
    ops_of,
    segments,
    yielded,
)
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, byte_size, is_dynamic


class TouchesBuffers(MemoryEffect):
    """Reads and writes the buffers that the class names; a buffer that is a result is new."""

    @classmethod
    def get_effects(cls, op: Operation) -> Set[EffectInstance] | None:
        return set(_effects(op)) if isinstance(op, TouchingOp) else None


class TouchingOp(GeOp, ABC):
    """An op on buffers, and the names of its operands that it reads and writes."""

    TOUCHES: ClassVar[tuple[str, str]]
    traits = traits_def(TouchesBuffers())


def _effects(op: TouchingOp) -> Iterator[EffectInstance]:
    read, written = op.TOUCHES
    kinds = (
        (MemoryEffectKind.READ, _values(op, read)),
        (MemoryEffectKind.WRITE, _values(op, written)),
        (MemoryEffectKind.ALLOC, op.results),
    )
    for kind, values in kinds:
        yield from (EffectInstance(kind, v) for v in values if isinstance(v.type, MemRefType))


def _values(op: Operation, name: str) -> Sequence[SSAValue]:
    found: SSAValue | Sequence[SSAValue] = getattr(op, name) if name else ()
    return (found,) if isinstance(found, SSAValue) else found


# ---- kernels and launches --------------------------------------------------------------------


@irdl_op_definition
class ReturnOp(GeOp):
    """The results of a kernel."""

    name = "npu_task.return"
    values = var_operand_def(VALUES)
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure()))
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class KernelOp(GeOp):
    """The computation of one launch, on tensors: one graph or fused op, and its constants. Launches
    of equal kernels share one."""

    name = "npu_task.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    engine = prop_def(EngineAttr)
    tiling = opt_prop_def(TilingAttr)
    tiles = opt_prop_def(SymbolNameConstraint())  # the tile.kernel that computes the same
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = (
        "$sym_name `on` $engine (`tiling` $tiling^)? (`tiles` $tiles^)?"
        " attr-dict-with-keyword $body"
    )

    def __init__(self, name: str, engine: Engine, block: Block):
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "engine": EngineAttr(engine),
        }
        initialize(self, (), (), properties, None, [Region(block)])

    @property
    def input_types(self) -> tuple[Attribute, ...]:
        return tuple([a.type for a in self.body.block.args])

    @property
    def output_types(self) -> tuple[Attribute, ...]:
        last = self.body.block.last_op
        return tuple([o.type for o in operands_of(last)]) if isinstance(last, ReturnOp) else ()

    @property
    def has_unknown_shapes(self) -> bool:
        return any(map(is_dynamic, (*self.input_types, *self.output_types)))

    @property
    def main(self) -> TensorOp:
        """The op that the launch is for: the last one before the return."""
        block = self.regions[0]._first_block  # pyright: ignore[reportPrivateUsage]
        assert block is not None
        op = block._last_op  # pyright: ignore[reportPrivateUsage]
        while op is not None and not isinstance(op, TensorOp):
            op = op._prev_op  # pyright: ignore[reportPrivateUsage]
        assert op is not None
        return op

    @property
    def constants(self) -> list[Operation]:
        """The constants of more than one element that `main` reads, in order: a tile program takes
        them from device memory."""
        found = (v.owner for v in self.main.operands if not set(data_type(v.type)[1]) <= {1})
        constants = (o for o in found if isinstance(o, Operation) and o.has_trait(ConstantLike))
        return list(dict.fromkeys(constants))

    def check_program(self, types: Sequence[Attribute]) -> None:
        """Raises VerifyException for a tile program with other arguments than the kernel has in
        device memory, in shapes of its own: arguments, constants, results."""
        constants = (c.results[0].type for c in self.constants)
        own = map(data_type, (*self.input_types, *constants, *self.output_types))
        if [(e, prod(shape)) for e, shape in own] != [
            (e, prod(shape)) for e, shape in map(data_type, types)
        ]:
            raise VerifyException(
                f"the tile program of @{self.sym_name.data} does not take what the kernel does: "
                "its arguments, its constants of several elements and its results"
            )

    def bytes_written(self) -> list[int]:
        """Bytes of each result that a launch writes where it lies in the memory of an operand, of
        which the others stay. Raises ValueError for a dynamic shape."""
        sizes: list[int] = []
        for value in () if (last := self.body.block.last_op) is None else last.operands:
            if isinstance(value, OpResult) and isinstance(value.op, TensorOp):
                sizes.append(value.op.bytes_written(value.index))
            else:
                sizes.append(byte_size(value.type))
        return sizes

    def accepts_strided(self) -> bool:
        """True if launches may read and write strided views."""
        op = self.main
        static = not any(is_dynamic(v.type) for v in (*op.operands, *op.results))
        return static and self.engine.data is not Engine.HOST and op.accepts_strided()

    def in_place_pairs(self) -> set[tuple[int, int]]:
        """Each (result, input) such that a launch may write the result over the input."""
        op, returned = self.main, self.body.block.last_op
        if any([is_dynamic(v.type) for v in (*operands_of(op), *op.results)]):
            return set()
        allowed = set(op.in_place_pairs())
        uses = [[i for i, v in enumerate(op.operands) if v is a] for a in self.body.block.args]
        return {
            (r, i)
            for r, value in enumerate(() if returned is None else returned.operands)
            for i, operands in enumerate(uses)
            if value.owner is op
            and operands
            and all((op.results.index(value), operand) in allowed for operand in operands)
        }

    def verify_(self) -> None:
        self.check()

    def check(self) -> None:
        """Verify what the definition of a kernel does not say. Raises VerifyException."""
        body, tiling = self.body.block, self.tiling
        if not isinstance(body.last_op, ReturnOp):
            raise VerifyException("the body ends in npu_task.return")
        tensors = [o for o in ops_of(body) if isinstance(o, TensorOp)]
        if not tensors:
            raise VerifyException("the body is empty")
        if tiling is not None and len(tiling.sizes) == 3:
            matmuls = any([o.ALWAYS_MACS for o in tensors]) or any(
                isinstance(o, TensorOp) and o.ALWAYS_MACS for o in all_ops((body,))
            )
            if not matmuls and (work := self.main.work()) is not None and not work.macs:
                raise VerifyException("a tile of three sizes is for matmuls")


class UsesKernel(SymbolUserOpInterface):
    """The kernel of a launch is in the module, and takes and gives what the launch does."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, LaunchOp)
        if (module := module_around(op)) is not None:
            kernel = find_symbol(module, op.callee)
            if not isinstance(kernel, KernelOp):
                raise VerifyException(f"there is no kernel @{op.callee}")
            op.verify_against(kernel)


@irdl_op_definition
class LaunchOp(TouchingOp):
    """One launch of a kernel; its form at each level stands at the top of this file."""

    name = "npu_task.launch"
    kernel = prop_def(SymbolRefAttr)
    stream = opt_prop_def(IntegerAttr[I64])
    ins = var_operand_def(SHAPED)
    outs = var_operand_def(SHAPED)
    results_ = var_result_def(SHAPED)
    traits = traits_def(UsesKernel())
    TOUCHES: ClassVar = "ins", "outs"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
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
        properties: dict[str, Attribute] = {
            "kernel": symbol(kernel),
            "operandSegmentSizes": segments(len(ins), len(outs)),
        }
        if stream is not None:
            properties["stream"] = number(stream)
        # without IRDL's sorting of arguments: programs have many launches
        initialize(self, (*ins, *outs), results, properties)

    @property
    def callee(self) -> str:
        return cast(SymbolRefAttr, self.properties["kernel"]).root_reference.data

    @property
    def on_buffers(self) -> bool:
        """True if the launch is on memrefs: its static results are no SSA results."""
        for value in (*operands_of(self), *self.results):
            if isinstance(value.type, MemRefType):
                return True
        return False

    def returned(self, kernel: KernelOp) -> Iterator[tuple[SSAValue, SSAValue]]:
        """The values that the kernel returns, each with that of the program that it becomes: a
        buffer, or a result where its size is not known."""
        outs, results = iter(self.outs), iter(self.results)
        for value in yielded(kernel.body.block):
            if (own := next(results if is_dynamic(value.type) else outs, None)) is not None:
                yield value, own

    def verify_against(self, kernel: KernelOp) -> None:
        """Raises VerifyException for other operand or result types than the kernel's."""
        if not _same_data(self.ins, kernel.input_types):
            raise VerifyException(f"ins differ from the inputs of @{self.callee}")
        outputs = kernel.output_types
        dynamic = [t for t in outputs if is_dynamic(t)]
        static = [t for t in outputs if not is_dynamic(t)] if dynamic else outputs
        if not _same_data(self.outs, static):
            raise VerifyException(f"outs differ from the static results of @{self.callee}")
        results = dynamic if self.on_buffers else outputs
        if (results or self.results) and not _same_data(self.results, results):
            raise VerifyException(f"results differ from the results of @{self.callee}")


def kernels_of(module: ModuleOp) -> dict[str, KernelOp]:
    """The kernels of a module by their names."""
    return {op.sym_name.data: op for op in ops_of(module.body.block) if isinstance(op, KernelOp)}


def _same_data(values: Sequence[SSAValue], types: Sequence[Attribute]) -> bool:
    if len(values) != len(types):
        return False
    for value, t in zip(values, types, strict=True):
        own = value.type
        if own is not t and data_type(own) != data_type(t):
            return False
    return True


@irdl_op_definition
class ConstantOp(GeOp):
    """An operand of launches: `dense<...>`, or `#graph.weight<"key">` into the payload. A memref is
    a buffer of the weight segment."""

    name = "npu_task.constant"
    value = prop_def(Attribute)
    result = result_def(SHAPED)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "attr-dict $value `as` type($result)"

    def __init__(self, value: Attribute, t: Attribute):
        Operation.__init__(self, properties={"value": value}, result_types=[t])

    def verify_(self) -> None:
        check_buffer(self.result.type)
        if isinstance(value := self.value, DenseIntOrFPElementsAttr):
            stated = cast(Dense, value).type
            if data_type(stated) != data_type(self.result.type):
                raise VerifyException(f"a constant of {stated} is read as {self.result.type}")


# ---- buffers ---------------------------------------------------------------------------------


def check_buffer(t: Attribute) -> None:
    """Raises VerifyException for a type that no buffer of the device has."""
    if space_of(t) not in (HBM, None):
        raise VerifyException(f"{t} is not in the memory of the device")
    if isinstance(t, MemRefType) and not isinstance(t.layout, NoneAttr):
        raise VerifyException(f"a buffer is dense; only views have a layout, not {t}")


def check_spaces(source: Attribute, target: Attribute) -> None:
    """Raises VerifyException unless a copy is from or to the device."""
    spaces = {space_of(source), space_of(target)}
    if HBM not in spaces or not spaces <= {HOST, HBM}:
        raise VerifyException(f"a copy is from or to the device, not {source} to {target}")


Segment = choice("npu_task.segment", "arena", "io", "state")


@irdl_op_definition
class SlotOp(GeOp):
    """A buffer at a byte offset of a segment of device memory: "arena" (activations and workspaces,
    reused), "io" (the model's inputs and outputs) or "state" (what stays from run to run)."""

    name = "npu_task.slot"
    segment = choice_def(Segment)
    offset = prop_def(IntegerAttr[I64])
    result = result_def(BUFFERS)
    traits = traits_def(Pure())
    assembly_format = "$segment $offset attr-dict `:` type($result)"

    def __init__(self, segment: str, offset: int, t: Attribute):
        Operation.__init__(
            self,
            properties={"segment": Segment.of(segment), "offset": number(offset)},
            result_types=[t],
        )

    def verify_(self) -> None:
        if self.offset.value.data < 0:
            raise VerifyException(f"offset is at least 0, got {self.offset.value.data}")
        if is_dynamic(self.result.type):
            raise VerifyException(f"a slot has a static shape, not {self.result.type}")
        check_buffer(self.result.type)


@irdl_op_definition
class CopyOp(TouchingOp):
    """Copies a buffer to another one of the same type but for memory space and layout. Where one
    of them is dynamic, its shape at run time is that of the other."""

    name = "npu_task.copy"
    source = operand_def(BUFFERS)
    target = operand_def(BUFFERS)
    stream = opt_prop_def(IntegerAttr[I64])
    TOUCHES: ClassVar = "source", "target"
    assembly_format = (
        "$source `to` $target (`on` $stream^)? attr-dict `:` type($source) `to` type($target)"
    )

    def __init__(self, source: SSAValue, target: SSAValue, stream: int | None = None):
        super().__init__(
            operands=[source, target],
            properties={"stream": None if stream is None else number(stream)},
        )

    def verify_(self) -> None:
        if not fits(self.source.type, self.target.type):
            raise VerifyException(f"{self.source.type} does not fit into {self.target.type}")
        check_spaces(self.source.type, self.target.type)


@irdl_op_definition
class BatchCopyOp(TouchingOp):
    """Copies several buffers to others in one transfer, all to the device or all from it: on the
    host they are packed in one buffer, on the device in slots that follow each other."""

    name = "npu_task.batch_copy"
    sources = var_operand_def(BUFFERS)
    targets = var_operand_def(BUFFERS)
    stream = opt_prop_def(IntegerAttr[I64])
    TOUCHES: ClassVar = "sources", "targets"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$sources `to` $targets (`on` $stream^)? attr-dict `:` type($sources) `to` type($targets)"
    )

    def __init__(
        self,
        sources: Sequence[SSAValue],
        targets: Sequence[SSAValue],
        stream: int | None = None,
    ):
        super().__init__(
            operands=[sources, targets],
            properties={"stream": None if stream is None else number(stream)},
        )

    @property
    def pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        return list(zip(self.sources, self.targets, strict=True))

    @property
    def on_device(self) -> Sequence[SSAValue]:
        """The sources or targets that are buffers of the device."""
        return self.sources if space_of(self.sources[0].type) == HBM else self.targets

    def verify_(self) -> None:
        if not self.sources or len(self.sources) != len(self.targets):
            counts = f"{len(self.sources)} buffers to {len(self.targets)}"
            raise VerifyException(f"a batch copy has a target for each source, not {counts}")
        for source, target in self.pairs:
            if not fits(source.type, target.type) or is_dynamic(source.type):
                raise VerifyException(f"{source.type} does not fit into {target.type}")
            if {space_of(source.type), space_of(target.type)} != {HOST, HBM}:
                raise VerifyException("a batch copy is between host and device")
        if len({space_of(v.type) for v in self.sources}) > 1:
            raise VerifyException("a batch copy is to the device or from it, not both")


@irdl_op_definition
class TransferOp(TouchingOp):
    """Copies a buffer to a new one, which the device allocates: its shape is known only at run
    time, or its lifetime is not that of its slot."""

    name = "npu_task.transfer"
    source = operand_def(BUFFERS)
    result = result_def(BUFFERS)
    stream = opt_prop_def(IntegerAttr[I64])
    TOUCHES: ClassVar = ("source", "")
    assembly_format = "$source (`on` $stream^)? attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, t: Attribute, stream: int | None = None):
        super().__init__(
            operands=[source],
            result_types=[t],
            properties={"stream": None if stream is None else number(stream)},
        )

    def verify_(self) -> None:
        if not fits(self.source.type, self.result.type):
            raise VerifyException(f"{self.source.type} does not become {self.result.type}")
        check_spaces(self.source.type, self.result.type)


# ---- events ----------------------------------------------------------------------------------

EVENT = EventType()


@irdl_op_definition
class RecordOp(GeOp):
    """The event happens when all that was issued to the stream before is done. The device knows it
    by its number, which is free for another one when all waits for it are over."""

    name = "npu_task.record"
    number = prop_def(IntegerAttr[I64])
    stream = prop_def(IntegerAttr[I64])
    event = result_def(EVENT)
    assembly_format = "$number `on` $stream attr-dict"

    def __init__(self, event: int, stream: int):
        initialize(self, (), (EVENT,), {"number": number(event), "stream": number(stream)})
        self.event.name_hint = "event"


@irdl_op_definition
class WaitOp(GeOp):
    """Work issued to the stream after this starts when the event has happened. Both are in one
    block: streams are idle where another one begins."""

    name = "npu_task.wait"
    event = operand_def(EVENT)
    stream = prop_def(IntegerAttr[I64])
    assembly_format = "$event `on` $stream attr-dict"

    def __init__(self, event: SSAValue, stream: int):
        initialize(self, (event,), (), {"stream": number(stream)})

    def verify_(self) -> None:
        record = self.event.owner
        if not isinstance(record, RecordOp) or record.parent is not self.parent:
            raise VerifyException("waits for an event that is recorded in another block")


def event_number(op: RecordOp | WaitOp) -> int:
    """The number by which the device knows an event."""
    record = op if isinstance(op, RecordOp) else op.event.owner
    assert isinstance(record, RecordOp)
    return record.number.value.data
