"""Names that frameworks and GE have for graph ops: `Conv2d`, `BiasAdd` and `BatchMatMul` are
`graph.conv`, `graph.add` and `graph.matmul`. They are taken wherever a user names an op; capitals
and underscores do not count, and a name of ge's own goes first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

# Graph op -> names of it
NAMES = {
    "add": "AddV2 BiasAdd",
    "attention": "ScaledDotProductAttention MultiHeadAttention FlashAttentionScore",
    "batch_norm": "BatchNormalization BatchNorm1d BatchNorm2d BatchNorm3d FusedBatchNorm "
    "FusedBatchNormV3 BNInference BNInferenceD",
    "broadcast_to": "Expand BroadcastToD",
    "clamp": "Clip ClipByValue ClipByValueV2 Relu6 Hardtanh",
    "concat": "Cat ConcatV2 ConcatD ConcatV2D",
    "conv": "Conv1d Conv2d Conv3d Convolution DepthwiseConv2D DepthwiseConv2dNative",
    "conv_transpose": "ConvTranspose1d ConvTranspose2d ConvTranspose3d Conv2DTranspose "
    "Conv2DBackpropInput Deconvolution",
    "depth_to_space": "PixelShuffle",
    "dequantize": "DequantizeLinear AscendDequant",
    "div": "RealDiv Divide TrueDivide",
    "fill": "ConstantOfShape",
    "gather": "GatherV2 GatherV2D Embedding IndexSelect",
    "gelu": "GeluV2 FastGelu",
    "group_norm": "GroupNormalization InstanceNormalization InstanceNorm",
    "layer_norm": "LayerNormalization LayerNormV3",
    "log_softmax": "LogSoftmaxV2",
    "matmul": "MatMulV2 MatMulV3 BatchMatMul BatchMatMulV2 BatchMatMulV3 Gemm Dense "
    "FullyConnected FullyConnection InnerProduct Mm Bmm",
    "maximum": "Max",
    "minimum": "Min",
    "mod": "FloorMod Fmod Remainder",
    "mul": "Multiply",
    "pad": "PadD PadV2 PadV3",
    "quantize": "QuantizeLinear AscendQuant",
    "requantize": "AscendRequant",
    "reshape": "Flatten FlattenV2 View",
    "resize": "Upsample Interpolate ResizeBilinear ResizeBilinearV2 ResizeNearestNeighbor "
    "ResizeNearestNeighborV2",
    "rms_norm": "RMSNormalization",
    "select": "Where SelectV2",
    "shape_of": "Shape",
    "silu": "Swish",
    "slice": "SliceD StridedSlice StridedSliceD",
    "softmax": "SoftmaxV2",
    "split": "SplitD SplitV SplitVD Chunk",
    "sub": "Subtract",
    "tile": "TileD",
    "top_k": "TopKV2 TopKD",
    "transpose": "Permute TransposeD",
    "tri": "Trilu",
    "unsqueeze": "ExpandDims",
}

# Graph op, property -> its values, with names that stand for the op with that value
VALUES = {
    ("arg_reduce", "kind"): {"max": "ArgMax ArgMaxV2 ArgMaxD", "min": "ArgMin ArgMinD"},
    ("cumulative", "kind"): {"sum": "CumSum CumSumD", "prod": "CumProd CumProdD"},
    ("reduce", "kind"): {
        "mean": "ReduceMean ReduceMeanD",
        "sum": "ReduceSum ReduceSumD",
        "max": "ReduceMax ReduceMaxD",
        "min": "ReduceMin ReduceMinD",
        "prod": "ReduceProd ReduceProdD",
    },
    ("pool", "kind"): {
        "max": "MaxPool MaxPool1d MaxPool2d MaxPool3d MaxPoolV2 MaxPoolV3 GlobalMaxPool",
        "average": "AvgPool AvgPool1d AvgPool2d AvgPool3d AvgPoolV2 AveragePool GlobalAveragePool",
    },
    ("compare", "predicate"): {
        "eq": "Equal",
        "ne": "NotEqual",
        "gt": "Greater",
        "ge": "GreaterOrEqual GreaterEqual",
        "lt": "Less",
        "le": "LessOrEqual LessEqual",
    },
}


@dataclass(frozen=True)
class Named:
    """The graph op that a name stands for, with values of its properties."""

    op: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])


def plain(name: str) -> str:
    """`MatMul`, `matmul` and `mat_mul` are the same."""
    return name.lower().replace("_", "")


def framework_names() -> dict[str, Named]:
    """The op that each name of a framework stands for."""
    found = {n: Named(op) for op, names in NAMES.items() for n in names.split()}
    for (op, key), values in VALUES.items():
        for value, names in values.items():
            found |= {n: Named(op, {key: value}) for n in names.split()}
    return found


_FOUND = {plain(name): named for name, named in framework_names().items()}


def framework_op(name: str) -> Named | None:
    """The op that the name of a framework's op stands for; None for a name that no framework
    has."""
    return _FOUND.get(plain(name))


def short_name(name: str) -> str:
    """The name of an op without its dialect, plain; ge's own for that of a framework."""
    short = plain(name.rpartition(".")[2])
    named = _FOUND.get(short)
    return short if named is None else plain(named.op)


def nearest_name(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest of the known names (with or without their dialect) and
    those of frameworks; empty where none is near."""
    theirs = {plain(n): f"'{n}' (graph.{named.op})" for n, named in framework_names().items()}
    titles = theirs | {plain(k.rpartition(".")[2]): f"'{k}'" for k in known}
    near = get_close_matches(plain(name.rpartition(".")[2]), titles, 1)
    return f"did you mean {titles[near[0]]}?" if near else ""
