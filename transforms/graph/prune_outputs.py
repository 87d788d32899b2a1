"""Keep only some outputs, and the ops that they are computed from.

    func.func @main(%x, %y) -> (... {graph.name = "a"}, ... {graph.name = "b"}) {
      %0 = graph.exp %x
      %1 = graph.sin %y
      func.return %0, %1
    }
becomes, with `prune-outputs{outputs=b}`,
    func.func @main(%x, %y) -> (... {graph.name = "b"}) {
      %1 = graph.sin %y
      func.return %1
    }

The outputs keep their order. The inputs stay, used or not, so that callers need not change; with
`unused-inputs` those without uses go.
"""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp

from ge.dialects.graph.stated import NAME
from ge.dialects.support.diagnostics import error_at
from ge.transforms.graph.eliminate_dead_code import eliminate_dead_code
from ge.transforms.graph.infer_shapes import refresh_signature
from ge.transforms.rewriting.passes import BitExact, MainPass, Relation


def output_names(func: FuncOp) -> list[str]:
    """The names of a function's results, `result0` and so on for those without one."""
    empty = [DictionaryAttr({})] * len(func.function_type.outputs)
    tables = empty if func.res_attrs is None else func.res_attrs.data
    names = [t.data.get(NAME) for t in tables]
    return [n.data if isinstance(n, StringAttr) else f"result{i}" for i, n in enumerate(names)]


def _kept(
    attributes: ArrayAttr[DictionaryAttr] | None, indices: Collection[int]
) -> ArrayAttr[DictionaryAttr] | None:
    if attributes is None:
        return None
    return ArrayAttr([t for i, t in enumerate(attributes.data) if i in indices])


def keep_outputs(func: FuncOp, indices: Collection[int]) -> None:
    last = func.body.block.last_op
    assert isinstance(last, ReturnOp)
    last.operands = [v for i, v in enumerate(last.operands) if i in indices]
    func.res_attrs = _kept(func.res_attrs, indices)
    refresh_signature(func)


def drop_unused_inputs(func: FuncOp) -> None:
    block = func.body.block
    used = {a.index for a in block.args if a.first_use is not None}
    for arg in reversed(block.args):
        if arg.index not in used:
            block.erase_arg(arg)
    func.arg_attrs = _kept(func.arg_attrs, used)
    refresh_signature(func)


@dataclass(frozen=True)
class PruneOutputsPass(MainPass):
    """Keep only the outputs of @main that are named, and what they are computed from."""

    name = "prune-outputs"
    RELATION: ClassVar[Relation] = BitExact(prunes=True)

    outputs: tuple[str, ...] = ()
    """Names of outputs; none: all of them stay."""
    unused_inputs: bool = False
    """Whether inputs go that nothing is computed from."""

    def run(self, main: FuncOp) -> None:
        names = output_names(main)
        for name in self.outputs:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"outputs are {', '.join(names)}"
                raise error_at(main, f"there is no output '{name}'", hint)
        if self.outputs:
            keep_outputs(main, [i for i, name in enumerate(names) if name in self.outputs])
        eliminate_dead_code(main.body.block)
        if self.unused_inputs:
            drop_unused_inputs(main)
