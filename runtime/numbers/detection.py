"""Kernel of non-maximum suppression."""

import numpy as np

from ge.dialects.graph.detection import NonMaxSuppressionOp
from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.numbers import Fn, kernel


def corners(boxes: Array, center_point_box: bool) -> Array:
    """The boxes [n, 4] as lower and upper corners (y, x, y, x)."""
    if center_point_box:
        center, half = boxes[:, 1::-1], boxes[:, :1:-1] / 2
        return np.concatenate((center - half, center + half), axis=1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate((np.minimum(a, b), np.maximum(a, b)), axis=1)


def overlaps(box: Array, others: Array, iou_threshold: float) -> Array:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    intersection = np.maximum(sides, 0).prod(axis=1)
    area = (box[2:] - box[:2]).prod()
    union = area + (others[:, 2:] - others[:, :2]).prod(axis=1) - intersection
    return (intersection > 0) & (intersection / np.where(union > 0, union, 1) > iou_threshold)


def suppress(boxes: Array, scores: Array, limit: int, iou: float, least: float | None) -> list[int]:
    """Indices of the boxes that are kept, best score first."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least] if least is not None else order
    indices: list[int] = []
    while order.size and len(indices) < limit:
        best, order = order[0], order[1:]
        indices.append(int(best))
        order = order[~overlaps(boxes[best], boxes[order], iou)]
    return indices


@kernel(NonMaxSuppressionOp)
def non_max_suppression(op: NonMaxSuppressionOp) -> Fn:
    center_point_box = bool(op.center_point_box.value.data)

    def run(
        boxes: Array,
        scores: Array,
        max_output: Array | None,
        iou: Array | None,
        least: Array | None,
    ) -> Array:
        if boxes.shape[:2] != scores.shape[::2]:
            raise GeError(
                f"boxes {boxes.shape[:2]} and scores {scores.shape[::2]} of images differ"
            )
        limit = 0 if max_output is None else int(max_output.item())
        threshold = 0.0 if iou is None else iou.item()
        lowest = None if least is None else least.item()
        rows: list[tuple[int, int, int]] = []
        for b, class_scores in enumerate(scores):
            of_batch = corners(boxes[b], center_point_box)
            for c, s in enumerate(class_scores):
                rows.extend((b, c, i) for i in suppress(of_batch, s, limit, threshold, lowest))
        return np.array(rows, np.int64).reshape(-1, 3)

    return run
