"""Ops that are equal as far as one sees from them: those of layers that repeat.

    %3 = graph.matmul %2, %w3       of layer 3, and
    %4 = graph.matmul %9, %w9       of layer 4 have the same properties and types, and so have the
                                    ops around them, up to some steps away

What is decided for one of them holds for all. Ops near the ends of the program, or near a stated
sharding, are like no others.

Numbers of classes are found by rounds, as in Weisfeiler and Lehman's test: those of an op follow
from its own and those of the ops before and behind it."""

from collections.abc import Hashable, Iterator, Mapping

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.sharding import SHARDING
from ge.dialects.graph.stated import argument_attributes

STEPS = 4  # how far one sees


def classes(main: FuncOp) -> tuple[Mapping[Operation | SSAValue, int], Mapping[Operation, int]]:
    """Numbers for each op of the function's own block: equal ones have the same first number, and
    so have equal arguments; ops of one kind, with the same constants, the same second one."""
    types: dict[int, int] = {}  # by identity: there are few, and hashes of them take long

    def type_number(value: SSAValue) -> int:
        if (number := types.get(id(value.type))) is None:
            number = types[id(value.type)] = hash(value.type)
        return number

    block = main.body.block
    ops = list(block.ops)
    own: dict[Operation | SSAValue, int] = {}
    for i, arg in enumerate(block.args):
        own[arg] = hash((type_number(arg), argument_attributes(main, i).get(SHARDING)))
    for i, op in enumerate(ops):
        if op.regions or not op.results:
            own[op] = hash((op.name, i))
            continue
        properties: Mapping[str, Attribute] = op.properties
        if isinstance(op, ConstantOp) and isinstance(op.value, WeightAttr):
            properties = {}
        values = tuple(map(type_number, (*op.operands, *op.results)))
        own[op] = hash((op.name, values, tuple(sorted(properties.items(), key=_name))))

    before = [[v.owner if isinstance(v.owner, Operation) else v for v in op.operands] for op in ops]
    kinds: dict[Operation, int] = {}
    for op, sources in zip(ops, before, strict=True):
        constants = [own.get(s, 0) for s in sources if isinstance(s, ConstantOp)]
        places = [isinstance(s, ConstantOp) for s in sources]
        kinds[op] = hash((own[op], *places, *constants))
    # By places, as this is asked often and xDSL's ops hash in Python; behind the last stands what
    # is neither an argument nor an op of the block
    at = {x: i for i, x in enumerate(own)}
    first, numbers = len(block.args), [*own.values(), 0]
    sources = [[at.get(s, -1) for s in found] for found in before]
    users = [
        [(i, -1 if user is None else at[user]) for i, user in _users(op, main, own)] for op in ops
    ]
    for _ in range(STEPS):
        new = [
            hash(
                (
                    numbers[i],
                    tuple([numbers[s] for s in sources[i - first]]),
                    sum([hash((place, numbers[u])) for place, u in users[i - first]]),
                )
            )
            for i in range(first, len(own))
        ]
        numbers[first:-1] = new
    return dict(zip(own, numbers, strict=False)), kinds


def _users(
    op: Operation, main: FuncOp, known: Mapping[Operation | SSAValue, int]
) -> Iterator[tuple[Hashable, Operation | None]]:
    """The users of an op, and which operands of theirs it gives: of results of the function how
    these are cut."""
    for use in (use for r in op.results for use in r.uses):
        if isinstance(use.operation, ReturnOp):
            yield _stated(main, use.index), None
        elif use.operation in known:
            yield use.index, use.operation


def _stated(main: FuncOp, index: int) -> Attribute | None:
    return None if main.res_attrs is None else main.res_attrs.data[index].data.get(SHARDING)


def _name(item: tuple[str, Attribute]) -> str:
    return item[0]
