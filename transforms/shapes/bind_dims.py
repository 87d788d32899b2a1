"""A program whose shapes are known only at run time becomes one of known shapes, on buffers.

    func.func @main(%x: memref<?x64xf32, host> {graph.name = "x", graph.dims = ["batch", ""]}) {
      %0 = npu_task.transfer %x on 2 : memref<?x64xf32, host> to memref<?x64xf32, hbm>
      npu_task.record 0 on 2
      npu_task.wait 0 on 1
      %1 = npu_task.launch @relu_0 on 1 ins(%0 : ...) -> memref<?x64xf32, hbm>
      %2 = npu_task.transfer %1 on 3 : memref<?x64xf32, hbm> to memref<?x64xf32, host>
with `dims=batch=2` becomes
    func.func @main(%x: memref<2x64xf32, host> {graph.name = "x"}) {
      %0 = memref.alloc() {npu_task.io} : memref<2x64xf32, hbm>
      npu_task.copy %x to %0 : ...
      %1 = memref.alloc() {npu_task.io} : memref<2x64xf32, hbm>
      npu_task.launch @relu_0 ins(%0 : ...) outs(%1 : ...)
      %2 = memref.alloc() : memref<2x64xf32, host>
      npu_task.copy %1 to %2 : ...

Kernels are made anew for the types of their operands (`specialize.py`). What follows from shapes
and constants alone is computed here: no launch of it is left. Streams and events are dropped, slots
are buffers again: the passes that plan programs come next. What depends on data (nonzero) stays
with the device's allocator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.targets.target import target_for
from ge.transforms.shapes.binding import Binding
from ge.transforms.shapes.sizes import argument_shapes


def parsed(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.rpartition("=") for text in texts]
    if bad := [
        t for t, (name, equals, _) in zip(texts, pairs, strict=True) if not equals or not name
    ]:
        raise GeError(f"'{bad[0]}' is no size of a dimension", hint="write it as batch=2")
    return {name: value for name, _, value in pairs}


def number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise GeError(f"the size of '{name}' is a number of elements, not '{text}'")
    return int(text)


@dataclass(frozen=True)
class BindDimsPass(ModulePass):
    """Give the dimensions of a program's inputs their sizes; it becomes one on buffers again."""

    name = "bind-dims"

    dims: tuple[str, ...] = ()
    """Sizes of named dimensions: "batch=2"."""
    shapes: tuple[str, ...] = ()
    """Shapes of inputs: "x=1x3x224x224"."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        dims = {n: number(n, text) for n, text in parsed(self.dims).items()}
        shapes = {
            n: [number(n, d) for d in text.split("x") if text]
            for n, text in parsed(self.shapes).items()
        }
        Binding(module=op, main=main, target=target_for(main)).bind(
            argument_shapes(main, dims, shapes)
        )
