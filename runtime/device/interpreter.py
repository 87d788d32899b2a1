"""Runs functions of any level on arrays: each op is translated once, then run many times.

`Translator` turns the ops of a block into the steps of an `executable.Code`; all blocks of a
function share one file of registers, so nested blocks see the values around them. An op with a
kernel becomes a call of it; what every other op becomes stands in the functions under
`@translates`, here and in `program_ops.py`. Constants, and the slots of the program level, are in
the registers before the first step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, UnrankedTensorType
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.dialects.tensor import CastOp, EmptyOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from ge.dialects.fused_op import CustomOp, FusedOp
from ge.dialects.fused_op import YieldOp as FusedYieldOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.control import YieldOp as GraphYieldOp
from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.control import YieldOp
from ge.dialects.npu_task.ops import KernelOp, LaunchOp, ReturnOp
from ge.dialects.support.diagnostics import location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import yielded
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import Dense, byte_size, is_dynamic, is_static
from ge.runtime import numbers
from ge.runtime.data.arrays import Array, array_of, dtype_of, type_of
from ge.runtime.data.npz import WITHOUT_MEMORY, require_memory
from ge.runtime.data.weights import Payload, restored
from ge.runtime.device.executable import (
    Call,
    Check,
    Code,
    Instruction,
    Registers,
    Step,
    reuse_operands,
)
from ge.runtime.device.memory import Device, PackedView
from ge.runtime.device.state import DeviceState
from ge.runtime.numbers.plan import Action, Scratch

OpT = TypeVar("OpT", bound=Operation)
Handler = Callable[["Translator", Any], None]

TERMINATORS = (FuncReturnOp, ReturnOp, FusedYieldOp, GraphYieldOp, YieldOp)

_HANDLERS: dict[type[Operation], Handler] = {}


def translates(*ops: type[OpT]) -> Callable[[Callable[["Translator", OpT], None]], Handler]:
    """Register the function below as the translation of these op classes."""

    def register(handler: Callable[["Translator", OpT], None]) -> Handler:
        for op in ops:
            _HANDLERS[op] = handler
        return handler

    return register


# ---- checks of results -----------------------------------------------------------------------


def checker(t: Attribute) -> Check:
    """A function that returns its argument as an array after checking it against a type.
    Raises GeError where they differ: a kernel is wrong, or an inferred type."""
    if isinstance(t, UnrankedTensorType):
        element, shape = cast(UnrankedTensorType[Attribute], t).element_type, None
    else:
        element, shape = data_type(t)
    dtype = dtype_of(element)
    sizes = [(i, d) for i, d in enumerate(shape or ()) if d >= 0]

    def is_one(actual: tuple[int, ...]) -> bool:
        return shape is None or (
            len(actual) == len(shape) and all(actual[i] == d for i, d in sizes)
        )

    fits = is_one if shape is None or not is_static(shape) else shape.__eq__

    def check(y: Any) -> Array:
        if type(y) is not np.ndarray:
            y = np.asarray(y)
        if y.dtype != dtype or not fits(y.shape):
            raise GeError(f"the kernel gives {type_of(y)} where {t} is declared")
        return y

    return check


MOST_SHAPES = 1024  # that an op remembers as fitting


def fitting(op: TensorOp, function: numbers.Fn) -> numbers.Fn:
    """A function that refuses operands whose sizes the op does not take, where types leave them
    open: numpy would repeat a single element. Raises VerifyException."""
    dynamic = [i for i, v in enumerate(op.operands) if is_dynamic(v.type)]
    known: set[tuple[tuple[int, ...], ...]] = set()
    if not dynamic or op.regions:
        return function

    def run(*arrays: Any, **named: Any) -> Any:
        shapes = tuple(arrays[i].shape for i in dynamic)
        if shapes not in known:
            sizes = {op.operands[i]: shape for i, shape in zip(dynamic, shapes, strict=True)}
            op.with_sizes(sizes.get)
            if len(known) < MOST_SHAPES:
                known.add(shapes)
        return function(*arrays, **named)

    return run


# ---- translation -----------------------------------------------------------------------------


class Translator:
    """Translates the blocks of one function over one register file."""

    def __init__(
        self,
        payload: Payload,
        device: Device | None = None,
        symbols: dict[str, KernelOp] | None = None,
        code_of: "CodeOf | None" = None,
    ) -> None:
        self.payload, self.device = payload, device or Device()
        self.symbols = symbols or {}  # the kernels of the module by name
        self.code_of: CodeOf = code_of or KernelCode
        # The registers before the first step: constants in place, None elsewhere
        self.template: Registers = []
        self.types: list[Attribute] = []  # the type of each register
        self.constants: set[int] = set()
        self.packed: set[int] = set()  # constants that are `PackedView`s
        self.states: list[DeviceState] = []
        self.bound: set[SSAValue] = set()  # slots whose memory each run brings with it
        self.code = Code()
        self.codes: list[Code] = []  # the codes of all blocks outside of kernels
        self._registers: dict[SSAValue, int] = {}
        self._kernels: dict[str, KernelRunner] = {}

    # ---- registers

    def define(self, value: SSAValue) -> int:
        index = self._registers[value] = self.reserve(value.type)
        return index

    def reserve(self, t: Attribute) -> int:
        self.template.append(None)
        self.types.append(t)
        return len(self.template) - 1

    def same_type(self, a: int, b: int) -> bool:
        element, shape = data_type(self.types[a])
        return is_static(shape) and (element, shape) == data_type(self.types[b])

    def is_scalar(self, register: int) -> bool:
        return set(data_type(self.types[register])[1]) <= {1}

    def constant(self, value: SSAValue, array: Array | PackedView | None) -> None:
        """A register that holds the same array in every run."""
        index = self.define(value)
        self.template[index] = array
        self.constants.add(index)

    def alias(self, value: SSAValue, of: SSAValue) -> None:
        self._registers[value] = self.use(of)

    def use(self, value: SSAValue) -> int:
        """The register of a value. Raises GeError before its definition."""
        if value not in self._registers:
            name = f" %{value.name_hint}" if value.name_hint else ""
            raise GeError(f"value{name} is used before it is defined")
        return self._registers[value]

    def uses(self, values: Iterable[SSAValue]) -> tuple[int, ...]:
        return tuple(self.use(v) for v in values)

    # ---- blocks

    def emit(
        self,
        op: Operation,
        action: Step | Call,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
    ) -> None:
        self.code.instructions.append(Instruction(action, op, tuple(reads), tuple(writes)))

    def block(
        self, block: Block, arguments: Sequence[int] | None = None
    ) -> tuple[Code, tuple[int, ...]]:
        """The code of a block without its terminator, and the registers that the terminator
        reads. The caller has defined the registers of the block's arguments; `arguments` are
        those that belong to the block, by default all."""
        around, self.code = self.code, Code()
        self.ops(block)
        results = self.uses(yielded(block))
        code, self.code = self.code, around
        self.seal(code, self.uses(block.args) if arguments is None else arguments, results)
        self.codes.append(code)
        return code, results

    def seal(self, code: Code, arguments: Sequence[int], results: Sequence[int]) -> None:
        live = {*results, *self.constants}
        reuse_operands(code, live, self.same_type)
        code.seal(arguments, live)

    def ops(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, TERMINATORS):
                return
            handler = _HANDLERS.get(type(op))
            try:
                if handler is not None:
                    handler(self, op)
                elif isinstance(op, FusedOp):
                    self.inline(op)
                elif op.results or not op.has_trait(NoMemoryEffect):
                    self.call(op)
            except GeError as e:
                raise e if e.where else GeError(e.message, str(location_of(op)), e.hint) from None

    def inline(self, op: FusedOp) -> None:
        custom = numbers.find_custom(op.kind.data) if isinstance(op, CustomOp) else None
        if custom is not None:
            self.call(op, numbers.OnContiguous(custom))
            return
        for arg, value in zip(op.block.args, op.inputs, strict=True):
            self.alias(arg, value)
        self.ops(op.block)
        for result, value in zip(op.results, op.yielded, strict=True):
            self.alias(result, value)

    def call(self, op: Operation, function: numbers.Fn | None = None) -> None:
        for result in op.results:
            self.check_size(result.type)
        function = numbers.prepare(op) if function is None else function
        known = numbers.find(type(op))
        reads = self.uses(op.operands)
        checks = tuple(checker(r.type) for r in op.results)
        writes = tuple(self.define(r) for r in op.results)
        into = known is not None and known.into
        in_place = numbers.may_overwrite(op, function)
        if isinstance(op, TensorOp):
            function = fitting(op, function)
        call = Call(function, reads, writes, checks, into, in_place)
        call.blocks = known is not None and known.blocks
        self.emit(op, call, reads, writes)

    def allocate(self, op: Operation, value: SSAValue, if_dynamic: str) -> None:
        """Make `value` a new array each time, whatever is in it.
        Raises GeError: `if_dynamic` for a dynamic shape, and for one too large."""
        element, shape = data_type(value.type)
        if not is_static(shape):
            raise GeError(if_dynamic)
        self.check_size(value.type)
        dtype, register = dtype_of(element), self.define(value)

        def empty(registers: Registers) -> None:
            registers[register] = np.empty(shape, dtype)

        self.emit(op, empty, (), (register,))

    def check_size(self, t: Attribute) -> None:
        element, shape = data_type(t)
        size = prod(max(d, 1) for d in shape) * dtype_of(element).itemsize
        require_memory(size, "a value of", t, hint=WITHOUT_MEMORY)

    def kernel(self, symbol: str) -> "KernelRunner":
        if symbol not in self._kernels:
            if symbol not in self.symbols:
                raise GeError(f"there is no kernel @{symbol}")
            self._kernels[symbol] = self.code_of(self.symbols[symbol], self.payload)
        return self._kernels[symbol]

    def value_of(self, value: Attribute, t: Attribute) -> Array:
        """The elements of a constant, read-only. Raises GeError when they are missing."""
        if isinstance(value, DenseIntOrFPElementsAttr):
            array = array_of(cast(Dense, value))
        elif isinstance(value, WeightAttr):
            weight = self.payload.get(value.data)
            if weight is None:
                file = getattr(self.payload, "path", None)
                raise GeError(
                    f"weight '{value.data}' is not in {file or 'the payload'}",
                    hint="put the weights beside the model, or use --random-weights or "
                    "--timing-only",
                )
            array = restored(weight, t)
        else:
            raise GeError(f"{value} is no constant")
        if data_type(type_of(array)) != data_type(t):
            raise GeError(f"the constant is {type_of(array)} where {t} is declared")
        array = array.view()
        array.flags.writeable = False
        return array


class KernelRunner(Protocol):
    """An object that runs a kernel on input arrays and, for static results, destinations."""

    output_types: tuple[Attribute, ...]

    def run(self, inputs: Sequence[Array], outs: Sequence[Array | None]) -> list[Array]: ...


CodeOf = Callable[[KernelOp, Payload], KernelRunner]


BOUND_BYTES = 1 << 24  # in an array, up to which calls are prepared, and keep memory for that


class KernelCode:
    """The code of a kernel: run on input arrays and, for static results, destinations."""

    def __init__(self, op: KernelOp, payload: Payload) -> None:
        translator = Translator(payload)
        block = op.body.block
        self.output_types = op.output_types
        self.inputs = tuple(translator.define(a) for a in block.args)
        translator.ops(block)
        self.results = translator.uses(yielded(block))
        self.outs = tuple(translator.reserve(t) for t in op.output_types)
        self.code = translator.code
        self.code.named = False
        self._finish_blocks(translator)
        shared = self._shared()
        # Results that may be views of an input, whose memory another result is written to
        self.views = [len(self.results) > 1 and r in shared for r in self.results]
        self.has_views = any(self.views)
        self._write_into_outs(shared)
        translator.seal(self.code, self.inputs, self.results)
        self.template, self.types = translator.template, translator.types

    def _finish_blocks(self, translator: Translator) -> None:
        """Have kernels that compute block by block apply the next op to each block at once."""
        merged: list[Instruction] = []
        readers = Counter(r for i in self.code.instructions for r in i.reads)
        readers.update(self.results)
        for instruction in self.code.instructions:
            call, before = instruction.action, merged[-1].action if merged else None
            if (
                isinstance(call, Call)
                and isinstance(before, Call)
                and before.blocks
                and call.in_place
                and call.reads.count(block := before.writes[0]) == readers[block] == 1
                and translator.same_type(block, call.writes[0])
                and all(translator.is_scalar(r) for r in call.reads if r != block)
            ):
                both = before.finished_by(call)
                merged[-1] = Instruction(both, merged[-1].op, both.reads, both.writes)
            else:
                merged.append(instruction)
        self.code.instructions[:] = merged

    def _shared(self) -> set[int]:
        shared = set(self.inputs)
        for instruction in self.code.instructions:
            call = instruction.action
            own = isinstance(call, Call) and call.into
            if not own and any(r in shared for r in instruction.reads):
                shared.update(instruction.writes)
        return shared

    def _write_into_outs(self, shared: set[int]) -> None:
        """Have kernels write results where they belong, once nothing reads an input any more:
        a destination may be the memory of an input."""
        if self.has_views:
            return
        for instruction in reversed(self.code.instructions):
            call = instruction.action
            if isinstance(call, Call) and call.into and len(call.writes) == 1:
                if self.results.count(call.writes[0]) == 1:
                    call.out = self.outs[self.results.index(call.writes[0])]
            if any(r in shared for r in instruction.reads):
                return

    def registers(self, inputs: Sequence[Array], outs: Sequence[Array | None]) -> Registers:
        """The registers before the first step."""
        registers = self.template.copy()
        registers[: len(inputs)] = inputs
        for r, out in zip(self.outs, outs, strict=True):
            registers[r] = out if out is None or out.flags.c_contiguous else None
        return registers

    def bind(
        self, inputs: Sequence[Array], outs: Sequence[Array], scratch: Scratch
    ) -> Action | None:
        """An action that does the same as `run`, each time with the elements of that time, for
        arrays that stay where they are; None where some step has to make its result itself, and for
        arrays so large that it takes long in any case."""
        if any(a.nbytes > BOUND_BYTES for a in (*inputs, *outs)):
            return None
        registers = self.registers(inputs, outs)
        for instruction in self.code.instructions:
            call = instruction.action
            if not isinstance(call, Call) or not call.into or len(call.writes) != 1:
                return None
            (result,) = call.writes
            array = None if call.out is None else registers[call.out]
            if array is None:
                element, shape = data_type(self.types[result])
                if not is_static(shape) or byte_size(self.types[result]) > BOUND_BYTES:
                    return None
                array = scratch(f"value {result}", shape, dtype_of(element))
            registers[result] = array
        compute = self.code.bind(registers, scratch)
        results = [registers[r] for r in self.results]
        apart = [(out, r) for out, r in zip(outs, results, strict=True) if out is not r]
        if not apart:
            return compute

        def run() -> None:
            compute()
            for out, result in apart:
                np.copyto(out, result)

        return run

    def run(self, inputs: Sequence[Array], outs: Sequence[Array | None]) -> list[Array]:
        """The results. Those with an array in `outs` are written there as well."""
        registers = self.registers(inputs, outs)
        self.code.run(registers)
        results = [registers[r] for r in self.results]
        if self.has_views:
            results = [r.copy() if view else r for r, view in zip(results, self.views, strict=True)]
        for i, (out, result) in enumerate(zip(outs, results, strict=True)):
            if out is None:
                results[i] = result if result.flags.c_contiguous else result.copy()
            elif out is not result:
                np.copyto(out, result)
        return results


# ---- ops on tensors --------------------------------------------------------------------------


@translates(ConstantOp)
def translate_constant(t: Translator, op: ConstantOp) -> None:
    t.constant(op.result, t.value_of(op.value, op.result.type))


@translates(EmptyOp)
def translate_empty(t: Translator, op: EmptyOp) -> None:
    if all(isinstance(use.operation, LaunchOp) for use in op.tensor.uses):
        t.constant(op.tensor, None)  # only says where a result goes; the launch makes a new array
        return
    t.allocate(op, op.tensor, "a tensor.empty of dynamic shape has no value")


@translates(CastOp)
def translate_cast(t: Translator, op: CastOp) -> None:
    t.alias(op.dest, op.source)
