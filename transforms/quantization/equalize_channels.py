"""Make the channels between two layers equally large, where that makes the second more exact.

    %0 = graph.conv %x, %w bias %b                %0 = graph.conv %x, (%w / s) bias (%b / s)
    %1 = graph.relu %0                     ->     %1 = graph.relu %0
    %2 = graph.conv %1, %v                        %2 = graph.conv %1, (%v * s)

One scale for a whole tensor is too coarse for channels that are much smaller than the largest.
Cross-layer equalization (Nagel et al., arXiv 1906.04721), with factors that are chosen by the error
of the second layer's output on calibration data; through a clamp, whose limits become vectors.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.func import FuncOp

from ge.dialects.graph.normalization import GroupNormOp, TrailingNorm
from ge.transforms.quantization.channel_groups import ChannelGroup
from ge.transforms.quantization.channel_scales import scale_groups
from ge.transforms.quantization.data import CalibratedPass, Calibration
from ge.transforms.quantization.layers import LayerOp
from ge.transforms.quantization.schemes import INT8, scheme_of
from ge.transforms.rewriting.relations import Relation, Ulps


def is_between_layers(group: ChannelGroup) -> bool:
    return all(isinstance(op, LayerOp) for op in group.producers)


def is_behind_norm(op: LayerOp) -> bool:
    return isinstance(op.operands[0].owner, TrailingNorm | GroupNormOp)


@dataclass(frozen=True)
class EqualizeChannelsPass(CalibratedPass):
    """Scale channels between layers.
    `scheme`: of activations and weights, int8 or int16; `data`: a file with samples (.npz) or a
    table (.toml), else what is at hand."""

    name = "equalize-channels"
    RELATION: ClassVar[Relation] = Ulps(1024, half=64, overflow=True)

    scheme: str = INT8

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        def tells(op: LayerOp) -> bool:
            return not is_behind_norm(op)

        scheme = scheme_of(self.scheme)
        scale_groups(main, calibration, self.name, scheme, is_between_layers, tells)
