"""Object detection: the choice among overlapping boxes."""

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.support.parameters import (
    SEGMENTED,
    TYPES,
    OneResultOp,
    check_same_element,
    check_scalar,
    optional,
)
from ge.dialects.support.boxes import Work
from ge.dialects.support.constraints import FLOATS, INDICES, INTEGERS
from ge.dialects.support.types import (
    DYNAMIC,
    byte_size,
    constant_ints,
    merge_dims,
    shape_of,
    tensor,
)


@irdl_op_definition
class NonMaxSuppressionOp(OneResultOp):
    """The boxes that remain when, in the order of descending score, each box drops the later ones
    whose intersection over union with it is above `iou_threshold` (0 if absent).

    `boxes` is [batch, n, 4]: two opposite corners (y, x, y, x), or with `center_point_box` the
    center and the size (x, y, width, height). `scores` is [batch, classes, n]; classes are
    independent, only scores above `score_threshold` count, and at most `max_output` boxes
    remain (none if it is absent). The result has a row (batch, class, box) for each of them: their
    number is known only at run time.
    """

    name = "graph.non_max_suppression"
    boxes = operand_def(FLOATS.of_rank(3))
    scores = operand_def(FLOATS.of_rank(3))
    max_output = opt_operand_def(INTEGERS)
    iou_threshold = opt_operand_def(FLOATS)
    score_threshold = opt_operand_def(FLOATS)
    result = result_def(INDICES.of_rank(2))
    center_point_box = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    irdl_options = SEGMENTED
    assembly_format = (
        f"$boxes `,` $scores {optional('max_output', 'iou_threshold', 'score_threshold')} {TYPES}"
    )

    def dims(self) -> tuple[int, int, int]:
        """Batch, classes and boxes, DYNAMIC where unknown."""
        boxes, scores = shape_of(self.boxes), shape_of(self.scores)
        if boxes[2] not in (4, DYNAMIC):
            raise VerifyException(f"boxes are [batch, boxes, 4], not {self.boxes.type}")
        return merge_dims(boxes[0], scores[0]), scores[1], merge_dims(boxes[1], scores[2])

    def infer(self) -> Sequence[Attribute]:
        self.dims()
        check_same_element(self.boxes, self.scores)
        if self.max_output is not None:
            check_scalar(self.max_output, "max_output")
        for name in ("iou_threshold", "score_threshold"):
            if (threshold := getattr(self, name)) is not None:
                check_scalar(threshold, name)
                check_same_element(self.boxes, threshold)
        return (tensor((DYNAMIC, 3), i64),)

    def static_work(self) -> Work:
        """The work of a sort for each class and, for every box that remains, of the overlap with
        all others."""
        batch, classes, boxes = self.dims()
        if DYNAMIC in (batch, classes, boxes):
            raise ValueError("the number of boxes is not known")
        limit = None if self.max_output is None else constant_ints(self.max_output)
        rows = batch * classes * min(boxes, limit[0] if limit else boxes)
        read = sum(byte_size(o.type) for o in self.operands)
        return Work(0, batch * classes * boxes * 16 + rows * boxes * 12, read, rows * 24)
