"""Signal processing: Fourier transforms and the mel filter bank.

A complex tensor is a real one whose last dimension holds the real and the imaginary part; a last
dimension of 1 is a real signal.
"""

from collections.abc import Sequence
from math import log2
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    GraphOp,
    HasAxes,
    OneResultOp,
    check_length,
    check_same_element,
    check_scalar,
    optional,
    parameter,
    scalar_parameter,
)
from ge.dialects.support.boxes import Box, Work, window_span
from ge.dialects.support.constraints import (
    ANY,
    ELEMENT,
    FLOATS,
    INT,
    INTEGERS,
)
from ge.dialects.support.types import (
    DYNAMIC,
    constant_ints,
    element_type,
    normalize_axis,
    numel,
    shape_of,
    tensor,
)


def bins(length: int, onesided: bool) -> int:
    """Frequencies of a transform of this length; a real signal needs only the lower half."""
    return length // 2 + 1 if onesided and length != DYNAMIC else length


def check_signal(value: SSAValue, least_rank: int) -> None:
    shape = shape_of(value)
    if len(shape) < least_rank or shape[-1] not in (1, 2, DYNAMIC):
        raise VerifyException(
            f"a signal has rank {least_rank} or more and ends in 1 or 2, not {value.type}"
        )


def transform_work(length: int, count: int) -> int:
    """Element-operations of `count` fast Fourier transforms."""
    return count * length * max(5 * int(log2(max(length, 2))), 5)


def positive(op: GraphOp, name: str, missing: str = "") -> int | None:
    """The value of a parameter as `scalar_parameter` gives it; raises VerifyException for a value
    below 1."""
    value = scalar_parameter(op, name, missing)
    if value is not None and value != DYNAMIC and value < 1:
        raise VerifyException(f"{name} is {value}, but must be positive")
    return value


