r"""Mark inputs that are the last run's outputs as state.

    func.func @main(%past: tensor<2x8xf32> {graph.name = "past.0"}) -> (... {graph.name = "new.0"})
becomes, with `mark-state{patterns="past\\.(.*)=new.\\1"}`,
    func.func @main(%past: ... {graph.name = "past.0", graph.state = "new.0"}) -> (...)

Later steps keep it in the memory of the device: see `bufferize-tasks` and `update-state`.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.stated import STATE, Typed, name_of, state_pairs
from ge.dialects.npu_task.attributes import data_type
from ge.transforms.rewriting.passes import MainPass


def argument_tables(main: FuncOp) -> list[DictionaryAttr]:
    """The attributes of the arguments of a function."""
    if main.arg_attrs is None:
        return [DictionaryAttr({}) for _ in main.args]
    return list(main.arg_attrs.data)


def typed_inputs(main: FuncOp) -> list[Typed]:
    names = [name_of(t.data) or f"arg{i}" for i, t in enumerate(argument_tables(main))]
    return [Typed(n, *data_type(a.type)) for n, a in zip(names, main.args, strict=True)]


def typed_outputs(main: FuncOp) -> list[Typed]:
    """Names, element types and shapes of the outputs."""
    types = main.function_type.outputs.data
    tables = [DictionaryAttr({})] * len(types) if main.res_attrs is None else main.res_attrs.data
    names = [name_of(t.data) or f"result{i}" for i, t in enumerate(tables)]
    return [Typed(n, *data_type(t)) for n, t in zip(names, types, strict=True)]


@dataclass(frozen=True)
class MarkStatePass(MainPass):
    """Mark inputs of @main that the device keeps from run to run."""

    name = "mark-state"

    patterns: tuple[str, ...] = ()
    """INPUT=OUTPUT: a regular expression of names of inputs, and the output that each becomes."""

    def run(self, main: FuncOp) -> None:
        inputs = typed_inputs(main)
        pairs = state_pairs(self.patterns, inputs, typed_outputs(main))
        main.arg_attrs = ArrayAttr(
            DictionaryAttr({**t.data, STATE: StringAttr(pairs[i.name])}) if i.name in pairs else t
            for i, t in zip(inputs, argument_tables(main), strict=True)
        )
