"""A kernel that is kept as text.

A program with many tile programs is written, and read only by those who ask for one of them: the
ops of such a kernel are made when somebody looks into it.
"""

from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, Region
from xdsl.printer import Printer

from ge.dialects.npu_task.attributes import number
from ge.dialects.support.operation import cloned
from ge.dialects.support.processes import lock_held_while_forking
from ge.dialects.tile.kernel import KernelOp

Read: TypeAlias = Callable[[str], KernelOp]

READING = lock_held_while_forking()  # sessions of several threads may look into one kernel


class TextKernelOp(KernelOp):
    """`text`: what stands behind the name in the text of a kernel; its cores, and the bytes of its
    workspace, are known. `read` gives the kernel of all of it, which nobody changes: the ops of
    this one are copies."""

    def __init__(self, name: str, cores: int, text: str, read: Read, workspace: int = 0) -> None:
        properties = {"sym_name": StringAttr(name), "cores": number(cores)}
        Operation.__init__(self, properties=properties)
        self.text, self._read, self._workspace = text, read, workspace
        self._regions: tuple[Region, ...] | None = None

    @property
    def is_unread(self) -> bool:
        return self._regions is None

    @property
    def regions(self) -> tuple[Region, ...]:
        if self._regions is None:
            with READING:
                self._read_regions()
        assert self._regions is not None
        return self._regions

    @property
    def unchanged(self) -> KernelOp:
        if self._regions is not None:
            return self
        with READING:
            return self._shared()

    def _shared(self) -> KernelOp:
        return self._read(f"{self.name} @program{self.text}")

    def _own(self) -> KernelOp:
        return cloned(self._shared(), {})

    def _read_regions(self) -> None:
        """Nobody sees them before they are whole."""
        if self._regions is not None:
            return
        kernel = self._own()
        if kernel.workspaces is not None:
            self.workspaces = kernel.workspaces
        region = kernel.detach_region(0)
        region.parent = self
        self._regions = (region,)

    @property
    def workspace_bytes(self) -> int:
        is_known = self._regions is None and not self.is_open
        return self._workspace if is_known else super().workspace_bytes

    @regions.setter
    def regions(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, regions: tuple[Region, ...]
    ) -> None:
        self._regions = regions

    def print(self, printer: Printer) -> None:
        if self._regions is not None:
            super().print(printer)
            return
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(self.text)

    def verify(self, verify_nested_ops: bool = True) -> None:
        if self._regions is not None:
            super().verify(verify_nested_ops)


class BoundKernelOp(TextKernelOp):
    """A kernel that is another one at known sizes: it is made when somebody looks into it."""

    def __init__(
        self, name: str, cores: int, make: Callable[[], KernelOp], workspace: int = 0
    ) -> None:
        super().__init__(name, cores, "", lambda _: make(), workspace)

    @property
    def unchanged(self) -> KernelOp:
        return self

    def _own(self) -> KernelOp:
        return self._shared()

    def print(self, printer: Printer) -> None:
        KernelOp.print(self, printer)
