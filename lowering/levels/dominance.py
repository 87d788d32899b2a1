"""Verification of a module: xDSL's verifiers, and dominance, which they do not check.

    %1 = graph.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
    %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
is
    error: operand #0 does not dominate this use
    note: operand defined here (op in the same block)
"""

from collections.abc import Collection, Iterable, Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnregisteredOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove, SymbolTable
from xdsl.utils.exceptions import VerifyException

from ge.dialects.support.definitions import wrong_attributes
from ge.dialects.support.diagnostics import Diagnostic, Severity, error_at, location_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.operation import GeOp, operands_of, ops_of, regions_of


def verify(module: ModuleOp) -> None:
    """Raises GeError or VerifyException for the first thing that is wrong with a module."""
    try:
        module.verify()
    except VerifyException as e:
        raise_redefinition(module, e)
        raise
    check_attributes(module)
    check_dominance(module)


def check_attributes(op: Operation) -> None:
    """Raises GeError for an attribute of ge's dialects that is wrong, at ops of others: ge's own
    have been verified."""
    if not isinstance(op, GeOp):
        for problem in wrong_attributes(op):
            raise error_at(op, problem)
    for region in regions_of(op):
        for block in region.blocks:
            for inner in ops_of(block):
                check_attributes(inner)


def raise_redefinition(module: ModuleOp, error: VerifyException) -> None:
    """Raises GeError at the second op with a symbol, and a note at the first, if that is what the
    error is about: xDSL's names no op."""
    if not str(error).startswith("Redefinition of symbol"):
        return
    for table in module.walk():
        if not table.has_trait(SymbolTable, value_if_unregistered=False):
            continue
        seen: dict[str, Operation] = {}
        for op in (o for b in table.regions[0].blocks for o in b.ops):
            name = op.properties.get("sym_name", op.attributes.get("sym_name"))
            if not isinstance(name, StringAttr):
                continue
            if (first := seen.setdefault(name.data, op)) is not op:
                new = error_at(op, f"redefinition of symbol @{name.data}")
                note = Diagnostic(Severity.NOTE, "first defined here", location_of(first))
                new.notes = (note,)
                raise new from error


def check_dominance(module: ModuleOp, checked: Collection[Operation] = ()) -> None:
    """Raises GeError for a value that is used where its definition has not been run for sure. The
    regions of modules and of ops that nobody knows have no order. Of the ops in `checked`, which
    stand in the module and use nothing from above, it is known."""
    _check_op(module, set(), checked)


def dominance_errors(module: ModuleOp) -> Iterator[GeError]:
    """The first error of `check_dominance` in each op of a module."""
    values = {id(v) for block in module.body.blocks for v in _values(block)}
    for op in module.ops:
        try:
            _check_operands(op, values)
            _check_op(op, values)
        except GeError as error:
            yield error


# Values are told apart by their ids: the module that they stand in keeps them.


def _check_op(op: Operation, defined: set[int], checked: Collection[Operation] = ()) -> None:
    outer = set[int]() if op.has_trait(IsolatedFromAbove) else defined
    for region in regions_of(op):
        if isinstance(op, ModuleOp | UnregisteredOp):
            _check_unordered(region, outer, checked)
        elif region.first_block is not region.last_block:
            _check_graph_of_blocks(region, outer)
        elif region.first_block is not None:
            outer.difference_update(_check_block(region.first_block, outer))


def _check_unordered(region: Region, defined: set[int], checked: Collection[Operation]) -> None:
    inner = {id(v) for block in region.blocks for v in _values(block)} | defined
    for block in region.blocks:
        for op in block.ops:
            if op not in checked:
                _check_operands(op, inner)
                _check_op(op, inner)


def _check_graph_of_blocks(region: Region, outer: set[int]) -> None:
    """A block may use the values of the blocks that dominate it; what cannot be reached may use
    any."""
    info = DominanceInfo(region)
    reachable, todo = set[Block](), [block for block in region.blocks][:1]
    while todo:
        block = todo.pop()
        if block not in reachable:
            reachable.add(block)
            todo += [] if block.last_op is None else block.last_op.successors
    for block in region.blocks:
        if block in reachable:
            above = (b for b in reachable if info.strictly_dominates(b, block))
            _check_block(block, {id(v) for b in above for v in _values(b)} | outer)


def _check_block(block: Block, defined: set[int]) -> list[int]:
    values = [*map(id, block.args)]
    defined.update(values)
    for op in ops_of(block):
        if not defined.issuperset(map(id, operands_of(op))):
            _check_operands(op, defined)
        if op.regions:
            _check_op(op, defined)
        results = [*map(id, op.results)]
        defined.update(results)
        values += results
    return values


def _values(block: Block) -> Iterable[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _check_operands(op: Operation, defined: set[int]) -> None:
    for i, operand in enumerate(op.operands):
        if id(operand) not in defined:
            raise dominance_error(op, i)


def dominance_error(op: Operation, operand: int) -> GeError:
    """The error about an operand that does not dominate its use, with a note on its definition."""
    value = op.operands[operand]
    error = error_at(op, f"operand #{operand} does not dominate this use")
    if isinstance(value, BlockArgument):
        owner, what = value.block.parent_op(), "operand defined as a block argument"
        where = _relation(value.block, op)
    else:
        assert isinstance(value.owner, Operation)
        owner, what = value.owner, "operand defined here"
        where = _relation(owner.parent_block(), op)
    if owner is not None:
        noun = "block" if isinstance(value, BlockArgument) else "op"
        text = f"{what} ({noun} {where})"
        error.notes = (Diagnostic(Severity.NOTE, text, location_of(owner)),)
    return error


def _relation(block: Block | None, use: Operation) -> str:
    """Return where a definition in `block` stands as seen from its use, in the words of
    mlir-opt."""
    user = use.parent_block()
    if block is None or user is None:
        return "is detached"
    if block is user:
        return "in the same block"
    if block.parent is user.parent:
        return "in the same region"
    if block.find_ancestor_op_in_block(use) is not None:
        return "in a parent region"
    op = block.parent_op()
    if op is not None and user.find_ancestor_op_in_block(op) is not None:
        return "in a child region"
    return "is neither in a parent nor in a child region"
