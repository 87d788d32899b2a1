"""Put quantize and dequantize around what layers multiply: a float graph becomes one in QDQ form.

    %y = graph.matmul %x, %w                              %x {graph.range = [-1.0, 3.0]}
becomes, for scheme int8,
    %q = graph.quantize %x, %s, %z to i8                  one step of the range is (3 - -1) / 255
    %d = graph.dequantize %q, %s, %z
    %wq = graph.quantize %w, %sw to i8 axis 1         %sw is max |w| / 127 of each column
    %wd = graph.dequantize %wq, %sw axis 1
    %y = graph.matmul %d, %wd

(for int16 without zero point, in steps of max |x| / 32767, and for fp8 to f8E4M3FN, weights too),
for scheme dynamic
    %m = graph.reduce max (graph.abs %x) axes [1]
    %s = graph.maximum (%m / 127), 1.17549435e-38         a scale for each row
    %q = graph.quantize %x, %s to i8 axis 1 block_size 64
    %d = graph.dequantize %q, %s axis 1 block_size 64

(before a convolution with a scale for each sample, before a matmul that does not sum along rows
with one for the tensor; codes have no sign where elements have none), and for the schemes of
weights alone
    %wq = graph.quantize %w, %sw to i4 axis 0 block_size 32    %sw is rounded to f16
    %wd = graph.dequantize %wq, %sw axis 0 block_size 32
    %y = graph.matmul %x, %wd

(for mxfp4 and nvfp4 to f4E2M1FN). A weight that is fitted, which the table says, has codes and
scales that are constants.

Tables of embeddings (see layers.py) have 8 bits (16 in scheme int16), with a scale for each
column:
    %tq = graph.quantize %table, %st to i8 axis 1
    %td = graph.dequantize %tq, %st axis 1
    %x = graph.gather %td, %tokens

Attention, whose query, key and value are quantized by int8, also rounds its weights. It stays float
where keys or values are inputs of the model (a cache), as all of them would be quantized in each
run, and where the launch would take longer by the cost model.

What depends on weights is an expression of constants (see prepare-weights), so no weights are
needed here. Zero is always represented exactly. Results of layers stay float: the next layer
quantizes what it reads, once for all layers of a scheme that read it, and sums, norms, softmax and
masked scores are not quantized at all. A layer that the table has another scheme for takes that. A
remark names each layer that stays float.

Recurrent layers have both weights in 8 bits, with a scale for each row (4 bits would be too few:
what they round adds up over steps); by int8 also the input, and the states that they multiply
(`state_scale`), unless that would take longer by the cost model. No other scheme rounds states.

`Limits` says what the elements of values cannot go beyond, by the ops that compute them.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerType, ModuleOp, f8E4M3FN, f64, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import graph as g
from ge.dialects.graph.stated import state_codes
from ge.dialects.support import diagnostics
from ge.dialects.support.boxes import MOVING
from ge.dialects.support.diagnostics import sources_of
from ge.dialects.support.element_types import element_named, is_integer, ui8
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.patterns import UserPattern, user_pattern
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import element_type, rank_of, shape_of
from ge.dialects.targets.target import Target, target_for
from ge.runtime.data.arrays import Array, dtype_of, float_limits, type_of
from ge.runtime.data.weights import payload_at_hand
from ge.transforms.quantization.calibrate import range_of, set_range
from ge.transforms.quantization.data import calibration_at_hand
from ge.transforms.quantization.emitting import (
    at_run_time,
    by_channel,
    by_float_group,
    by_group,
    code_limits,
    codes_name,
    pair,
)
from ge.transforms.quantization.layers import (
    ConstantValues,
    Embedding,
    Layer,
    activations,
    all_names,
    base_name,
    embeddings,
    factors_of,
    layers,
    numbered,
)
from ge.transforms.quantization.linear_layers import BITS, lost_in_steps_us, lost_us
from ge.transforms.quantization.observe import Observer
from ge.transforms.quantization.schemes import FLOAT, INT8, SCHEMES, W8A16, Scheme, scheme_of
from ge.transforms.quantization.table import Range, unpacked_codes
from ge.transforms.rewriting import remarks
from ge.transforms.rewriting.building import Make
from ge.transforms.rewriting.passes import Relation, Unbounded

ANY: Range = -math.inf, math.inf

LIMITS: dict[type[Operation], Range] = {
    g.ReluOp: (0.0, math.inf),
    g.SigmoidOp: (0.0, 1.0),
    g.HardSigmoidOp: (0.0, 1.0),
    g.SoftmaxOp: (0.0, 1.0),
    g.TanhOp: (-1.0, 1.0),
    g.GeluOp: (-0.1701, math.inf),
}

KINDS = ("max", "min", "mean", "average")  # of reductions that stay within what they reduce


class Limits:
    """Bounds of the elements of values, by the ops that compute them."""

    def __init__(self, observer: Observer) -> None:
        self.constants, self.constant = observer.constants, observer.constant

    def of(self, value: SSAValue) -> Range:
        op = value.owner
        if not isinstance(op, Operation):
            return ANY
        if type(op) in LIMITS:
            return LIMITS[type(op)]
        match op:
            case g.SiluOp(alpha=alpha) if alpha.value.data > 0:
                return -0.2785 / alpha.value.data, math.inf
            case g.PoolOp(kind=kind) | g.ReduceOp(kind=kind) if kind.data in KINDS:
                return self.of(op.operands[0])
            case g.ReshapeOp() | g.SqueezeOp() | g.UnsqueezeOp() | g.TransposeOp():
                return self.of(op.operands[0])
            case g.ClampOp():
                return self.within(self.of(op.input), op.low, op.high)
            case g.MinimumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), None, op.rhs)
            case g.MaximumOp() if op.rhs in self.constants:
                return self.within(self.of(op.lhs), op.rhs, None)
            case _:
                return ANY

    def within(self, range: Range, low: SSAValue | None, high: SSAValue | None) -> Range:
        least, most = range
        if low is not None and low in self.constants:
            least = max(least, float(self.constant(low).min()))
        if high is not None and high in self.constants:
            limits = self.constant(high)
            least, most = min(least, float(limits.min())), min(most, float(limits.max()))
        return least, most


RULE = "insert-quantization"
SHORT = 1024  # bytes of a constant that stands in the text


def quantizer(value: SSAValue, to: Attribute, symmetric: bool) -> tuple[Array, Array]:
    """Scale and zero point for the range of a value, which zero is put into."""
    bounds = range_of(value)
    assert bounds is not None
    dtype, (least, most) = dtype_of(element_type(value)), code_limits(to)
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    assert low < high
    step = max(-low, high) / most if symmetric else (high - low) / (most - least)
    scale = np.asarray(max(step, float(float_limits(dtype).smallest_normal)), dtype)
    zero = 0 if symmetric else np.clip(np.rint(least - low / float(scale)), least, most)
    return scale, np.asarray(zero, dtype_of(to))


@dataclass
class Insertion:
    """The insertions into one function."""

    main: FuncOp
    scheme: Scheme
    target: Target
    skip: Sequence[UserPattern] = ()
    symmetric: bool = True
    matched: set[UserPattern] = field(default_factory=set[UserPattern])  # of `skip`
    layers: list[Layer] = field(default_factory=list[Layer])
    embeddings: list[Embedding] = field(default_factory=list[Embedding])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    # What stands for an activation, and for a weight on one side of a kind of op
    quantized: dict[tuple[SSAValue, Attribute, bool], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Attribute, bool], SSAValue]
    )
    at_run_time: dict[tuple[SSAValue, int | None, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int | None, int], SSAValue]
    )
    weights: dict[tuple[SSAValue, int, int, int, tuple[int, bool]], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int, int, int, tuple[int, bool]], SSAValue]
    )

    codes: dict[str, list[tuple[float, int]]] = field(
        default_factory=dict[str, list[tuple[float, int]]]
    )  # scale and zero point of activations, by the nodes that they come from

    def __post_init__(self) -> None:
        self.layers = layers(self.main)
        self.names = activations(self.layers)

    def run(self) -> None:
        self.embeddings = embeddings(self.main, self.layers)
        self.limits = Limits(Observer(self.main))
        calibration = calibration_at_hand()
        for layer in self.layers:
            facts = calibration.facts(layer.name, layer.op)
            name, alone = self.chosen(layer)
            scheme, reason = SCHEMES.get(name), self.reason(layer)
            if reason or scheme is None:
                facts.scheme, facts.reason = FLOAT, facts.reason or reason
                remarks.missed(RULE, layer.op, f"'{layer.name}' stays float: {facts.reason}")
            else:
                self.quantize(layer, scheme)
                facts.scheme, facts.reason = name, facts.reason or alone
                why = f": {facts.reason}" if facts.reason else ""
                remarks.applied(RULE, layer.op, f"'{layer.name}' in {name}{why}")

        for embedding in self.embeddings:
            self.add_table(embedding)
        if self.codes:
            state_codes(self.main, self.codes)

    def add_table(self, embedding: Embedding) -> None:
        op, calibration = embedding.op, calibration_at_hand()
        name = calibration.table.layers.get(embedding.name, self.scheme.name)
        reason = self.reason_to_skip(op, embedding.texts())
        bits = SCHEMES[name].table_bits if name in SCHEMES else 0
        if not reason and not bits:
            reason = f"{name} has no tables" if name in SCHEMES else f"the table says {name}"
        facts = calibration.facts(embedding.name, op)
        facts.scheme, facts.reason = FLOAT if reason else name, facts.reason or reason
        if reason:
            remarks.missed(RULE, op, f"'{embedding.name}' keeps floats: {facts.reason}")
            return
        table = embedding.table
        key = table, rank_of(table) - 1, -1, 0, (bits, False)
        if key not in self.weights:
            emit = Make(op)
            self.weights[key] = by_channel(emit, table, rank_of(table) - 1, IntegerType(bits))
        op.operands[embedding.index] = self.weights[key]
        remarks.applied(RULE, op, f"'{embedding.name}' takes its table in {bits} bits")

    def texts(self, layer: Layer) -> list[str]:
        """Return the texts that people may know a layer by."""
        inputs = (self.names[layer.op.operands[i]] for i in layer.activations)
        return [layer.name, layer.op.name, *all_names(layer.op), *inputs]

    def reason(self, layer: Layer) -> str:
        """Return why a layer stays float; empty if it does not."""
        if skipped := self.reason_to_skip(layer.op, self.texts(layer)):
            return skipped
        name, _ = self.chosen(layer)
        scheme = SCHEMES.get(name)
        return self.reason_to_keep(layer, scheme) if scheme else f"the table says {name}"

    def chosen(self, layer: Layer) -> tuple[str, str]:
        """Return the scheme of a layer, or what the table has in its place; and why it is that of
        weights alone, if it is not what was asked for."""
        name = calibration_at_hand().table.layers.get(layer.name, self.scheme.name)
        if not isinstance(layer.op, g.Recurrent) or name not in SCHEMES:
            return name, ""
        if not SCHEMES[name].activation_bits:
            return name, ""
        if name != INT8:
            return W8A16, f"its states are not quantized by {name}"
        us = lost_in_steps_us(layer.op, self.target)
        if us is None:
            return W8A16, "its sizes are not known"
        return (name, "") if us < 0 else (W8A16, f"integers would take {us:.1f} us longer")

    @cached_property
    def known(self) -> tuple[set[str], set[str]]:
        """The names of layers and tables, and all texts that people may know them by."""
        found = [(layer.op, self.texts(layer)) for layer in self.layers]
        found += [(e.op, e.texts()) for e in embeddings(self.main, self.layers)]
        own = {name for op, texts in found for name in (texts[0], *all_names(op))}
        return own, {text for _, texts in found for text in texts}

    def is_meant(self, pattern: UserPattern, op: Operation, texts: Sequence[str]) -> bool:
        """Return whether a pattern is the name of a layer; or if it is that of none, the name of
        what it reads or of its kind; or else is found in one of these."""
        text = pattern.pattern
        for known, names in zip(self.known, ([texts[0], *all_names(op)], texts), strict=True):
            if text in known:
                return text in names
        return any(map(pattern.search, texts))

    def reason_to_skip(self, op: Operation, texts: Sequence[str]) -> str:
        if calibration_at_hand().keeps(op):
            return "keep_dtype names it"
        for pattern in self.skip:
            if self.is_meant(pattern, op, texts):
                self.matched.add(pattern)
                return f"it is left out by '{pattern.pattern}'"
        return ""

    def reason_to_keep(self, layer: Layer, scheme: Scheme) -> str:
        """Return why a layer cannot be quantized; empty if it can."""
        factors = factors_of(layer.op)
        if any(isinstance(v.owner, g.DequantizeOp) for v in factors):
            return "the model has it quantized"
        if not scheme.is_calibrated:
            return "" if layer.weight is not None else "it has no weights"
        if why := self.reason_of_attention(layer.op, scheme):
            return why
        for value in layer.multiplied:
            what = "state" if value.owner is layer.op else "input"
            if (bounds := range_of(value)) is None:
                return f"the range of its {what} '{self.names[value]}' is not known"
            if bounds[0] == bounds[1] == 0:
                return f"its {what} '{self.names[value]}' is zero in all samples"
        return ""

    def reason_of_attention(self, op: Operation, scheme: Scheme) -> str:
        if not isinstance(op, g.AttentionOp):
            return ""
        if scheme.activation_bits != BITS or scheme.is_float:
            return f"attention is computed in integers of {BITS} bits or in floats"
        if any(map(is_input, factors_of(op)[1:])):
            return "its keys or values are inputs of the model"
        us = lost_us(op, self.target)
        return f"its launch would take {us:.1f} us longer" if us > 0 else ""

    def quantize(self, layer: Layer, scheme: Scheme) -> None:
        if scheme.is_dynamic:
            i = layer.activations[0]
            layer.op.operands[i] = self.computed(layer, i)
        elif scheme.activation_bits:
            # without a weight both zero points need sums of the other side
            symmetric = scheme.is_symmetric or layer.weight is None
            to = f8E4M3FN if scheme.is_float else IntegerType(scheme.activation_bits)
            for i in layer.activations:
                layer.op.operands[i] = self.activation(layer.op.operands[i], to, symmetric)
        for i in layer.weights:
            layer.op.operands[i] = self.weight(layer, i, scheme)
        if isinstance(layer.op, g.AttentionOp):
            layer.op.rounded_weights = BoolAttr.from_bool(True)
        if isinstance(layer.op, g.Recurrent) and scheme.activation_bits:
            scale, _ = quantizer(layer.op.states, i8, symmetric=True)
            layer.op.state_scale = FloatAttr(float(scale), f64)

    def activation(self, value: SSAValue, to: Attribute, symmetric: bool) -> SSAValue:
        key = value, to, symmetric
        if key not in self.quantized:
            numbers = quantizer(value, to, symmetric)
            emit = Make.behind(value)
            scale = emit.constant(numbers[0])
            zero_point = None if symmetric else emit.constant(numbers[1])
            if isinstance(value.owner, Operation):
                codes = float(numbers[0]), int(numbers[1])
                for name in sources_of(value.owner):
                    self.codes.setdefault(name, []).append(codes)
            self.quantized[key] = pair(emit, value, scale, zero_point, to)
        return self.quantized[key]

    def computed(self, layer: Layer, index: int) -> SSAValue:
        """An activation whose scale is computed."""
        value, weight = layer.op.operands[index], layer.weight
        assert weight is not None
        axis, depth = None, 0
        if not isinstance(layer.op, g.MatmulOp):
            axis = 0
        elif not index and not layer.op.transpose_lhs.value.data:
            axis = rank_of(value) - 1
            depth = shape_of(layer.op.operands[weight])[layer.input_axis]
        key = value, axis, depth
        if key not in self.at_run_time:
            to = ui8 if self.limits.of(value)[0] >= 0 else i8
            pair = at_run_time(Make.behind(value), value, to, axis, depth)
            self.at_run_time[key] = pair
        return self.at_run_time[key]

    def weight(self, layer: Layer, index: int, scheme: Scheme) -> SSAValue:
        value, axis, summed = layer.op.operands[index], layer.channel_axis, layer.input_axis
        block = scheme.block if isinstance(layer.op, g.MatmulOp) else 0
        bits = scheme.weight_bits if block else BITS
        key = value, axis, summed, block, (bits, scheme.is_float)
        if key not in self.weights:
            emit, fits = Make(layer.op), self.fits_f16
            if block and scheme.is_float:
                result = by_float_group(
                    emit, value, summed, block, element_named(scheme.scale), fits
                )
            elif block:
                to = IntegerType(bits)
                result = by_group(emit, value, summed, block, to, self.symmetric, fits)
            else:
                is_float = scheme.is_float and not scheme.block
                result = by_channel(emit, value, axis, f8E4M3FN if is_float else i8)
            self.weights[key] = result
            self.take_fitted(layer, result)
        return self.weights[key]

    def take_fitted(self, layer: Layer, weight: SSAValue) -> None:
        """Take the codes that the table has for a weight, and its scales as they are, so that the
        program needs no floats of it."""
        text, op = calibration_at_hand().table.fitted.get(layer.name), weight.owner
        if text is None:
            return
        assert isinstance(op, g.DequantizeOp)
        assert isinstance(op.input.owner, g.QuantizeOp)
        element, differences = unpacked_codes(text)
        emit, constant = Make(op), Observer(self.main).constant
        try:
            codes = constant(op.input)
        except GeError as e:
            remarks.missed(RULE, op, f"'{layer.name}' is not fitted: {e}")
            return
        if element != codes_name(op.input.owner) or len(differences) != codes.size:
            remarks.missed(RULE, op, f"'{layer.name}' is not fitted: the table has other codes")
            return
        added = np.frombuffer(differences, np.uint8).reshape(codes.shape)
        op.operands[0] = stored(emit, (codes.view(np.uint8) + added).view(codes.dtype))
        for i, value in enumerate(op.operands[1:], 1):
            if isinstance(narrow := value.owner, g.CastOp):
                op.operands[i] = emit(g.CastOp, stored(emit, constant(narrow.input)), to=narrow.to)
            else:
                op.operands[i] = stored(emit, constant(value))

    def fits_f16(self, scale: SSAValue) -> bool:
        """Return whether f16 holds all scales of groups to 1 / 256; true without the weights."""
        try:
            exact = Observer(self.main).constant(scale)
        except GeError:
            return True
        with np.errstate(over="ignore"):
            error = np.abs(exact.astype(np.float16) - exact)
        return bool((error <= np.abs(exact) / 256).all())


def stored(emit: Make, array: Array) -> SSAValue:
    """A constant; a large one is a weight, where weights can be added to those at hand."""
    payload = payload_at_hand()
    if array.nbytes <= SHORT or not isinstance(payload, dict):
        return emit.constant(array)
    key = f"fitted.{sha256(array.tobytes()).hexdigest()[:16]}"
    cast("dict[str, Array]", payload)[key] = array
    return emit.add(g.ConstantOp.make(g.WeightAttr(key), type_of(array))).result


def is_input(value: SSAValue) -> bool:
    """Return whether some elements of a value are those of a block's argument, moved at most."""
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
    g.AttentionLike,
    g.ConvOp,
    g.ConvTransposeOp,
    g.DeformConvOp,
    g.EinsumOp,
    g.MatmulOp,
    g.Recurrent,
)


