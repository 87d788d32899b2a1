"""verify-level does not look again at kernels that nobody has changed since it did, and at all that
somebody has."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.builtin import i64 as integer

from ge.dialects.fused_op import FusedOp
from ge.dialects.npu_task.attributes import TilingAttr
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.support.types import set_type, tensor
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import lower
from ge.lowering.driver.context import context
from ge.lowering.levels.level import Level
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.options import Options

TEXT = """
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = graph.neg %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = graph.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %2 : tensor<8x64xf32>
}
"""


def verify(module: ModuleOp) -> None:
    VerifyLevelPass(Level.TASKS).apply(Context(), module)


def kernel_of(module: ModuleOp) -> KernelOp:
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


@pytest.fixture
def module() -> ModuleOp:
    module = parse_module(context(), SourceText("test", TEXT))
    lower(module, Options(), until=Level.TASKS)
    kernel_of(module).tiling = None  # costs of kernels that are wrong are not asked for
    verify(module)
    return module


def test_an_unchanged_kernel_is_not_looked_at_again(
    module: ModuleOp, monkeypatch: pytest.MonkeyPatch
):
    looked: list[str] = []
    check = KernelOp.check

    def counted(self: KernelOp) -> None:
        looked.append(self.sym_name.data)
        check(self)

    monkeypatch.setattr(KernelOp, "check", counted)
    verify(module)
    assert not looked
    verify(module.clone())  # other ops, even if they are equal
    assert len(looked) == 1


def retype(kernel: KernelOp) -> None:
    """A negative dimension."""
    assert isinstance(kernel.main, FusedOp)
    set_type(kernel.main.members[0].results[0], tensor((8, -3), f32))


def tile(kernel: KernelOp) -> None:
    """A tile of a matmul."""
    kernel.tiling = TilingAttr.of((16, 16, 16), 1, 2)


def swap(kernel: KernelOp) -> None:
    """A member is used before it is defined."""
    assert isinstance(kernel.main, FusedOp)
    first = kernel.main.members[0]
    first.detach()
    assert kernel.main.block.last_op is not None
    kernel.main.block.insert_op_before(first, kernel.main.block.last_op)


def rewire(kernel: KernelOp) -> None:
    """An operand from another kernel."""
    assert isinstance(kernel.main, FusedOp)
    other = parse_module(context(), SourceText("test", TEXT))
    (function,) = other.ops
    kernel.main.members[1].operands[0] = function.regions[0].block.args[0]


def of_an_integer(kernel: KernelOp) -> None:
    """An argument of a type that no kernel has."""
    set_type(kernel.body.block.args[0], integer)


@pytest.mark.parametrize("change", [retype, tile, swap, rewire, of_an_integer])
def test_a_kernel_that_was_changed_is(module: ModuleOp, change: Callable[[KernelOp], None]):
    change(kernel_of(module))
    with pytest.raises(GeError):
        verify(module)
    with pytest.raises(GeError):  # nor is it taken for verified now
        verify(module)
