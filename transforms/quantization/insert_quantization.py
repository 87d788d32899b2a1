"""Put quantize and dequantize around what layers multiply: a float graph becomes one in QDQ form.

    %y = graph.matmul %x, %w                              %x {graph.range = [-1.0, 3.0]}
becomes, for scheme int8,
    %q = graph.quantize %x, %s, %z to i8                  one step of the range is (3 - -1) / 255
    %d = graph.dequantize %q, %s, %z
    %wq = graph.quantize %w, %sw to i8 {axis = 1}         %sw is max |w| / 127 of each column
    %wd = graph.dequantize %wq, %sw {axis = 1}
    %y = graph.matmul %d, %wd

and for the schemes of weights alone
    %wq = graph.quantize %w, %sw to i4 {axis = 0, block_size = 32}
    %wd = graph.dequantize %wq, %sw {axis = 0, block_size = 32}
    %y = graph.matmul %x, %wd

Attention, whose query, key and value are quantized by int8, also rounds its weights. It stays float
where keys or values are inputs of the model (a cache), as all of them would be quantized in each
run, and where the launch would take longer by the cost model.

What depends on weights is an expression of constants (see prepare-weights), so no weights are
needed here. Zero is always represented exactly. Results of layers stay float: the next layer
quantizes what it reads, once for all layers that read it, and sums, norms, softmax and masked
scores are not quantized at all. What stays float is told in a remark.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.attention import AttentionLike, AttentionOp
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp, DeformConvOp
from ge.dialects.graph.linear import EinsumOp, MatmulOp
from ge.dialects.graph.quantization import DequantizeOp
from ge.dialects.graph.recurrent import GruOp, LstmOp, RnnOp
from ge.dialects.support import diagnostics
from ge.dialects.support.access import MOVING
from ge.dialects.support.element_types import i4
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type
from ge.dialects.targets.target import Target, target_for
from ge.runtime.data.arrays import Array, dtype_of, float_limits
from ge.transforms.quantization.attention_layers import lost_us
from ge.transforms.quantization.calibrate import range_of, set_range
from ge.transforms.quantization.data import calibration_at_hand
from ge.transforms.quantization.emitting import Emitter, by_channel, by_group
from ge.transforms.quantization.layers import (
    ConstantValues,
    Layer,
    activations,
    all_names,
    factors_of,
    layers,
)
from ge.transforms.quantization.schemes import INT8, Scheme, scheme_of
from ge.transforms.quantization.table import Range
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.relations import Relation, Unbounded

RULE = "insert-quantization"


def quantizer(bounds: Range, element: Attribute, symmetric: bool) -> tuple[Array, Array] | None:
    """Scale and zero point of a range that zero is put into; None for zero alone."""
    dtype = dtype_of(element)
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    step = max(-low, high) / 127 if symmetric else (high - low) / 255
    if not step:
        return None
    scale = np.asarray(max(step, float(float_limits(dtype).smallest_normal)), dtype)
    zero = 0 if symmetric else np.clip(np.rint(-128 - low / float(scale)), -128, 127)
    return scale, np.asarray(zero, np.int8)


@dataclass
class Insertion:
    """What is inserted into one function."""

    main: FuncOp
    scheme: Scheme
    target: Target
    skip: Sequence[re.Pattern[str]] = ()
    symmetric: bool = True
    matched: set[re.Pattern[str]] = field(default_factory=set[re.Pattern[str]])  # of `skip`
    layers: list[Layer] = field(default_factory=list[Layer])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    # What stands for an activation, and for a weight on one side of a kind of op
    quantized: dict[tuple[SSAValue, bool], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, bool], SSAValue]
    )
    weights: dict[tuple[SSAValue, int, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int, int], SSAValue]
    )

    def run(self) -> None:
        self.layers = layers(self.main)
        self.names = activations(self.layers)
        for layer in self.layers:
            if reason := self.reason_to_skip(layer) or self.reason_to_keep(layer):
                remarks.missed(RULE, layer.op, f"'{layer.name}' stays float: {reason}")
            else:
                self.quantize(layer)
                remarks.applied(RULE, layer.op, f"'{layer.name}' in {self.scheme.name}")

    def reason_to_skip(self, layer: Layer) -> str:
        texts = [layer.name, layer.op.name, *all_names(layer.op)]
        texts += [self.names[layer.op.operands[i]] for i in layer.activations]
        for pattern in self.skip:
            if any(map(pattern.search, texts)):
                self.matched.add(pattern)
                return f"it is left out by '{pattern.pattern}'"
        precision = calibration_at_hand().table.layers.get(layer.name)
        return f"the table says {precision}" if precision is not None else ""

    def reason_to_keep(self, layer: Layer) -> str:
        """Why a layer cannot be quantized; empty where it can."""
        factors = factors_of(layer.op)
        if any(isinstance(v.owner, DequantizeOp) for v in factors):
            return "the model has it quantized"
        if not self.scheme.activation_bits:
            return "" if layer.weight is not None else "it has no weights"
        if isinstance(layer.op, AttentionOp) and any(map(is_input, factors[1:])):
            return "its keys or values are inputs of the model"
        if isinstance(layer.op, AttentionOp) and (us := lost_us(layer.op, self.target)) > 0:
            return f"its launch would take {us:.1f} us longer"
        for i in layer.activations:
            value = layer.op.operands[i]
            if (bounds := range_of(value)) is None:
                return f"the range of its input '{self.names[value]}' is not known"
            if bounds[0] == bounds[1] == 0:
                return f"its input '{self.names[value]}' is zero in all samples"
        return ""

    def quantize(self, layer: Layer) -> None:
        if self.scheme.activation_bits:
            symmetric = layer.weight is None  # else both zero points need sums of the other side
            for i in layer.activations:
                layer.op.operands[i] = self.activation(layer.op.operands[i], symmetric)
        if layer.weight is not None:
            layer.op.operands[layer.weight] = self.weight(layer)
        if isinstance(layer.op, AttentionOp):
            layer.op.rounded_weights = BoolAttr.from_bool(True)

    def activation(self, value: SSAValue, symmetric: bool) -> SSAValue:
        key = value, symmetric
        if key not in self.quantized:
            bounds = range_of(value)
            assert bounds is not None
            numbers = quantizer(bounds, element_type(value), symmetric)
            assert numbers is not None
            emit = Emitter.behind(value)
            scale = emit.constant(numbers[0])
            zero_point = None if symmetric else emit.constant(numbers[1])
            self.quantized[key] = emit.pair(value, scale, zero_point, i8)
        return self.quantized[key]

    def weight(self, layer: Layer) -> SSAValue:
        assert layer.weight is not None
        value, axis, summed = layer.op.operands[layer.weight], layer.channel_axis, layer.input_axis
        key = value, axis, summed
        if key not in self.weights:
            emit = Emitter(layer.op, layer.op.location)
            if (block := self.scheme.block) and isinstance(layer.op, MatmulOp):
                result = by_group(emit, value, summed, block, i4, self.symmetric)
            else:
                result = by_channel(emit, value, axis, i8)
            self.weights[key] = result
        return self.weights[key]


def is_input(value: SSAValue) -> bool:
    """Whether some elements of a value are those of a block's argument, moved at most."""
    todo, seen = [value], set[SSAValue]()
    while todo:
        op = todo.pop().owner
        if isinstance(op, Block):
            return True
        if isinstance(op, TensorOp) and op.ACCESS in MOVING:
            new = [v for v in op.operands if v not in seen]
            seen.update(new)
            todo += new
    return False


