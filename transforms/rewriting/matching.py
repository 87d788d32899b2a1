"""Patterns of ops, written down as trees and matched against a module.

    x = Value("x")
    SILU = Op(MulOp, x, Op(SigmoidOp, x))
    NORM = Op(MulOp, x, Op(ReciprocalOp, Op(SqrtOp, Op(AddOp, Value("mean"), Number(name="eps")))))

    match = SILU.match(value)      # a Match, or None
    match["x"]                     # the value that x stands for
    match.ops                      # the ops of the match, the root first

- `Op(kinds, *operands, ...)` one op of these classes; operands are patterns for its operand
  definitions, in order; patterns beyond a variadic one at the end are for its values:
  `Op(ConcatOp, a, b, c)`. Both orders of a commutative op are tried (unless `ordered`).
- `Value(name)` any value. The same name twice is the same value twice.
- `Number(0.5)` a constant all of whose elements are that number, as near as its element type can
  be; `Number(name="eps")` any such constant. It may have any shape.
- `Constant(name)` a constant or weight of any content.
- `a | b` one or the other; `Maybe(p)` an optional operand, absent or matching p;
  `Many(name)` all values of a variadic operand; a tuple of patterns for exactly these, or, where
  it ends in `...`, for the first of them.
- `Through(kinds, p)` p, or p behind any number of ops of these classes (casts, reshapes).
- `where=` a predicate on the op or value, which may have a docstring for `Miss`.

An op inside of a match is erased after a rewrite, so its results may have no user outside of the
match; `shared=True` allows them (the op then stays). The root's results may have any users. All ops
of a match are in the root's block.

Matching backtracks, so it finds a match where there is one, in time that depends on the pattern
alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar, cast

from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.irdl import IRDLOperation, OptOperandDef, VarOperandDef
from xdsl.traits import Commutative

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.support.constraints import ChoiceAttr
from ge.dialects.support.tensor_op import Param, attribute
from ge.dialects.support.types import constant_value
from ge.transforms.analysis.polynomials import near, number_of, splat_number, tolerance

OpT = TypeVar("OpT", bound=Operation)

OpClass: TypeAlias = type[Operation]
# What stands for one operand definition: a value, those of a variadic one, or nothing.
Operand: TypeAlias = SSAValue | Sequence[SSAValue] | None
Bound: TypeAlias = SSAValue | Operation | tuple[SSAValue, ...]
Predicate: TypeAlias = Callable[[Any], bool]


# ---- results ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """The ops of a match, the root first, and what the names of the pattern stand for."""

    ops: tuple[Operation, ...]
    bound: dict[str, Bound]

    @property
    def root(self) -> Operation:
        return self.ops[0]

    def __contains__(self, name: str) -> bool:
        return name in self.bound

    def __getitem__(self, name: str) -> SSAValue:
        value = self.bound[name]
        if not isinstance(value, SSAValue):
            raise KeyError(f"'{name}' is not one value")
        return value

    def get(self, name: str) -> SSAValue | None:
        """The value of a name, None if it is in a part that was absent."""
        return self[name] if name in self.bound else None

    def many(self, name: str) -> tuple[SSAValue, ...]:
        values = self.bound[name]
        return values if isinstance(values, tuple) else (self[name],)

    def op(self, name: str, kind: type[OpT]) -> OpT:
        op = self.bound[name]
        if not isinstance(op, kind):
            raise KeyError(f"'{name}' is no {kind.__name__}")
        return op

    def number(self, name: str) -> float:
        value = number_of(self[name])
        if value is None:
            raise KeyError(f"'{name}' is no number")
        return value


class Miss:
    """The reason why a pattern did not match: the condition that failed on the longest partial
    match."""

    def __init__(self) -> None:
        self.op: Operation | None = None
        self.depth = -1  # how many ops of the pattern had matched
        self.ops: tuple[Operation, ...] = ()  # those ops
        self._reason: tuple[str, tuple[object, ...]] = "", ()

    @property
    def why(self) -> str:
        template, args = self._reason
        return template % args if args else template

    def note(
        self, op: Operation | None, why: str, ops: tuple[Operation, ...], *args: object
    ) -> None:
        """Keep the reason `why % args` if more ops had matched than for the one known."""
        if len(ops) > self.depth:
            self.op, self.depth, self.ops, self._reason = op, len(ops), ops, (why, args)


@dataclass(slots=True, eq=False)
class State:
    """A partial match. Never changed: matching branches."""

    ops: tuple[Operation, ...]
    bound: dict[str, Bound]
    shared: frozenset[Operation]
    miss: Miss

    def bind(self, name: str, item: Bound, why: str = "") -> "Iterator[State]":
        """The state in which `name` stands for `item`, if it stands for nothing else yet."""
        if not name or self.bound.get(name) == item:
            yield self
        elif name in self.bound:
            op = item.owner if isinstance(item, SSAValue) else item
            self.fail(op, why or "'%s' is not the same value twice", *(() if why else (name,)))
        else:
            yield State(self.ops, {**self.bound, name: item}, self.shared, self.miss)

    def take(self, op: Operation, shared: bool) -> "State":
        """The state in which `op` is part of the match."""
        if op in self.ops:
            return self
        free = self.shared | {op} if shared else self.shared
        return State((*self.ops, op), self.bound, free, self.miss)

    def fail(self, op: object, why: str, *args: object) -> None:
        self.miss.note(op if isinstance(op, Operation) else None, why, self.ops, *args)

    def used_outside(self) -> Operation | None:
        """An op inside of the match, not shared, that an op outside uses."""
        inside = set(self.ops)
        for op in self.ops[1:]:
            if op not in self.shared and any(
                use.operation not in inside for r in op.results for use in r.uses
            ):
                return op
        return None


# ---- patterns --------------------------------------------------------------------------------


class Pattern(ABC):
    """Base of the patterns."""

    @abstractmethod
    def find(self, operand: Operand, state: State) -> Iterator[State]:
        """The ways to extend `state` so that the operand matches; none, with the reason told to
        `state`, if it does not."""

    def match(self, root: SSAValue | Operation, miss: Miss | None = None) -> Match | None:
        """Return the first match at a value, or at an op by its first result; `miss` records why
        there is none."""
        value = root if isinstance(root, SSAValue) else root.results[0]
        start = State((), {}, frozenset(), Miss() if miss is None else miss)
        for state in self.find(value, start):
            user = state.used_outside()
            if user is None:
                return Match(state.ops, state.bound)
            state.fail(user, "the result of %s is used elsewhere too", user.name)
        return None

    def __or__(self, other: "Pattern") -> "OneOf":
        return OneOf(self, other)


@dataclass(frozen=True)
class Value(Pattern):
    """Any value; with `where`, one for which the predicate holds."""

    name: str = ""
    where: Predicate | None = None

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        if not isinstance(operand, SSAValue):
            return
        if self.where is not None and not self.where(operand):
            state.fail(operand.owner, _reason(self.where))
            return
        yield from state.bind(self.name, operand)


@dataclass(frozen=True)
class Number(Pattern):
    """A splat constant, of the number `value` if that is stated. A whole number is matched by
    itself alone, as every type has it."""

    value: float | None = None
    name: str = ""

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        attr = constant_value(operand) if isinstance(operand, SSAValue) else None
        number = None if attr is None else splat_number(attr)
        if attr is None or number is None:
            state.fail(_owner(operand), "a constant number is expected")
            return
        if self.value is not None:
            exact = float(self.value).is_integer()
            element = cast(Attribute, attr.get_element_type())
            if not near(number, self.value, 0.0 if exact else tolerance(element)):
                state.fail(_owner(operand), "the constant is %g, not %g", number, self.value)
                return
        yield from state.bind(self.name, cast(SSAValue, operand))


@dataclass(frozen=True)
class Constant(Pattern):
    """A constant in the IR, or a weight in the payload."""

    name: str = ""

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        if isinstance(operand, SSAValue) and isinstance(operand.owner, ConstantOp):
            yield from state.bind(self.name, operand)
        else:
            state.fail(_owner(operand), "a constant is expected")


class OneOf(Pattern):
    """The first of several patterns that leads to a match."""

    def __init__(self, *choices: Pattern) -> None:
        self.choices = choices

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        for choice in self.choices:
            yield from choice.find(operand, state)


@dataclass(frozen=True)
class Maybe(Pattern):
    """An optional operand: absent, or matching the pattern."""

    pattern: Pattern

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        if operand is None:
            yield state
        else:
            yield from self.pattern.find(operand, state)


@dataclass(frozen=True)
class Many(Pattern):
    """All values of a variadic operand, `at_least` of them."""

    name: str = ""
    at_least: int = 0

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        if operand is None:
            return
        values = (operand,) if isinstance(operand, SSAValue) else tuple(operand)
        if len(values) < self.at_least:
            why = "%d operands where %d are expected"
            state.fail(None, why, len(values), self.at_least)
            return
        yield from state.bind(self.name, values)


class Through(Pattern):
    """The pattern, at the value itself or behind ops of one operand of the given classes, which
    are part of the match; `shared` lets them have other users."""

    def __init__(
        self, kinds: OpClass | tuple[OpClass, ...], pattern: Pattern, *, shared: bool = False
    ) -> None:
        self.kinds, self.pattern, self.shared = kinds, pattern, shared

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        yield from self.pattern.find(operand, state)
        owner = _owner(operand)
        if owner is not None and isinstance(owner, self.kinds) and len(owner.operands) == 1:
            yield from self.find(owner.operands[0], state.take(owner, self.shared))


# what one stands for in a tuple for a variadic operand; `...` at its end lets more follow
Part: TypeAlias = "Pattern | tuple[Part, ...] | EllipsisType | None"
OperandPattern: TypeAlias = Part


class Op(Pattern):
    """One op. Operand patterns stand for the op's operand definitions, in order: a pattern, a
    tuple of patterns for a variadic operand, None for an absent optional one. Those that are not
    listed are absent; `...` at the end lets them be anything.

    `name` binds the op; the same name twice is the same op, so that two of its results can be
    told apart by `result`. Keyword arguments are properties: a Python value that the property
    equals, or a predicate on the attribute.
    """

    def __init__(
        self,
        kinds: OpClass | tuple[OpClass, ...],
        *operands: OperandPattern,
        name: str = "",
        where: Predicate | None = None,
        result: int | None = None,
        ordered: bool = False,
        shared: bool = False,
        **properties: Param | Predicate,
    ) -> None:
        self.kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        self.expected = " or ".join(getattr(k, "name", k.__name__) for k in self.kinds)
        self.open = bool(operands) and operands[-1] is ...
        self.operands = operands[:-1] if self.open else operands
        self.name, self.where, self.result = name, where, result
        self.ordered, self.shared, self.properties = ordered, shared, properties

    def find(self, operand: Operand, state: State) -> Iterator[State]:
        op = _owner(operand)
        if op is None or not isinstance(op, self.kinds):
            actual = "an argument" if op is None else op.name
            state.fail(op, "%s is expected, not %s", self.expected, actual)
            return
        if state.ops and op.parent is not state.ops[0].parent:
            state.fail(op, "%s is in another block", op.name)
            return
        if self.result is not None and op.results[self.result] is not operand:
            state.fail(op, "result %d of %s is expected", self.result, op.name)
            return
        if not self._accepts(op, state):
            return
        operands, patterns = operands_of(op), self._patterns(op)
        extra = operands[len(patterns) :]
        if not self.open and any(o is not None and o != () for o in extra):
            state.fail(op, "%s has more operands than expected", op.name)
            return
        if len(patterns) > len(operands):
            return
        for bound in state.bind(self.name, op):
            bound = bound.take(op, self.shared)
            yield from _all(patterns, operands, bound)
            if len(patterns) == 2 and not self.ordered and op.has_trait(Commutative):
                yield from _all(patterns[::-1], operands, bound)

    def rejects(self, op: Operation) -> bool:
        """Return whether an op of these kinds surely does not match, by the ops that define its
        operands. Most ops that a rule is tried on end here; the reason is not recorded."""
        if _operand_names(type(op)) is not None or not any(
            map(_differs, self.operands, op.operands)
        ):
            return False
        commutes = len(self.operands) == 2 and not self.ordered and op.has_trait(Commutative)
        return not commutes or any(map(_differs, self.operands[::-1], op.operands))

    def _patterns(self, op: Operation) -> Sequence["OperandPattern"]:
        """One pattern for each operand definition, those for values of a variadic one at the end
        in a tuple."""
        first = variadic_at_end(type(op))
        own = self.operands if first is None else self.operands[first:]
        is_one = len(own) == 1 and not isinstance(own[0], Value | Number | Constant | Op | Through)
        if first is None or not own or is_one:
            return self.operands
        return (*self.operands[:first], (*own, ...) if self.open else own)

    def _accepts(self, op: Operation, state: State) -> bool:
        for name, expected in self.properties.items():
            actual = getattr(op, name, None)
            if callable(expected):
                ok = actual is not None and expected(actual)
            elif isinstance(actual, ChoiceAttr) and isinstance(expected, str):
                ok = actual == actual.of(expected, name)
            else:
                ok = actual == attribute(expected)
            if not ok:
                state.fail(op, "%s of %s is %s", name, op.name, actual)
                return False
        if self.where is not None and not self.where(op):
            state.fail(op, _reason(self.where))
            return False
        return True


def _all(
    patterns: Sequence[OperandPattern], operands: Sequence[Operand], state: State
) -> Iterator[State]:
    """Each way in which all patterns match, operand by operand."""
    if not patterns:
        yield state
        return
    for one in _operand(patterns[0], operands[0], state):
        yield from _all(patterns[1:], operands[1:], one)


def _operand(pattern: OperandPattern, operand: Operand, state: State) -> Iterator[State]:
    if isinstance(pattern, Pattern):
        yield from pattern.find(operand, state)
    elif isinstance(pattern, tuple):
        is_open = pattern[-1:] == (...,)
        parts = pattern[:-1] if is_open else pattern
        if not isinstance(operand, Sequence):
            return
        if len(operand) == len(parts) or (is_open and len(operand) > len(parts)):
            yield from _all(parts, operand, state)
        else:
            at = state.ops[-1]
            state.fail(at, "%s has %d operands, not %d", at.name, len(operand), len(parts))
    elif pattern is ... or operand is None or operand == ():
        yield state


def operands_of(op: Operation) -> Sequence[Operand]:
    """Return the values of each operand definition of an op, in order."""
    names = _operand_names(type(op))
    if names is None:
        return op.operands
    fields = (cast(Operand, getattr(op, name)) for name in names)
    return [f if f is None or isinstance(f, SSAValue) else tuple(f) for f in fields]


@cache
def _operand_names(kind: OpClass) -> tuple[str, ...] | None:
    """Return the names of a class's operand definitions; None if each stands for one operand."""
    if not issubclass(kind, IRDLOperation):
        return None
    operands = kind.get_irdl_definition().operands
    plain = all(not isinstance(d, OptOperandDef | VarOperandDef) for _, d in operands)
    return None if plain else tuple(name for name, _ in operands)


@cache
def variadic_at_end(kind: OpClass) -> int | None:
    """The index of a class's last operand definition, if that is variadic."""
    if not issubclass(kind, IRDLOperation):
        return None
    operands = kind.get_irdl_definition().operands
    return len(operands) - 1 if operands and type(operands[-1][1]) is VarOperandDef else None


def _differs(pattern: OperandPattern, operand: Operand) -> bool:
    """Return whether the pattern is of one op and the operand is a result of another one."""
    return type(pattern) is Op and not isinstance(_owner(operand), pattern.kinds)


def _owner(operand: Operand) -> Operation | None:
    return operand.op if isinstance(operand, OpResult) else None


def _reason(predicate: Predicate) -> str:
    text = predicate.__doc__ or getattr(predicate, "__name__", "a condition")
    return f"does not hold: {text.strip().splitlines()[0]}"
