"""Fusion weighs launches by the target that the function records."""

import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr

sys.path.insert(0, str(Path(__file__).parent))
from writing import Expr, Tensor, written

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import TARGET
from ge.transforms.fusion.fuse_region import FuseRegionPass


def test_the_recorded_target_is_taken_where_none_is_named():
    def formula(x: Expr) -> Expr:
        return x.sin().exp()

    module = written(formula, Tensor(8, 64))
    main = main_function(module)
    assert main is not None
    main.attributes[TARGET] = StringAttr("no-such-target")
    FuseRegionPass(target="310p3").apply(Context(), module)
    with pytest.raises(GeError, match="unknown target 'no-such-target'"):
        FuseRegionPass().apply(Context(), module)
