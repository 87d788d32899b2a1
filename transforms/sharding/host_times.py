"""What the host gives and takes while nothing else is left to do: what hides behind work costs no
time.

The link to the host is an engine of its own. Results leave in the order in which they are made, one
at a time; those of the last row without a gap count, if it ends after the work does:

    work       =======================|
    link            [%k0]   [%k1]   [%logits]      %logits alone

Arguments are the same from the end: each has to be there at the first op that uses it. How values
are cut is to be found: one is taken to hide if it does as a whole, behind work in even parts."""

from collections.abc import Callable, Iterable

from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Operation, SSAValue


def unhidden(
    main: FuncOp, work_s: Callable[[Operation], float], border_s: Callable[[SSAValue], float]
) -> set[SSAValue]:
    """Return the arguments and results of a function whose seconds at the link are not hidden, by
    those of each of its ops and of each argument and result."""
    before, total = dict[SSAValue, float](), 0.0  # the work before it is used first
    after = dict[SSAValue, float]()  # the work up to the op that makes it
    for op in main.body.block.ops:
        for value in op.operands:
            before.setdefault(value, total)
        total += work_s(op)
        after |= dict.fromkeys(op.results, total)
    arguments = [(total - before.get(v, total), v) for v in main.body.block.args]
    last = main.body.block.last_op
    ends = dict.fromkeys(last.operands) if isinstance(last, FuncReturnOp) else ()
    results = [(after.get(v, 0.0), v) for v in ends]
    return last_row(results, total, border_s) | last_row(reversed(arguments), total, border_s)


def last_row(
    values: Iterable[tuple[float, SSAValue]], end: float, border_s: Callable[[SSAValue], float]
) -> set[SSAValue]:
    """Return the values that follow each other without a gap at last, where each is ready at some
    time; none where all have gone by the end of the work."""
    now = 0.0
    row = set[SSAValue]()
    for ready, value in sorted(values, key=lambda pair: pair[0]):
        if ready > now:
            now = ready
            row.clear()
        now += border_s(value)
        row.add(value)
    return row if now > end else set[SSAValue]()