OTHERS = (
    AttentionLike,
    ConvOp,
    ConvTransposeOp,
    DeformConvOp,
    EinsumOp,
    GruOp,
    LstmOp,
    MatmulOp,
    RnnOp,
)


def tell_others(main: FuncOp, layer_ops: Collection[Operation]) -> None:
    """Remark the ops that multiply and are no layers here."""
    if not remarks.wanted():
        return
    constants = ConstantValues(main.body.block)
    for op in main.walk():
        if not isinstance(op, OTHERS) or op in layer_ops or op.results[0] in constants:
            continue
        elif op.parent is not main.body.block:
            why = "what is in a branch or loop stays float"
        else:
            why = f"{op.name} on these operands stays float"
        remarks.missed(RULE, op, why)


def patterns(texts: Iterable[str]) -> list[re.Pattern[str]]:
    """Raises GeError for what is no regular expression."""
    result: list[re.Pattern[str]] = []
    for text in texts:
        try:
            result.append(re.compile(text))
        except re.error as e:
            raise GeError(f"'{text}' is no regular expression: {e}") from None
    return result


def insert_quantization(
    main: FuncOp,
    scheme: Scheme,
    target: Target,
    skip: Sequence[str] = (),
    symmetric: bool = True,
) -> None:
    """Bring a float graph into QDQ form. Raises GeError for what is no regular expression."""
    insertion = Insertion(main, scheme, target, patterns(skip), symmetric)
    insertion.run()
    if calibration_at_hand().samples is None:
        for pattern in insertion.skip:
            if pattern not in insertion.matched:
                diagnostics.warning(main, f"there is no layer '{pattern.pattern}' to leave out")
    tell_others(main, [layer.op for layer in insertion.layers])
    for value in insertion.names:
        set_range(value, None)


@dataclass(frozen=True)
class InsertQuantizationPass(ModulePass):
    """Quantize what layers multiply.
    `scheme`: int8 (activations and weights), w8a16 or w4a16 (weights alone, 4 bits in groups of
    32); `skip`: regular expressions, found in the names of layers or their inputs, or in the names
    of ops; `asymmetric`: groups of weights have a zero point; `target`: preset name, or path of a
    target file, whose times decide on attention."""

    name = "insert-quantization"
    RELATION: ClassVar[Relation] = Unbounded()

    scheme: str = INT8
    skip: tuple[str, ...] = ()
    asymmetric: bool = False
    target: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheme = scheme_of(self.scheme)
        if (main := main_function(op)) is not None:
            target = target_for(main, self.target)
            insert_quantization(main, scheme, target, self.skip, not self.asymmetric)
