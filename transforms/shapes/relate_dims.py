"""Dimensions that every run needs to be equal get one name.

    func.func @main(%w: tensor<1x?xf32> {graph.dims = ["", "keys"]},
                    %v: tensor<?x16xf32> {graph.dims = ["past", ""]}, ...)
      %0 = graph.concat %v, %new axis 0        : past + 1 rows
      %1 = graph.matmul %w, %0                 : as many columns as rows
becomes
    func.func @main(%w: tensor<1x?xf32> {graph.dims = ["", "past + 1"]},
                    %v: tensor<?x16xf32> {graph.dims = ["past", ""]}, ...)
        attributes {graph.dim_relations = {keys = "past + 1"}}

Exporters give dimensions names of their own if they know no better ones. What an op wants to be
equal is what its inference says: it is inferred with numbers in the place of sizes, one for each
expression of dimensions, and what clashes are two expressions of one size. An equation in which a
dimension stands once, and alone, says what that one is: an expression of others, or a number. Sizes
that broadcast may be 1 and say nothing; nor do ops in branches and loops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.stated import (
    DIM_RANGES,
    DIMS,
    dim_ranges,
    dim_relations,
    dims_of,
    state_ranges,
    state_relations,
)
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.dims import Polynomial, Range, Relations, expression, symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import (
    collecting_clashes,
    element_type,
    is_ranked,
    rank_of,
    set_type,
    shape_of,
    tensor,
)
from ge.transforms.analysis.dimensions import Dimensions, stand_in
from ge.transforms.graph.infer_shapes import infer_block, refresh_signature
from ge.transforms.rewriting.passes import MainPass
from ge.transforms.shapes.sizes import SizeExpressions, named_dims

FIRST = 1_000_003  # numbers that stand for sizes: no model has these, or their differences
STEP = 1_000_033
MOST_ROUNDS = 4  # sizes that are known to be equal may tell of more


@dataclass(frozen=True)
class Equation:
    """Two sizes of which an op says that they are equal."""

    op: Operation
    left: Polynomial
    right: Polynomial


@dataclass
class Equations:
    """Equations of the dimensions of a function's arguments, from its ops."""

    main: FuncOp
    names: Sequence[Sequence[str]]  # of the dimensions of arguments
    equal: list[Equation] = field(default_factory=list[Equation])
    broadcast: list[Equation] = field(default_factory=list[Equation])

    def __post_init__(self) -> None:
        self.sizes = SizeExpressions(self.main.body.block, Dimensions(self.main.body), self.names)
        for op in self.main.body.block.ops:
            if isinstance(op, TensorOp) and not op.regions and self.is_open(op):
                self.look(op)

    def is_open(self, op: Operation) -> bool:
        """Return whether operands have different sizes, some of which are expressions."""
        shapes = {s for v in op.operands if (s := self.sizes.sizes.get(v, ()))}
        return len(shapes) > 1 and any(is_symbolic(s) for shape in shapes for s in shape)

    def look(self, op: TensorOp) -> None:
        """Add the sizes that an op wants to be equal."""
        numbers: dict[Polynomial | tuple[SSAValue, int], int] = {}

        def number(value: SSAValue, axis: int) -> int:
            sizes = self.sizes.sizes.get(value, ())
            size = sizes[axis] if axis < len(sizes) else None
            key = size if size is not None and is_symbolic(size) else (value, axis)
            return numbers.setdefault(key, FIRST + STEP * len(numbers))

        with collecting_clashes() as clashes:
            stand_in(op, number)  # what it says of numbers that mean nothing is no error
        sizes = {n: key for key, n in numbers.items() if isinstance(key, Polynomial)}
        for pairs, into in ((clashes.equal, self.equal), (clashes.broadcast, self.broadcast)):
            for pair in pairs:
                known = [sizes.get(n, Polynomial.of(n) if n < FIRST else None) for n in pair]
                if known[0] is not None and known[1] is not None:
                    into.append(Equation(op, known[0], known[1]))


def is_symbolic(size: Polynomial | None) -> bool:
    return size is not None and size.number is None and not size.is_bound


def solved(
    left: Polynomial, right: Polynomial, order: Sequence[str]
) -> tuple[str, Polynomial] | None:
    """A dimension that follows from others where two sizes are equal, and its size: one that is
    never negative, of the last dimension in this order; None where there is none."""
    difference = left + right * -1
    for name in reversed(order):
        alone = [(atoms, f) for atoms, f in difference.terms if atoms == (name,)]
        if len(alone) != 1 or abs(factor := alone[0][1]) != 1:
            continue
        rest = difference + Polynomial(((((name,)), -factor),))
        size = rest * -factor
        positive = size.terms and all(f > 0 for _, f in size.terms)
        if positive and name not in symbols(str(size)):
            return name, size
    return None


