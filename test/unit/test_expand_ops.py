"""Ops without programs in ops that have them: of random operands the same numbers as their kernels,
and programs for all launches."""

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
from op_programs import modules
from random_graphs import op_classes
from writing import op_names
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.errors import GeError
from ge.lowering.driver.compiler import context
from ge.runtime.data.arrays import float_limits, kind_of
from ge.runtime.data.weights import RandomPayload
from ge.runtime.device.random_inputs import random_inputs
from ge.runtime.device.session import Session
from ge.runtime.device.tiled import differs
from ge.transforms.graph.expand_layers import ExpandLayersPass

OPS = {op.name.removeprefix("graph."): op for op in op_classes()}
EXPANDED = ["grid_sample", "affine_grid", "roi_align", "dft", "stft", "deform_conv", "col2im",
    "max_pool_indices", "max_unpool", "reverse_sequence", "scatter_elements", "gather"]


def compare_numbers(module: ModuleOp) -> list[str]:
    """Of a module before and after; the names of its ops then. Nothing is compared where random
    operands are none that the kernel takes, such as indices that are too large."""
    inputs, weights = random_inputs(module, 1), RandomPayload(module, 1)
    try:
        before = Session(module, weights).run(inputs)
    except GeError:
        return []
    ExpandLayersPass().apply(context(), module)
    module.verify()
    after = Session(module, weights).run(inputs)
    for name, want in before.items():
        is_float = kind_of(want.dtype) == "f"
        tolerance = max(2e-5, 4 * float(float_limits(want.dtype).eps)) if is_float else None
        assert not differs(after[name], want, tolerance).any(), (name, after[name], want)
    return op_names(module)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(EXPANDED), st.integers(0, 10**6))
def test_random_ops(name: str, seed: int) -> None:
    for _, module in modules(OPS[name], [seed]):
        compare_numbers(module)
