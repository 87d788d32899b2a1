"""`ge.torch`: models of PyTorch."""

from ge.lowering.torch.api import *  # noqa: F403
