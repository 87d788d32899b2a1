"""One launch of a program that is bound to sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ge.dialects.npu_task.memory import owner_of
from ge.dialects.npu_task.ops import ConstantOp, CopyOp, LaunchOp
from ge.dialects.support.operation import ops_of
from ge.dialects.support.types import is_dynamic, numel, shape_of
from ge.runtime.data.arrays import Array, dense
from ge.transforms.analysis.views import view_offsets
from ge.transforms.shapes.buffers import Buffers, alloc, buffer_type
from ge.transforms.shapes.kernels import Launch


@dataclass
class Launching:
    """One launch: what its kernel became, on the buffers of now."""

    binding: Buffers
    op: LaunchOp
    made: Launch
    ins: Sequence[SSAValue | None]
    # Value of the kernel's body -> buffer
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self) -> None:
        body, binding = self.made.made.body, self.binding
        for arg, value in zip(body.block.args, self.ins, strict=True):
            if value is not None:
                self.values[arg] = value
        pairs = self.results()
        targets = self.targets(pairs)
        for op in ops_of(body.block):
            if op in body.views:
                self.add_views(op)
            elif op in self.made.kernels:
                self.compute(op, targets, pairs)
        for value, old in pairs:
            if (array := self.made.constant(value)) is not None:
                self.known(array, old)
            elif old in self.op.results:
                binding.known.pop(old, None)
                binding.buffers[old] = self.values[value]
                if old in binding.outputs:
                    binding.show(self.values[value])
            elif self.values[value] is not targets.get(value):
                binding.add(CopyOp(self.values[value], binding.place(old)))

    def known(self, array: Array, old: SSAValue) -> None:
        """A result follows from shapes and constants."""
        binding = self.binding
        if old in self.op.results:
            binding.known[old] = array
        elif binding.is_whole(old):
            owner = owner_of(old)
            binding.known[owner] = array.reshape(shape_of(owner))
        else:
            binding.add(source := ConstantOp(dense(array), buffer_type(old)))
            binding.add(CopyOp(source.result, binding.place(old)))

    def results(self) -> list[tuple[SSAValue, SSAValue]]:
        """Each value that the kernel returns, with what it is in the program."""
        outs, results = iter(self.op.outs), iter(self.op.results)
        return [
            (value, next(results) if dynamic else next(outs))
            for value, dynamic in zip(self.made.made.returned, self.made.made.dynamic, strict=True)
        ]

    def targets(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> dict[SSAValue, SSAValue]:
        """The buffers of the program that the kernels compute into: not those of values that are
        results as well, which nobody overwrites."""
        targets: dict[SSAValue, SSAValue] = {}
        taken = {value for value, old in pairs if old in self.op.results}
        for value, old in pairs:
            if old in self.op.outs and value.owner in self.made.kernels and value not in taken:
                taken.add(value)
                targets[value] = self.binding.place(old)
        return targets

    def compute(
        self,
        op: Operation,
        targets: Mapping[SSAValue, SSAValue],
        pairs: Sequence[tuple[SSAValue, SSAValue]],
    ) -> None:
        binding = self.binding
        kernel = self.made.kernels[op]
        outs: list[SSAValue] = []
        dynamic: list[SSAValue] = []
        for result in op.results:
            if is_dynamic(result.type):
                dynamic.append(result)
                continue
            if (place := targets.get(result)) is None:
                new = alloc(buffer_type(result), self.is_output(result, pairs))
                binding.add(new)
                place = new.memref
            self.values[result] = place
            outs.append(place)
        ins = [self.value(v) for v in self.made.inputs(op)]
        launch = LaunchOp(kernel, ins, outs, [buffer_type(r) for r in dynamic])
        binding.add(launch)
        self.values |= zip(dynamic, launch.results_, strict=True)

    def value(self, value: SSAValue) -> SSAValue:
        """The buffer of a value of the kernel's body; a constant that does not stand in a kernel is
        one of the program."""
        if value not in self.values:
            array = self.made.constant(value)
            assert array is not None
            source = ConstantOp(dense(array), buffer_type(value))
            self.binding.add(source)
            self.values[value] = source.result
        return self.values[value]

    def is_output(self, result: SSAValue, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> bool:
        """Whether a result, or all of it in another shape, is an output of the model."""
        shown, count, body = {result}, numel(shape_of(result)), self.made.made.body
        for op in ops_of(body.block) if body.views else ():
            if op in body.views and op.operands[0] in shown:
                shown.update(r for r in op.results if numel(shape_of(r)) == count)
        return any(value in shown and old in self.binding.outputs for value, old in pairs)

    def add_views(self, op: Operation) -> None:
        source, offsets = self.values[op.operands[0]], view_offsets(op)
        assert offsets is not None
        for result, offset in zip(op.results, offsets, strict=True):
            shape = shape_of(result)
            same = shape == shape_of(source)
            self.values[result] = source if same else self.binding.part(source, offset, shape)
