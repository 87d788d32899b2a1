"""Training graphs: forward and backward of a transformer and of a ResNet as modules at the graph
level, for the benchmarks and tests of recomputation. They need no framework.

A layer computes its result and notes how the gradients of what it read follow from the gradient of
that result (reverse accumulation: Linnainmaa, BIT 16, 1976). What the notes refer to are the
activations that stay from forward to backward; they are those that frameworks keep: the inputs of
products, normalized values with their scale, results of softmax and ReLU, what GELU reads.

@main takes the batch `x` and the gradient `g` of the loss by the result `y`, so the loss is
sum(y * g). It returns y, and for each weight its gradient, or the square of that one's norm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.graph.activation import GeluOp, ReluOp
from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.convolution import ConvOp, ConvTransposeOp
from ge.dialects.graph.elementwise import (
    AddOp,
    CompareOp,
    ErfOp,
    ExpOp,
    MulOp,
    ReciprocalOp,
    SelectOp,
    SqrtOp,
    SubOp,
)
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.graph.reduction import ReduceOp
from ge.dialects.graph.shape import BroadcastToOp, ReshapeOp, TransposeOp
from ge.dialects.graph.slicing import SliceOp
from ge.dialects.support.tensor_op import Param, TensorOp
from ge.dialects.support.types import shape_of, tensor
from ge.runtime.data.arrays import dense, dtype_of, type_of

EPSILON = 1e-5

Operand = SSAValue | float


@dataclass
class Tape:
    """A block that grows, and the notes of the layers."""

    element: Attribute
    block: Block = field(default_factory=Block)
    weights: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    gradients: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    notes: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    # ---- ops

    def emit(self, op: type[TensorOp], *operands: Operand | None, **params: Param) -> SSAValue:
        """Add an op; numbers become constants."""
        given = [self.number(v) if isinstance(v, float) else v for v in operands]
        new = op.of(*given, **params)
        self.block.add_op(new)
        return new.results[0]

    def number(self, value: float) -> SSAValue:
        array = np.array(value).astype(dtype_of(self.element))
        constant = ConstantOp.make(dense(array), type_of(array))
        self.block.add_op(constant)
        return constant.result

    def weight(self, *shape: int) -> SSAValue:
        """A new weight, under a key of its own."""
        key = f"w{len(self.weights)}"
        constant = ConstantOp.make(WeightAttr(key), tensor(shape, self.element))
        self.block.add_op(constant)
        self.weights[key] = constant.result
        return constant.result

    def sum(self, x: SSAValue, *axes: int, keep: bool = True, kind: str = "sum") -> SSAValue:
        return self.emit(ReduceOp, x, None, kind=kind, axes=axes, keep_dims=keep)

    def reshaped(self, x: SSAValue, *shape: int) -> SSAValue:
        return self.emit(ReshapeOp, x, None, shape=shape)

    def permuted(self, x: SSAValue, *order: int) -> SSAValue:
        return self.emit(TransposeOp, x, permutation=order)

    def product(self, a: SSAValue, b: SSAValue, flip_a: bool, flip_b: bool) -> SSAValue:
        return self.emit(MatmulOp, a, b, transpose_lhs=flip_a, transpose_rhs=flip_b)

    def cut(self, x: SSAValue, size: int) -> SSAValue:
        """The first rows and columns of images."""
        window: dict[str, Param] = {"starts": (0, 0), "ends": (size, size), "axes": (2, 3)}
        return self.emit(SliceOp, x, None, None, None, None, **window)

    # ---- gradients

    def note(self, result: SSAValue, backward: Callable[[SSAValue], None]) -> SSAValue:
        """Have `backward` called with the gradient of a result, once all of it is known."""

        def run() -> None:
            if result in self.gradients:
                backward(self.gradients[result])

        self.notes.append(run)
        return result

    def flow(self, value: SSAValue, gradient: SSAValue) -> None:
        """A part of the gradient of a value."""
        known = self.gradients.get(value)
        self.gradients[value] = gradient if known is None else self.emit(AddOp, known, gradient)

    def backward(self, result: SSAValue, gradient: SSAValue) -> None:
        """The gradients of all that `result` is computed from."""
        self.flow(result, gradient)
        for note in reversed(self.notes):
            note()

    # ---- layers

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        def backward(dy: SSAValue) -> None:
            self.flow(a, dy)
            self.flow(b, dy)

        return self.note(self.emit(AddOp, a, b), backward)

    def scale(self, x: SSAValue, factor: float) -> SSAValue:
        y = self.emit(MulOp, x, factor)
        return self.note(y, lambda dy: self.flow(x, self.emit(MulOp, dy, factor)))

    def reshape(self, x: SSAValue, *shape: int) -> SSAValue:
        before = shape_of(x)
        return self.note(
            self.reshaped(x, *shape), lambda dy: self.flow(x, self.reshaped(dy, *before))
        )

    def transpose(self, x: SSAValue, *order: int) -> SSAValue:
        back = [order.index(i) for i in range(len(order))]
        return self.note(
            self.permuted(x, *order), lambda dy: self.flow(x, self.permuted(dy, *back))
        )

    def matmul(self, a: SSAValue, b: SSAValue, flip_b: bool = False) -> SSAValue:
        """a @ b, or a @ b^T."""

        def backward(dy: SSAValue) -> None:
            self.flow(a, self.product(dy, b, False, not flip_b))
            db = self.product(dy, a, True, False) if flip_b else self.product(a, dy, True, False)
            self.flow(b, db)

        return self.note(self.product(a, b, False, flip_b), backward)

    def linear(self, x: SSAValue, width: int) -> SSAValue:
        """x @ w + b for rows x."""
        w, b = self.weight(shape_of(x)[-1], width), self.weight(width)
        y = self.matmul(x, w)

        def backward(dy: SSAValue) -> None:
            self.flow(y, dy)
            self.flow(b, self.sum(dy, 0, keep=False))

        return self.note(self.emit(AddOp, y, b), backward)

    def normalize(self, x: SSAValue, axes: Sequence[int], parameters: Sequence[int]) -> SSAValue:
        """(x - mean) / sqrt(variance + epsilon) * scale + bias, with statistics along `axes`, and
        scale and bias of the shape `parameters`."""
        gamma, beta = self.weight(*parameters), self.weight(*parameters)
        centered = self.emit(SubOp, x, self.sum(x, *axes, kind="mean"))
        variance = self.sum(self.emit(MulOp, centered, centered), *axes, kind="mean")
        root = self.emit(SqrtOp, self.emit(AddOp, variance, EPSILON))
        inverse = self.emit(ReciprocalOp, root)
        normal = self.emit(MulOp, centered, inverse)
        y = self.emit(AddOp, self.emit(MulOp, normal, gamma), beta)
        rank = len(shape_of(x))
        padded = (*[1] * (rank - len(parameters)), *parameters)
        along = [i for i in range(rank) if padded[i] == 1]

        def of_parameter(gradient: SSAValue) -> SSAValue:
            return self.reshaped(self.sum(gradient, *along), *parameters)

        def backward(dy: SSAValue) -> None:
            self.flow(beta, of_parameter(dy))
            self.flow(gamma, of_parameter(self.emit(MulOp, dy, normal)))
            dn = self.emit(MulOp, dy, gamma)
            mean = self.sum(dn, *axes, kind="mean")
            slope = self.sum(self.emit(MulOp, dn, normal), *axes, kind="mean")
            rest = self.emit(SubOp, self.emit(SubOp, dn, mean), self.emit(MulOp, normal, slope))
            self.flow(x, self.emit(MulOp, rest, inverse))

        return self.note(y, backward)

    def softmax(self, x: SSAValue) -> SSAValue:
        y = self.emit(SoftmaxOp, x, axis=-1)

        def backward(dy: SSAValue) -> None:
            row = self.sum(self.emit(MulOp, dy, y), -1)
            self.flow(x, self.emit(MulOp, self.emit(SubOp, dy, row), y))

        return self.note(y, backward)

    def gelu(self, x: SSAValue) -> SSAValue:
        """x Phi(x); the gradient is Phi(x) + x phi(x)."""

        def backward(dy: SSAValue) -> None:
            erf = self.emit(ErfOp, self.emit(MulOp, x, 0.5**0.5))
            below = self.emit(MulOp, self.emit(AddOp, erf, 1.0), 0.5)
            bell = self.emit(ExpOp, self.emit(MulOp, self.emit(MulOp, x, x), -0.5))
            density = self.emit(MulOp, bell, float((2 * np.pi) ** -0.5))
            slope = self.emit(AddOp, below, self.emit(MulOp, x, density))
            self.flow(x, self.emit(MulOp, dy, slope))

        return self.note(self.emit(GeluOp, x), backward)

    def relu(self, x: SSAValue) -> SSAValue:
        y = self.emit(ReluOp, x)

        def backward(dy: SSAValue) -> None:
            on = self.emit(CompareOp, y, 0.0, predicate="gt")
            self.flow(x, self.emit(SelectOp, on, dy, 0.0))

        return self.note(y, backward)

    def conv(self, x: SSAValue, channels: int, kernel: int, stride: int = 1) -> SSAValue:
        """A convolution without bias, padded so that stride 1 keeps the size. The gradient of its
        input is the transposed convolution; that of the weight is a convolution of the input with
        the gradient, batch and channels exchanged, which moves by the dilation 1 and takes the
        gradient's elements `stride` apart."""
        size, before = shape_of(x)[2], shape_of(x)[1]
        w, pad = self.weight(channels, before, kernel, kernel), kernel // 2
        strides, pads = (stride, stride), (pad,) * 4
        y = self.emit(ConvOp, x, w, None, strides=strides, pads=pads)
        left = (size + 2 * pad - kernel) % stride

        def backward(dy: SSAValue) -> None:
            extra = (left, left)
            window: dict[str, Param] = {"strides": strides, "pads": pads, "output_padding": extra}
            self.flow(x, self.emit(ConvTransposeOp, dy, w, None, **window))
            seen = x if left <= pad else self.cut(x, size + pad - left)
            end = max(pad - left, 0)
            swapped = self.permuted(seen, 1, 0, 2, 3), self.permuted(dy, 1, 0, 2, 3)
            over = (pad, pad, end, end)
            dw = self.emit(ConvOp, *swapped, None, dilations=strides, pads=over)
            self.flow(w, self.permuted(dw, 1, 0, 2, 3))

        return self.note(y, backward)

    def pool(self, x: SSAValue, window: int) -> SSAValue:
        """Means of windows that do not overlap, as many as there are in each dimension."""
        n, c, h, w = shape_of(x)
        parts = self.reshaped(x, n, c, h // window, window, w // window, window)
        y = self.sum(parts, 3, 5, keep=False, kind="mean")

        def backward(dy: SSAValue) -> None:
            part = self.emit(MulOp, dy, float(window**-2))
            wide = self.reshaped(part, n, c, h // window, 1, w // window, 1)
            all_of_it = self.emit(BroadcastToOp, wide, None, shape=shape_of(parts))
            self.flow(x, self.reshaped(all_of_it, n, c, h, w))

        return self.note(y, backward)


def training_step(
    tape: Tape, forward: Callable[[SSAValue], SSAValue], shape: Sequence[int], norms: bool
) -> ModuleOp:
    """The module of forward, backward and what they return."""
    x = tape.block.insert_arg(tensor(shape, tape.element), 0)
    y = forward(x)
    g = tape.block.insert_arg(y.type, 1)
    tape.backward(y, g)
    returned = [y]
    for weight in tape.weights.values():
        gradient = tape.gradients[weight]
        axes = range(len(shape_of(gradient)))
        returned.append(tape.sum(gradient, *axes, kind="sum_square") if norms else gradient)
    tape.block.add_op(ReturnOp(*returned))
    types = [v.type for v in returned]
    function = FuncOp("main", ([x.type, g.type], types), Region(tape.block))
    function.arg_attrs = _named(["x", "g"])
    function.res_attrs = _named(["y", *(f"d{key}" for key in tape.weights)])
    return ModuleOp([function])


def _named(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr(DictionaryAttr({"graph.name": StringAttr(n)}) for n in names)


def transformer(
    layers: int = 12,
    width: int = 1024,
    heads: int = 16,
    tokens: int = 1024,
    batch: int = 4,
    element: Attribute = f16,
    norms: bool = True,
) -> ModuleOp:
    """A pre-norm transformer (GPT-2's block without mask and dropout); x is [batch * tokens,
    width]."""
    tape = Tape(element)
    rows, depth = batch * tokens, width // heads

    def by_head(x: SSAValue) -> SSAValue:
        return tape.transpose(tape.reshape(x, batch, tokens, heads, depth), 0, 2, 1, 3)

    def block(x: SSAValue) -> SSAValue:
        z = tape.normalize(x, [1], [width])
        q, k, v = (by_head(tape.linear(z, width)) for _ in range(3))
        p = tape.softmax(tape.scale(tape.matmul(q, k, flip_b=True), depth**-0.5))
        mixed = tape.transpose(tape.matmul(p, v), 0, 2, 1, 3)
        x = tape.add(x, tape.linear(tape.reshape(mixed, rows, width), width))
        z = tape.gelu(tape.linear(tape.normalize(x, [1], [width]), 4 * width))
        return tape.add(x, tape.linear(z, width))

    def forward(x: SSAValue) -> SSAValue:
        for _ in range(layers):
            x = block(x)
        return tape.normalize(x, [1], [width])

    return training_step(tape, forward, [rows, width], norms)


def resnet(
    blocks: Sequence[int] = (3, 4, 6, 3),
    width: int = 64,
    size: int = 224,
    batch: int = 32,
    classes: int = 1000,
    element: Attribute = f16,
    norms: bool = True,
) -> ModuleOp:
    """A ResNet of bottleneck blocks (He et al., arXiv 1512.03385; the sizes given are those of
    ResNet-50), batch normalization by the batch, and means where it pools maxima."""
    tape = Tape(element)

    def unit(x: SSAValue, channels: int, kernel: int, stride: int = 1) -> SSAValue:
        y = tape.conv(x, channels, kernel, stride)
        return tape.normalize(y, [0, 2, 3], [channels, 1, 1])

    def bottleneck(x: SSAValue, channels: int, stride: int) -> SSAValue:
        y = tape.relu(unit(x, channels, 1))
        y = tape.relu(unit(y, channels, 3, stride))
        y = unit(y, 4 * channels, 1)
        same = stride == 1 and shape_of(x)[1] == 4 * channels
        return tape.relu(tape.add(y, x if same else unit(x, 4 * channels, 1, stride)))

    def forward(x: SSAValue) -> SSAValue:
        x = tape.pool(tape.relu(unit(x, width, 7, 2)), 2)
        for stage, count in enumerate(blocks):
            for i in range(count):
                x = bottleneck(x, width << stage, 2 if stage and not i else 1)
        x = tape.pool(x, shape_of(x)[2])
        return tape.linear(tape.reshape(x, batch, shape_of(x)[1]), classes)

    return training_step(tape, forward, [batch, 3, size, size], norms)
