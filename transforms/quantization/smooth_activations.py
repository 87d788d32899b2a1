"""Take large channels from what a norm returns into the weights of the layers that use it.

    %0 = graph.layer_norm %x, %g, %b              %0 = graph.layer_norm %x, (%g / s), (%b / s)
    %1 = graph.matmul %0, %w               ->     %1 = graph.matmul %0, (%w * s)

A few channels behind norms are often many times larger than the others, which one scale for the
whole tensor then rounds to nothing. SmoothQuant (Xiao et al., arXiv 2211.10438); where weights
alone are quantized, the same rewrite makes the weights of large channels more exact (AWQ, Lin et
al., arXiv 2306.00978). Factors are chosen by the error of the layers' outputs on calibration data.
"""

from dataclasses import dataclass

from ge.transforms.quantization.channel_groups import ChannelGroup
from ge.transforms.quantization.equalize_channels import (
    ScalingPass,
    is_behind_norm,
    is_between_layers,
)
from ge.transforms.quantization.layers import LayerOp
from ge.transforms.quantization.schemes import scheme_of


@dataclass(frozen=True)
class SmoothActivationsPass(ScalingPass):
    """Scale channels behind norms, and between layers where weights alone are quantized.
    `scheme`: int8 or int16 (activations and weights), w8a16 or w4a16 (weights); `data`: a file with
    samples (.npz) or a table (.toml), else what is at hand."""

    name = "smooth-activations"

    @property
    def is_for_weights(self) -> bool:
        return not scheme_of(self.scheme).activation_bits

    def belongs(self, group: ChannelGroup) -> bool:
        return self.is_for_weights or not is_between_layers(group)

    def tells(self, op: LayerOp) -> bool:
        return self.is_for_weights or is_behind_norm(op)
