"""Keep what a model hands from token to token (keys and values) in 8 bits.

    @main(%past: tensor<?x4x?x16xf32> {graph.name = "past"}, ...) -> (... {graph.name = "present"})
      %0 = graph.concat %past, %k axis 2
      %1 = graph.attention %q, %0, ...
      func.return %0
becomes
    @main(%past: tensor<?x4x?x16xi8> {graph.name = "past"}, ...,
          %s: tensor<?x4x?x1xf32> {graph.name = "past.scale"})
        -> (... {graph.name = "present"}, ... {graph.name = "present.scale"})
      %t = graph.maximum (graph.reduce max (graph.abs %k) axes [3]) / 127, ...
      %c = graph.quantize %k, %t to i8 axis 3 block_size 16
      %0 = graph.concat %past, %c axis 2
      %1 = graph.concat %s, %t axis 2
      %2 = graph.dequantize %past, %s axis 3 block_size 16
      %3 = graph.concat %2, %k axis 2
      %4 = graph.attention %q, %3, ...
      func.return %0, %1

Each row (of a token and a head) has a scale, and is quantized once: when its token is computed. A
cache is an input in floats that comes back, through ops that only move whole rows, with computed
rows behind a concat. Scales become the last inputs and outputs. Other readers of a cache get it
dequantized, and new rows unchanged; attention dequantizes as it loads (see fuse-attention).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeGuard

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, f8E4M3FN, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ge.dialects import graph as g
from ge.dialects.graph.stated import DIMS, STATE, dims_of, port
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.element_types import is_float
from ge.dialects.support.errors import GeError
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    DYNAMIC,
    array_ints,
    element_type,
    is_ranked,
    normalize_axis,
    rank_of,
    shape_of,
    tensor,
)
from ge.transforms.graph.control_flow import insert_before
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.graph.prune_outputs import output_names
from ge.transforms.quantization.emitting import at_run_time
from ge.transforms.quantization.layers import ConstantValues, argument_name
from ge.transforms.quantization.movement import with_input
from ge.transforms.quantization.schemes import CACHE_TYPES
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.passes import MainPass, OtherInputs, Relation

KINDS: dict[str, Attribute] = dict(zip(CACHE_TYPES, (i8, f8E4M3FN), strict=True))
SCALE = ".scale"  # behind the name of a cache


def moves_rows(op: Operation) -> TypeGuard[TensorOp]:
    """Return whether an op moves rows, along the last dimension of its first operand, unchanged."""
    if not isinstance(op, TensorOp) or not op.operands or not is_ranked(op.operands[0]):
        return False
    rank = rank_of(op.operands[0])
    match op:
        case g.GatherOp() | g.ConcatOp() | g.SplitOp():
            return op.axis.value.data != rank - 1
        case g.TransposeOp():
            return array_ints(op.permutation)[-1] == rank - 1
        case g.UnsqueezeOp() | g.SqueezeOp() | g.SliceOp():
            axes = op.ints("axes")
            if isinstance(op, g.UnsqueezeOp):
                rank += len(axes or ())
            return axes is not None and rank - 1 not in (normalize_axis(a, rank) for a in axes)
        case g.ReshapeOp():
            same = shape_of(op.input)[-1:] == shape_of(op.result)[-1:] != (DYNAMIC,)
            return same and bool(op.ints("shape"))
        case g.CastOp():
            return is_float(element_type(op.input)) and is_float(op.to)
        case _:
            return False


def caches(main: FuncOp) -> list[BlockArgument]:
    """The inputs that come back with rows appended."""
    block = main.body.block
    origins: dict[SSAValue, dict[BlockArgument, None]] = {
        a: {a: None}
        for a in block.args
        if is_ranked(a) and is_float(element_type(a)) and shape_of(a)[-1:] not in ((), (DYNAMIC,))
    }
    found: dict[BlockArgument, None] = {}
    appended, constants = set[SSAValue](), ConstantValues(block)
    for op in block.ops:
        if isinstance(op, ReturnOp):
            for v in op.operands:
                found |= origins[v] if v in appended else {}
        elif moves_rows(op):
            moved = op.operands if isinstance(op, g.ConcatOp) else op.operands[:1]
            inside = [v for v in moved if v in origins]
            if not inside:
                continue
            joined = origins[inside[0]]
            if all(v in appended for v in moved):  # of several layers
                joined = {a: None for v in inside for a in origins[v]}
            origins.update((r, joined) for r in op.results)
            others = [v for v in moved if v not in constants and origins.get(v) != joined]
            if others or inside[0] in appended:
                appended.update(op.results)
    return [a for a in block.args if a in found]


@dataclass
class Rewrite:
    """Values of caches as codes and scales."""

    main: FuncOp
    to: Attribute
    stored: dict[SSAValue, tuple[SSAValue, SSAValue]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, SSAValue]]
    )
    floats: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self, inputs: Sequence[BlockArgument]) -> None:
        block, attrs = self.main.body.block, self.main.arg_attrs
        tables = [DictionaryAttr({}) for _ in block.args] if attrs is None else list(attrs.data)
        tables += [of_scale(tables[a.index], argument_name(a), rank_of(a)) for a in inputs]
        old: list[Operation] = []
        for arg in inputs:
            self.take(arg)
        for op in list(block.ops):
            if isinstance(op, ReturnOp):
                self.return_scales(op)
            elif not any(v in self.stored for o in op.walk() for v in o.operands):
                continue
            elif moves_rows(op) and (op.operands[0] in self.stored or isinstance(op, g.ConcatOp)):
                self.move(op)
                if isinstance(op, g.ConcatOp) and not all(v in self.stored for v in op.inputs):
                    self.read(op)  # new rows are read as they are
                    self.floats[op.result] = op.result
                else:
                    old.append(op)
            else:
                self.read(op)
        for op in reversed(old):
            block.erase_op(op)
        for arg in inputs:
            block.erase_arg(arg)
        self.main.arg_attrs = ArrayAttr(tables)
        refresh_signature(self.main)

    def take(self, arg: BlockArgument) -> None:
        """Put arguments for codes and scales beside one of floats."""
        block, shape = self.main.body.block, shape_of(arg)
        codes = block.insert_arg(tensor(shape, self.to), arg.index)
        scales = block.insert_arg(tensor((*shape[:-1], 1), element_type(arg)), len(block.args))
        codes.name_hint = arg.name_hint
        scales.name_hint = arg.name_hint and f"{arg.name_hint}_scale"
        self.stored[arg] = codes, scales

    def move(self, op: TensorOp) -> None:
        """The same movement of codes and of scales."""
        make = Make()
        if isinstance(op, g.CastOp):
            codes, scales = self.stored[op.input]
            self.stored[op.result] = codes, insert_before(op, g.CastOp.of(scales, to=op.to)).result
            return
        if isinstance(op, g.ReshapeOp):
            codes, scales = self.stored[op.input]
            shape, zeros = op.ints("shape") or (), op.allow_zero
            new = [
                make.op(g.ReshapeOp, v, None, shape=[*shape[:-1], size], allow_zero=zeros)
                for v, size in ((codes, shape_of(codes)[-1]), (scales, 1))
            ]
        elif isinstance(op, g.ConcatOp):
            parts = [self.stored.get(v) or self.computed(v, op) for v in op.inputs]
            new = [make.op(g.ConcatOp, list(p), axis=op.axis) for p in zip(*parts, strict=True)]
        else:
            new = [with_input(op, v, make) for v in self.stored[op.operands[0]]]
        for made in make.ops:
            made.location = op.location
            self.main.body.block.insert_op_before(made, op)
        for i, result in enumerate(op.results):
            self.stored[result] = new[0].results[i], new[1].results[i]

    def computed(self, value: SSAValue, before: Operation) -> tuple[SSAValue, SSAValue]:
        """Rows that are not in a cache yet."""
        depth, emit = shape_of(value)[-1], Make(before)
        pair = at_run_time(emit, value, self.to, rank_of(value) - 1, depth).owner
        assert isinstance(pair, g.DequantizeOp)
        return pair.input, pair.scale

    def read(self, op: Operation) -> None:
        """Let an op, and the ops in it, read floats."""
        for inner in op.walk():
            for i, value in enumerate(inner.operands):
                if value not in self.stored:
                    continue
                if value not in self.floats:
                    depth, emit = shape_of(value)[-1], Make(op)
                    pair, axis = self.stored[value], rank_of(value) - 1
                    self.floats[value] = emit(g.DequantizeOp, *pair, axis=axis, block_size=depth)
                inner.operands[i] = self.floats[value]

    def return_scales(self, op: ReturnOp) -> None:
        names, outputs = output_names(self.main), list(op.operands)
        attrs = self.main.res_attrs
        tables = [DictionaryAttr({}) for _ in names] if attrs is None else list(attrs.data)
        for i, value in enumerate(op.operands):
            if value in self.stored:
                outputs[i], scales = self.stored[value]
                outputs.append(scales)
                tables.append(of_scale(tables[i], names[i], rank_of(scales)))
        op.operands = outputs
        self.main.res_attrs = ArrayAttr(tables)


def of_scale(table: DictionaryAttr, name: str, rank: int) -> DictionaryAttr:
    """The attributes of scales, from those of a cache."""
    attrs: dict[str, Attribute] = {**table.data, **port(name + SCALE)}
    if isinstance(becomes := attrs.get(STATE), StringAttr):
        attrs[STATE] = StringAttr(becomes.data + SCALE)
    if DIMS in attrs:
        dims = (*dims_of(attrs, rank)[:-1], "")
        attrs[DIMS] = ArrayAttr([StringAttr(d) for d in dims])
    return DictionaryAttr(attrs)


@dataclass(frozen=True)
class QuantizeCachePass(MainPass):
    """Keep caches, inputs that come back with rows appended, in 8 bits with a scale for each row.
    `to`: int8 or fp8 (f8E4M3FN)."""

    name = "quantize-cache"
    RELATION: ClassVar[Relation] = OtherInputs()

    to: str = "int8"

    def run(self, main: FuncOp) -> None:
        if self.to not in KINDS:
            raise GeError(f"a cache is kept in {' or '.join(KINDS)}, not in '{self.to}'")
        if not (inputs := caches(main)):
            what = "no input comes back as an output with computed rows appended"
            raise error_at(main, "the model has no cache to quantize", what)
        Rewrite(main, KINDS[self.to]).run(inputs)