@irdl_op_definition
class DftOp(OneResultOp, HasAxes):
    """The discrete Fourier transform along `axis`: y[k] = sum x[n] exp(-2 pi i k n / N), and with
    `inverse` x[n] = 1/N sum y[k] exp(2 pi i k n / N).

    The signal is cut or padded with zeros to `length` N (default: its length). `onesided` gives
    the first N / 2 + 1 frequencies of a real signal; with `inverse` it takes those and gives the
    real signal (N is then 2 (frequencies - 1) by default).
    """

    name = "graph.dft"
    input = operand_def(FLOATS)
    length_value = opt_operand_def(INTEGERS)
    length = opt_prop_def(INT)
    axis_value = opt_operand_def(INTEGERS)
    result = result_def(FLOATS)
    axis = opt_prop_def(INT)
    inverse = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    onesided = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    PARAMETERS: ClassVar = {"length_value": "length", "axis_value": "axis"}
    irdl_options = SEGMENTED
    assembly_format = f"$input {parameter('length', 'axis')} {TYPES}"

    def infer(self) -> Sequence[Attribute]:
        check_signal(self.input, 2)
        shape = list(shape_of(self.input))
        inverse, onesided = bool(self.inverse.value.data), bool(self.onesided.value.data)
        if onesided and shape[-1] == (1 if inverse else 2):
            kind = "complex frequencies" if inverse else "a real signal"
            raise VerifyException(f"a onesided transform takes {kind}, not {self.input.type}")
        length = positive(self, "length")
        axis = scalar_parameter(self, "axis", "the axis is missing")
        shape[-1] = 1 if onesided and inverse else 2
        assert axis is not None
        if axis == DYNAMIC:
            return (tensor([DYNAMIC] * (len(shape) - 1) + shape[-1:], element_type(self.input)),)
        axis = normalize_axis(axis, len(shape))
        if axis == len(shape) - 1:
            raise VerifyException("the last dimension holds real and imaginary part: not an axis")
        if length is None:
            length = shape[axis]
            if inverse and onesided and length != DYNAMIC:
                length = 2 * (length - 1)
        shape[axis] = length if inverse else bins(length, onesided)
        return (tensor(shape, element_type(self.input)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        axis, shape = self.ints("axis"), shape_of(self.input)
        if index or axis is None:
            return None
        return box.along(shape, (normalize_axis(axis[0], len(shape)), len(shape) - 1))

    def static_work(self) -> Work:
        shape = shape_of(self.result)
        axis = scalar_parameter(self, "axis")
        length = numel(shape) if axis in (None, DYNAMIC) else shape[axis]
        count = numel(shape) // max(2 * length, 1)
        return Work(0, transform_work(length, count), *self.traffic())


@irdl_op_definition
class StftOp(OneResultOp):
    """The Fourier transforms of the frames of a signal of shape [batch, length, 1 or 2]: frames of
    `frame_length` begin every `frame_step` and are multiplied by `window` (default: ones).
    The result is [batch, frames, frequencies, 2]; `onesided` as in graph.dft."""

    name = "graph.stft"
    signal = operand_def(FLOATS.of_rank(3))
    window = opt_operand_def(FLOATS.of_rank(1))
    frame_step_value = opt_operand_def(INTEGERS)
    frame_step = opt_prop_def(INT)
    frame_length_value = opt_operand_def(INTEGERS)
    result = result_def(FLOATS.of_rank(4))
    frame_length = opt_prop_def(INT)
    onesided = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    PARAMETERS: ClassVar = {"frame_step_value": "frame_step", "frame_length_value": "frame_length"}
    irdl_options = SEGMENTED
    assembly_format = (
        f"$signal {optional('window')} {parameter('frame_step', 'frame_length')} {TYPES}"
    )

    def frame(self) -> int:
        """The length of a frame, DYNAMIC where unknown."""
        length = positive(self, "frame_length")
        window = DYNAMIC
        if self.window is not None:
            check_same_element(self.signal, self.window)
            (window,) = shape_of(self.window)
            check_length("window", window, DYNAMIC if length is None else length)
        if length in (None, DYNAMIC):
            absent = length is None and self.window is None
            return shape_of(self.signal)[1] if absent else window
        return length

    def infer(self) -> Sequence[Attribute]:
        check_signal(self.signal, 3)
        batch, total, parts = shape_of(self.signal)
        onesided = bool(self.onesided.value.data)
        if onesided and parts == 2:
            raise VerifyException(
                f"onesided frequencies are of a real signal, not of {self.signal.type}"
            )
        step, length = positive(self, "frame_step", "frame_step is missing"), self.frame()
        assert step is not None
        frames = DYNAMIC
        if DYNAMIC not in (step, length, total):
            if length > total:
                raise VerifyException(f"a frame of {length} is longer than the signal of {total}")
            frames = (total - length) // step + 1
        return (tensor((batch, frames, bins(length, onesided), 2), element_type(self.signal)),)

    def operand_box(self, index: int, box: Box, result: int = 0) -> Box | None:
        step = self.ints("frame_step")
        if index or step is None:
            return None
        spans = {0: box.spans[0], 1: window_span(box.spans[1], step[0], 0, self.frame())}
        return Box.part(shape_of(self.signal), spans)

    def static_work(self) -> Work:
        batch, frames, _, _ = shape_of(self.result)
        numel(shape_of(self.result))
        length = self.frame()
        return Work(0, batch * frames * (length + transform_work(length, 1)), *self.traffic())


@irdl_op_definition
class MelWeightMatrixOp(OneResultOp):
    """The matrix [dft_length / 2 + 1, num_mel_bins] that maps frequencies to the mel scale:
    triangular filters with centers at equal steps of mel = 2595 log10(1 + hertz / 700) between two
    edge frequencies."""

    name = "graph.mel_weight_matrix"
    num_mel_bins = operand_def(INTEGERS)
    dft_length = operand_def(INTEGERS)
    sample_rate = operand_def(INTEGERS)
    lower_edge_hertz = operand_def(FLOATS)
    upper_edge_hertz = operand_def(FLOATS)
    result = result_def(ANY.of_rank(2))
    to = prop_def(ELEMENT, default_value=f32)
    assembly_format = (
        "$num_mel_bins `,` $dft_length `,` $sample_rate `,` $lower_edge_hertz `,` "
        f"$upper_edge_hertz {TYPES}"
    )

    def infer(self) -> Sequence[Attribute]:
        for name, _ in self.get_irdl_definition().operands:
            check_scalar(getattr(self, name), name)
        counts = [constant_ints(v) for v in (self.dft_length, self.num_mel_bins)]
        length, mels = (DYNAMIC if c is None else c[0] for c in counts)
        return (tensor((bins(length, True), mels), self.to),)
