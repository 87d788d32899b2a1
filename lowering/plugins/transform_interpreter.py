"""xDSL's interpreter of transform scripts; `transform.apply_registered_pass` takes every pass."""

from collections.abc import Callable, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.transform import ApplyRegisteredPassOp
from xdsl.interpreter import Interpreter
from xdsl.interpreters.printf import PrintfFunctions
from xdsl.interpreters.transform import OperationHandle, TransformFunctions
from xdsl.passes import ModulePass
from xdsl.transforms.transform_interpreter import TransformInterpreterPass

from ge.dialects.support.diagnostics import error_at


def transform_interpreter(
    passes: Mapping[str, Callable[[], type[ModulePass]]],
) -> type[TransformInterpreterPass]:
    """The pass of xDSL's name that knows these passes."""

    class WithPasses(TransformInterpreterPass):
        """Transform dialect interpreter"""

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for script in op.walk():
                if isinstance(script, ApplyRegisteredPassOp):
                    name = script.pass_name.data.partition("{")[0]
                    if name not in passes:
                        hint = "--list-passes lists them"
                        raise error_at(script, f"unknown pass '{name}'", hint)
            schedule = self.find_transform_entry_point(op, self.entry_point)
            interpreter = Interpreter(op)
            interpreter.register_implementations(TransformFunctions(ctx, dict(passes)))
            interpreter.register_implementations(PrintfFunctions())
            interpreter.call_op(schedule, (OperationHandle(op),))

    return WithPasses
