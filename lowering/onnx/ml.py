"""The ops of ai.onnx.ml that are tensor mathematics."""

from xdsl.ir import SSAValue

from ge.dialects.graph import elementwise as g
from ge.dialects.graph.indexing import GatherOp
from ge.dialects.graph.shape import ReshapeOp
from ge.dialects.types import element_type
from ge.lowering.onnx.registry import Node, onnx_op

DOMAIN = "ai.onnx.ml"


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(n: Node) -> SSAValue:
    above = n.emit(g.CompareOp, n[0], n.like(n.float("threshold"), n[0]), predicate="gt")
    return n.emit(g.CastOp, above, to=element_type(n[0]))


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(n: Node) -> SSAValue:
    """The columns that the indices name; a vector is a matrix of one row."""
    table = n.emit(ReshapeOp, n[0], None, shape=(1, -1)) if n.rank(0) == 1 else n[0]
    columns = n.emit(ReshapeOp, n[1], None, shape=(-1,))
    return n.emit(GatherOp, table, columns, axis=-1)