def tell_others(main: FuncOp, layer_ops: Collection[Operation]) -> None:
    """Tell the ops that multiply and are no layers here, in remarks and in the report."""
    constants = ConstantValues(main.body.block)
    found: dict[Operation, str] = {}
    for op in main.walk():
        if not isinstance(op, OTHERS) or op in layer_ops or op.results[0] in constants:
            continue
        elif is_integer(element_type(op.operands[0])):
            found[op] = "it multiplies integers already"
        elif op.parent is not main.body.block:
            found[op] = "what is in a branch or loop stays float"
        else:
            found[op] = f"{op.name} on these operands stays float"
    calibration = calibration_at_hand()
    for (op, why), name in zip(found.items(), numbered(map(base_name, found)), strict=True):
        remarks.missed(RULE, op, why)
        if name not in calibration.layers:
            calibration.facts(name, op).reason = why


def patterns(texts: Iterable[str]) -> list[UserPattern]:
    """Compile regular expressions. Raises GeError for a text that is none."""
    return [user_pattern(text) for text in texts]


def insert_quantization(
    main: FuncOp,
    scheme: Scheme,
    target: Target,
    skip: Sequence[str] = (),
    symmetric: bool = True,
) -> None:
    """Bring a float graph into QDQ form. Raises GeError for a text that is no regular
    expression."""
    insertion, calibration = (
        Insertion(main, scheme, target, patterns(skip), symmetric),
        calibration_at_hand(),
    )
    if calibration.table.fitted and calibration.samples is not None and calibration.floats is None:
        calibration.floats = main.clone()
    insertion.run()
    if calibration.samples is None:
        for pattern in insertion.skip:
            if pattern not in insertion.matched:
                diagnostics.warning(main, f"there is no layer '{pattern.pattern}' to leave out")
    tell_others(main, [layer.op for layer in insertion.layers])
    for value in insertion.names:
        set_range(value, None)


@dataclass(frozen=True)
class InsertQuantizationPass(ModulePass):
    """Quantize what layers multiply.
    `scheme`: int8, int16, dynamic or fp8 (activations, with weights of 8 bits), w8a16 or w4a16
    (weights alone, 4 bits in groups of 32), w8a16g32 (8 bits in such groups), mxfp4 or nvfp4
    (floats of 4 bits); `skip`: names of layers, of their inputs or ops, or else regular
    expressions, found in such names; `asymmetric`: groups of weights have a zero point; `target`:
    preset name, or path of a target file, whose times decide on attention."""

    name = "insert-quantization"
    RELATION: ClassVar[Relation] = Unbounded()

    scheme: str = INT8
    skip: tuple[str, ...] = ()
    asymmetric: bool = False
    target: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheme = scheme_of(self.scheme)
        if (main := main_function(op)) is not None:
            target, calibration = target_for(main, self.target), calibration_at_hand()
            if calibration.samples is not None or calibration.random is not None:
                calibration.floats = main.clone()
            insert_quantization(main, scheme, target, self.skip, not self.asymmetric)
