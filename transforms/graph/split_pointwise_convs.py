"""1 x 1 convolutions come before what enlarges their input.

    %0 = graph.resize %y sizes [64, 64] axes [2, 3]       %y : tensor<1x256x16x16xf32>
    %1 = graph.concat %x, %0 axis 1                       %x : tensor<1x256x64x64xf32>
    %2 = graph.conv %1, %w                                %w : tensor<256x512x1x1xf32>
becomes
    %0 = graph.conv %y, (%w[:, 256:])                     a sixteenth of the products
    %1 = graph.resize %0 sizes [64, 64] axes [2, 3]
    %2 = graph.conv %x, (%w[:, :256])
    %3 = graph.add %1, %2                                 the concatenation is not stored

Decoders that join maps of several sizes have this form. Each kernel adds what the one before it
made, so that one large value is stored at a time. The rules are in
`canonical/pointwise_convs.py`; all of them add in another order.
"""

from ge.dialects.graph.convolution import ConvOp
from ge.transforms.graph.canonical import pointwise_convs
from ge.transforms.graph.canonical.simplify import SimplifyPass


class SplitPointwiseConvsPass(SimplifyPass):
    """Apply 1 x 1 convolutions to the smaller values that their input is made of.
    `exact`: not at all."""

    name = "split-pointwise-convs"
    families = (pointwise_convs,)
    root = ConvOp
