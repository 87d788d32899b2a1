"""The ops of ONNX that are one op of ge: which, and what of the node is where in it. Import and
export read this one table; where more is to be said, a function of its own does
(`onnx_op` in `ops`, `writes` in `export`), and comes before the table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ge.dialects.graph import activation as a
from ge.dialects.graph import elementwise as e
from ge.dialects.graph import indexing as ix
from ge.dialects.graph import normalization as n
from ge.dialects.graph import shape as s
from ge.dialects.graph import slicing as sl
from ge.dialects.graph.creation import RangeOp, TriOp
from ge.dialects.graph.image import AffineGridOp, GridSampleOp, NonMaxSuppressionOp
from ge.dialects.graph.linear import DetOp, EinsumOp
from ge.dialects.graph.pooling import LrnOp
from ge.dialects.graph.quantization import DynamicQuantizeOp
from ge.dialects.graph.reduction import ArgReduceOp, CumulativeOp, ReduceOp
from ge.dialects.support.tensor_op import TensorOp

OPSET = 20  # of a model that is written, unless it needs a newer one

# Names that ONNX has for properties that are called otherwise here
ONNX_NAMES = {
    "permutation": "perm", "keep_dims": "keepdims", "allow_zero": "allowzero",
    "negative": "detect_negative", "positive": "detect_positive",
    "coordinates": "coordinate_transformation_mode",
}  # fmt: skip

Default = bool | int | float | str | None


@dataclass(frozen=True)
class Form:
    """`inputs`: operands and parameters (see `TensorOp.PARAMETERS`) by name; all operands in order
    where none is named. `defaults`: properties that are attributes, with what an absent one says,
    None where that is nothing but that it is absent. `fixed`: properties that the type of the node
    says. `since`: the opset that it came with, if it is newer than that of models written."""

    op: type[TensorOp]
    inputs: str = ""
    defaults: Mapping[str, Default] = field(default_factory=dict[str, Default])
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])
    since: int = 0


def form(op: type[TensorOp], inputs: str = "", since: int = 0, **defaults: Default) -> Form:
    return Form(op, inputs, defaults, since=since)


def compare(predicate: str) -> Form:
    return Form(e.CompareOp, fixed={"predicate": predicate})


def arg_reduce(kind: str) -> Form:
    defaults = {"axis": 0, "keep_dims": True, "select_last_index": False}
    return Form(ArgReduceOp, "input", defaults, {"kind": kind})


def cumulative(kind: str) -> Form:
    defaults = {"exclusive": False, "reverse": False}
    return Form(CumulativeOp, "input axis", defaults, {"kind": kind})


def reduce(kind: str) -> Form:
    return Form(ReduceOp, "input axes", {"keep_dims": True}, {"kind": kind})


# Where two have the same op, export takes the first one
FORMS: dict[str, Form] = {
    "Abs": form(e.AbsOp), "Neg": form(e.NegOp), "Sign": form(e.SignOp), "Floor": form(e.FloorOp),
    "Ceil": form(e.CeilOp), "Round": form(e.RoundOp), "Reciprocal": form(e.ReciprocalOp),
    "Sqrt": form(e.SqrtOp), "Exp": form(e.ExpOp), "Log": form(e.LogOp), "Erf": form(e.ErfOp),
    "Sin": form(e.SinOp), "Cos": form(e.CosOp), "Tan": form(e.TanOp), "Asin": form(e.AsinOp),
    "Acos": form(e.AcosOp), "Atan": form(e.AtanOp), "Sinh": form(e.SinhOp), "Cosh": form(e.CoshOp),
    "Tanh": form(e.TanhOp), "Asinh": form(e.AsinhOp), "Acosh": form(e.AcoshOp),
    "Atanh": form(e.AtanhOp), "IsNaN": form(e.IsNanOp), "Where": form(e.SelectOp),
    "Add": form(e.AddOp), "Sub": form(e.SubOp), "Mul": form(e.MulOp), "Div": form(e.DivOp),
    "Pow": form(e.PowOp), "And": form(e.AndOp), "Or": form(e.OrOp), "Xor": form(e.XorOp),
    "Not": form(e.NotOp), "BitwiseAnd": form(e.AndOp), "BitwiseOr": form(e.OrOp),
    "BitwiseXor": form(e.XorOp), "BitwiseNot": form(e.NotOp), "Max": form(e.MaximumOp),
    "Min": form(e.MinimumOp), "Mod": form(e.ModOp, fmod=False),
    "IsInf": form(e.IsInfOp, negative=True, positive=True),
    "Equal": compare("eq"), "Less": compare("lt"), "LessOrEqual": compare("le"),
    "Greater": compare("gt"), "GreaterOrEqual": compare("ge"),
    "Relu": form(a.ReluOp), "Sigmoid": form(a.SigmoidOp), "Softplus": form(a.SoftplusOp),
    "Softsign": form(a.SoftsignOp), "Mish": form(a.MishOp), "HardSwish": form(a.HardSwishOp),
    "Elu": form(a.EluOp, alpha=1.0),
    "Celu": form(a.CeluOp, alpha=1.0),
    "Selu": form(a.SeluOp, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "LeakyRelu": form(a.LeakyReluOp, alpha=0.01),
    "ThresholdedRelu": form(a.ThresholdedReluOp, alpha=1.0),
    "HardSigmoid": form(a.HardSigmoidOp, alpha=0.2, beta=0.5),
    "Shrink": form(a.ShrinkOp, bias=0.0, lambd=0.5),
    "Gelu": form(a.GeluOp, approximate="none"),
    "Swish": form(a.SiluOp, since=24, alpha=1.0),
    "PRelu": form(a.PReluOp),
    "Softmax": form(n.SoftmaxOp, axis=-1),
    "LogSoftmax": form(n.LogSoftmaxOp, axis=-1),
    "Hardmax": form(n.HardmaxOp, axis=-1),
    "BatchNormalization": form(n.BatchNormOp, epsilon=1e-5),
    "LRN": form(LrnOp, size=0, alpha=1e-4, beta=0.75, bias=1.0),
    "Reshape": form(s.ReshapeOp, "input shape", allow_zero=False),
    "Squeeze": form(s.SqueezeOp, "input axes"),
    "Unsqueeze": form(s.UnsqueezeOp, "input axes"),
    "Transpose": form(s.TransposeOp, permutation=None),
    "Expand": form(s.BroadcastToOp, "input shape"),
    "Tile": form(s.TileOp, "input repeats"),
    "Shape": form(s.ShapeOfOp, start=0, end=None),
    "ReverseSequence": form(s.ReverseSequenceOp, batch_axis=1, time_axis=0),
    "Concat": form(sl.ConcatOp, axis=1),
    "Slice": form(sl.SliceOp, "input starts ends axes steps"),
    "Pad": form(sl.PadOp, "input pads value axes", mode="constant"),
    "Gather": form(ix.GatherOp, axis=0),
    "GatherElements": form(ix.GatherElementsOp, axis=0),
    "GatherND": form(ix.GatherNdOp, batch_dims=0),
    "ScatterElements": form(ix.ScatterElementsOp, axis=0, reduction="none"),
    "Scatter": form(ix.ScatterElementsOp, axis=0, reduction="none"),
    "ScatterND": form(ix.ScatterNdOp, reduction="none"),
    "TensorScatter": form(ix.TensorScatterOp, since=24, axis=-2, mode="linear"),
    "NonZero": form(ix.NonZeroOp),
    "Compress": form(ix.CompressOp, axis=None),
    "Unique": form(ix.UniqueOp, axis=None, sorted=True),
    "OneHot": form(ix.OneHotOp, "indices depth values", axis=-1),
    "TopK": form(ix.TopKOp, "input k", axis=-1, largest=True, sorted=True),
    "ReduceSum": reduce("sum"), "ReduceMean": reduce("mean"), "ReduceMax": reduce("max"),
    "ReduceMin": reduce("min"), "ReduceProd": reduce("prod"), "ReduceL1": reduce("l1"),
    "ReduceL2": reduce("l2"), "ReduceLogSum": reduce("log_sum"),
    "ReduceLogSumExp": reduce("log_sum_exp"), "ReduceSumSquare": reduce("sum_square"),
    "ArgMax": arg_reduce("max"), "ArgMin": arg_reduce("min"),
    "CumSum": cumulative("sum"), "CumProd": cumulative("prod"),
    "Range": form(RangeOp),
    "Trilu": form(TriOp, "input k", upper=True),
    "Einsum": form(EinsumOp, equation=""),
    "Det": form(DetOp),
    "GridSample": form(GridSampleOp, mode="linear", padding_mode="zeros", align_corners=False),
    "AffineGrid": form(AffineGridOp, "theta size", align_corners=False),
    "NonMaxSuppression": form(NonMaxSuppressionOp, center_point_box=False),
    "DynamicQuantizeLinear": form(DynamicQuantizeOp),
}  # fmt: skip