@dataclass
class Relating:
    """Finds and writes the relations of one function."""

    main: FuncOp
    tables: Sequence[DictionaryAttr]

    def __post_init__(self) -> None:
        self.names = [
            dims_of(t.data, rank_of(a)) if is_ranked(a) else ()
            for t, a in zip(self.tables, self.main.args, strict=True)
        ]
        self.order = [
            *dict.fromkeys(s for names in self.names for n in names for s in symbols(n) if s)
        ]

    def relations(self, broadcast_to: str = "") -> tuple[Relations, dict[str, Operation]]:
        """Return the relations that follow, and the op that says each. With `broadcast_to` also
        that a dimension follows from this one because both broadcast. Raises GeError if what a user
        said about dimensions contradicts an op."""
        found, sources = Relations(), dict[str, Operation]()
        said = dim_relations(self.main)
        for _ in range(MOST_ROUNDS):
            names = [[found.named(n) for n in names] for names in self.names]
            equations = Equations(self.main, names)
            soft = equations.broadcast if broadcast_to else []
            before = len(found.sizes)
            for equation in (*equations.equal, *soft):
                left, right = map(found.substituted, (equation.left, equation.right))
                if left is None or right is None or left == right:
                    continue
                is_soft = equation in soft
                order = [n for n in self.order if n != broadcast_to] if is_soft else self.order
                if (pair := solved(left, right, order)) is not None:
                    if not is_soft or symbols(str(pair[1])) == (broadcast_to,):
                        found.add(*pair)
                        sources[pair[0]] = equation.op
                elif said and not is_soft and (left + right * -1).number is not None:
                    raise contradiction(equation, left, right, said)
            if len(found.sizes) == before:
                break
        return found, sources

    def write(self, found: Relations) -> None:
        """Name dimensions by their expressions."""
        tables: list[DictionaryAttr] = []
        for arg, table, names in zip(self.main.args, self.tables, self.names, strict=True):
            new = dict(table.data)
            if DIMS in new and names:
                texts = [found.named(n) for n in names]
                new[DIMS] = ArrayAttr([StringAttr("" if t.isdecimal() else t) for t in texts])
                sizes = zip(texts, shape_of(arg), strict=True)
                shape = [int(t) if t.isdecimal() else n for t, n in sizes]
                set_type(arg, tensor(shape, element_type(arg)))
            tables.append(DictionaryAttr(new))
        self.main.arg_attrs = ArrayAttr(tables)
        if any(text.isdecimal() for text in found.texts.values()):
            infer_block(self.main.body.block)
            refresh_signature(self.main)
        said = {n: found.named(text) for n, text in dim_relations(self.main).items()}
        state_relations(self.main, said | found.texts)
        if ranges := dim_ranges(self.main):
            del self.main.attributes[DIM_RANGES]
            state_ranges(self.main, dict(in_common(ranges, found.texts)))


def in_common(ranges: Mapping[str, Range], texts: Mapping[str, str]) -> Iterator[tuple[str, Range]]:
    """Ranges of dimensions, where two of them have become one."""
    result = dict(ranges)
    for name, text in texts.items():
        if name in ranges and expression(text) is None:
            a, b = result.pop(name), result.get(text, Range())
            most = [r.most for r in (a, b) if r.most is not None]
            result[text] = Range(max(a.least, b.least), min(most, default=None))
    return iter(result.items())


def contradiction(
    equation: Equation, left: Polynomial, right: Polynomial, said: Mapping[str, str]
) -> Exception:
    what = f"'{left}' and '{right}' are to be one size here"
    given = ", ".join(f"--dim {n}={text}" for n, text in said.items())
    return error_at(equation.op, f"{given} contradicts the model: {what}", "leave it out")


def relating(main: FuncOp) -> Relating | None:
    """Return the relating of a function; None if its arguments have no dimensions with names."""
    if main.arg_attrs is None or not main.body.blocks:
        return None
    this = Relating(main, main.arg_attrs.data)
    return this if this.order else None


def relate(module: ModuleOp, texts: Mapping[str, str]) -> None:
    """Let dimensions follow from others, as a user says. Those of a program keep their names, which
    the sizes of its tensors have. Raises GeError for an unknown dimension."""
    main = main_function(module)
    tables = () if main is None or main.arg_attrs is None else main.arg_attrs.data
    names = {} if main is None else named_dims(main)
    known = {s: None for n in names for s in (n, *symbols(n))}
    for name, text in texts.items():
        if unknown := next((s for s in (name, *symbols(text)) if s not in known), None):
            listing = ", ".join(f"'{n}'" for n in known) or "none: all sizes are fixed"
            what = f"--dim {name}={text}: there is no dimension '{unknown}'"
            raise GeError(what, hint=f"the module has {listing}")
    assert main is not None
    found = Relations.of(texts)
    if any(isinstance(a.type, TensorType) for a in main.args):
        Relating(main, tables).write(found)
    else:
        state_relations(main, dim_relations(main) | found.texts)


class RelateDimsPass(MainPass):
    """Give dimensions that every run needs to be equal one name."""

    name = "relate-dims"

    def run(self, main: FuncOp) -> None:
        if (this := relating(main)) is None:
            return
        found, _ = this.relations()
        if found.sizes:
            this.write(found)
