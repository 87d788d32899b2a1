"""Batch normalization, factors and offsets by channel go into the weights of the convolution or
product beside them.

    %0 = graph.conv %x, %w
    %1 = graph.batch_norm %0, %scale, %bias, %mean, %variance
becomes
    %f = %scale / sqrt(%variance + epsilon)
    %1 = graph.conv %x, (%w * %f) bias (%bias - %mean * %f)

What is computed of weights alone is done once, at load (see prepare-weights). The rules are in
`canonical/linear_maps.py`. With `exact` batch norm becomes a product and a sum, and a first bias
goes into a convolution: that keeps every bit.
"""

from ge.transforms.graph.canonical import linear_maps
from ge.transforms.graph.canonical.local import SimplifyPass
from ge.transforms.rewriting.passes import Ulps


class FoldBatchNormPass(SimplifyPass):
    """Put ops that are linear by channel into weights. `exact`: only by rules that keep every
    bit."""

    name = "fold-batch-norm"
    families = (linear_maps,)
    # data that is not multiplied any more does not overflow any more
    inexact = Ulps(overflow=True)
