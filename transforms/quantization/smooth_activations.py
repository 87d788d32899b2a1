"""Take large channels from what a norm returns into the weights of the layers that use it.

    %0 = graph.layer_norm %x, %g, %b              %0 = graph.layer_norm %x, (%g / s), (%b / s)
    %1 = graph.matmul %0, %w               ->     %1 = graph.matmul %0, (%w * s)

A few channels behind norms are often many times larger than the others, which one scale for the
whole tensor then rounds to nothing. SmoothQuant (Xiao et al., arXiv 2211.10438); where weights
alone are quantized, the same rewrite makes the weights of large channels more exact (AWQ, Lin et
al., arXiv 2306.00978). Factors are chosen by the error of the layers' outputs on calibration data.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.func import FuncOp

from ge.transforms.quantization.channel_groups import ChannelGroup
from ge.transforms.quantization.data import CalibratedPass, Calibration
from ge.transforms.quantization.equalize_channels import (
    is_behind_norm,
    is_between_layers,
    scale_groups,
)
from ge.transforms.quantization.layers import LayerOp
from ge.transforms.quantization.schemes import INT8, scheme_of
from ge.transforms.rewriting.passes import Relation, Ulps


@dataclass(frozen=True)
class SmoothActivationsPass(CalibratedPass):
    """Scale channels behind norms, and between layers where weights alone are quantized.
    `scheme`: int8 or int16 (activations and weights), w8a16 or w4a16 (weights); `data`: a file with
    samples (.npz) or a table (.toml), else what is at hand."""

    name = "smooth-activations"
    RELATION: ClassVar[Relation] = Ulps(1024, half=64, overflow=True)

    scheme: str = INT8

    def run(self, main: FuncOp, calibration: Calibration) -> None:
        scheme = scheme_of(self.scheme)

        def belongs(group: ChannelGroup) -> bool:
            return not (scheme.activation_bits and is_between_layers(group))

        def tells(op: LayerOp) -> bool:
            return not scheme.activation_bits or is_behind_norm(op)

        scale_groups(main, calibration, self.name, scheme, belongs, tells)
