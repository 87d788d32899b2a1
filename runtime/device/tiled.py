"""Kernels by their tile programs, on emulated cores: what `KernelCode` is for their bodies."""

from collections.abc import Sequence

import numpy as np

from ge.dialects.npu_task.attributes import data_type
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.dialects.tile.kernel import KernelOp as TileKernelOp
from ge.runtime.data.arrays import Array, dtype_of
from ge.runtime.data.weights import Payload
from ge.runtime.device.interpreter import Translator
from ge.runtime.tiles.kernel import TileKernel, arguments_of


class TiledCode:
    """A kernel by its tile program: run on input arrays and, if given, destinations."""

    def __init__(
        self, op: KernelOp, program: TileKernelOp, target: Target, payload: Payload
    ) -> None:
        self.kernel, self.output_types = TileKernel(program, target), op.output_types
        given = Translator(payload)
        constants = [given.value_of(c.properties["value"], c.results[0].type) for c in op.constants]
        self.arguments = arguments_of(program)
        self.shapes = [data_type(a.memref.type)[1] for a in self.arguments]
        self.constants = constants
        self.results = [(data_type(t)[1], dtype_of(data_type(t)[0])) for t in self.output_types]
        count = len(op.input_types) + len(constants) + len(self.results)
        if len(self.arguments) != count:
            have = f"{len(self.arguments)} arguments, where @{op.sym_name.data} has {count}"
            raise GeError(f"@{self.kernel.name} has {have}", hint="write it anew: lower-kernels")

    def run(
        self, inputs: Sequence[Array], outs: Sequence[Array | None], seed: int | None = None
    ) -> list[Array]:
        """The results. Those with an array in `outs` are written there as well. With a seed the
        pipes of the cores run in a random legal order."""
        arrays = [*inputs, *self.constants]
        given = {
            argument.name: array.reshape(shape)
            for argument, shape, array in zip(self.arguments, self.shapes, arrays, strict=False)
        }
        stored = self.kernel.run(given, seed)
        results: list[Array] = []
        for argument, (shape, dtype), out in zip(
            self.arguments[len(arrays) :], self.results, outs, strict=True
        ):
            result = stored[argument.name].reshape(shape).astype(dtype, copy=False)
            if out is not None:
                np.copyto(out, result)
                result = out
            results.append(result)
        return results
