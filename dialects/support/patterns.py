"""Regular expressions of users: in options, in calls, and in comments of test files.

`re` tries the ways in which an expression may match one after the other, and an expression that can
match one text in many ways takes years for a text that does not match at its end: `(a+)+$` tries
2^40 ways on 40 letters. So `re` gets what has few ways, as nearly all have; the others are followed
in all ways at once, letter by letter (Thompson 1968; with groups: Pike, see Cox, "Regular
Expression Matching: the Virtual Machine Approach", 2009). The steps of that are at most the length
of the text times that of the expression, whose repeats count as often as they are written out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from ge.dialects.support.errors import GeError

# What `re` itself reads expressions with
c: Any = getattr(re, "_constants")
compiler: Any = getattr(re, "_compiler")
parser: Any = getattr(re, "_parser")

TURNS = 64  # of a loop: the length of a name
MOST_WAYS = 10**6  # that `re` may try; it takes about a second for them
FEW = 100  # of these, at a place
MOST_STEPS = 10_000  # of an expression, with those of repeated parts

Places: TypeAlias = dict[int, int]  # twice a group's number -> its start; one more -> its end


@lru_cache(maxsize=256)
def user_pattern(text: str, what: str = "") -> "UserPattern":
    """The compiled expression; `what` it belongs to stands before it in errors. Raises GeError for
    a text that is no expression, and for one of many ways that refers to what a group has
    matched."""
    named = f"{what} '{text}'".lstrip()
    try:
        compiled, tree = re.compile(text), parser.parse(text)
        if _ways(tree) <= MOST_WAYS:
            return compiled
        steps = _Steps(tree, tree.state.flags)
    except (re.error, RecursionError, OverflowError) as e:
        raise GeError(f"{named} is no regular expression: {e}") from None
    except NotImplementedError as e:
        raise GeError(
            f"{named} is a regular expression that may take for ever: it can match a text in "
            f"many ways, and has {e}",
            hint="write it without, or with fewer of * + ? {} |",
        ) from None
    names = {number: name for name, number in compiled.groupindex.items()}
    return Stepwise(text, steps, [names.get(i, "") for i in range(compiled.groups + 1)])


def _ways(items: Iterable[Any]) -> int:
    """Upper bound of the ways in which `re` tries to match a text of `TURNS` characters from its
    beginning; any number above `MOST_WAYS` where there are more."""
    ways = 1
    for op, value in items:
        match op:
            case c.MAX_REPEAT | c.MIN_REPEAT | c.POSSESSIVE_REPEAT:
                least, most = (min(bound, TURNS) for bound in value[:2])
                turn = _ways(value[2])
                more = turn**most * (most - least + 1)
                if op is c.POSSESSIVE_REPEAT:
                    more = _once(turn ** (least + 1) * most)
            case c.ATOMIC_GROUP | c.ASSERT | c.ASSERT_NOT:
                more = _once(_ways(value if op is c.ATOMIC_GROUP else value[1]))
            case c.BRANCH:
                more = sum(map(_ways, value[1]))
            case c.GROUPREF_EXISTS:
                more = sum(_ways(part or ()) for part in value[1:])
            case c.SUBPATTERN:
                more = _ways(value[-1])
            case _:
                more = 1
        ways = min(ways * more, MOST_WAYS + 1)
    return ways


def _once(tried: int) -> int:
    """The ways of what is not tried again once it has matched: one, where few are tried."""
    return 1 if tried <= FEW else tried


REFUSED = {
    c.GROUPREF: "a reference to a group",
    c.GROUPREF_EXISTS: "a condition on a group",
    c.ATOMIC_GROUP: "an atomic group",
    c.POSSESSIVE_REPEAT: "a possessive repeat",
}


@dataclass(frozen=True)
class _Step:
    """A step: the others that follow it, in the order of preference, where it `fits`. None follows
    the end."""

    then: Sequence[int] = ()
    fits: Any = None  # of `re`: takes one character, or none at a place
    takes: bool = False
    group: int = -1  # in `Places`, where one begins or ends
    around: int = -1  # the first step of what must match here (or must not), or before
    wanted: bool = True
    width: int | None = None  # of what must match before


class _Steps:
    """An expression, and those of its lookarounds, as steps. They are made from the end on, so that
    each knows what follows."""

    def __init__(self, items: Any, flags: int) -> None:
        self.steps: list[_Step] = []
        self.first = self.sequence(items, flags, self.add(_Step()))

    def add(self, step: _Step) -> int:
        if len(self.steps) > MOST_STEPS:
            raise OverflowError(f"more than {MOST_STEPS:,} steps, with those of repeated parts")
        self.steps.append(step)
        return len(self.steps) - 1

    def sequence(self, items: Any, flags: int, then: int) -> int:
        for op, value in reversed(list(items)):
            then = self.item(op, value, flags, then)
        return then

    def item(self, op: Any, value: Any, flags: int, then: int) -> int:
        match op:
            case _ if op in REFUSED:
                raise NotImplementedError(REFUSED[op])
            case c.MAX_REPEAT | c.MIN_REPEAT:
                least, most, items = value
                greedy = op is c.MAX_REPEAT
                return self.repeat(least, most, items, flags, then, greedy=greedy)
            case c.SUBPATTERN:
                number, more, less, items = value
                flags = (flags | more) & ~less
                if number is None:
                    return self.sequence(items, flags, then)
                end = self.add(_Step((then,), group=2 * number + 1))
                return self.add(_Step((self.sequence(items, flags, end),), group=2 * number))
            case c.BRANCH:
                return self.add(_Step([self.sequence(items, flags, then) for items in value[1]]))
            case c.ASSERT | c.ASSERT_NOT:
                around = self.sequence(value[1], flags, self.add(_Step()))
                width = value[1].getwidth()[0] if value[0] < 0 else None
                wanted = op is c.ASSERT
                return self.add(_Step((then,), around=around, wanted=wanted, width=width))
            case _:
                tree = parser.SubPattern(parser.State(), [(op, value)])
                tree.state.flags = flags & ~re.VERBOSE
                takes = tree.getwidth()[1] > 0
                return self.add(_Step((then,), compiler.compile(tree).match, takes))

    def repeat(
        self, least: int, most: int, items: Any, flags: int, then: int, *, greedy: bool
    ) -> int:
        def split(body: int) -> _Step:
            return _Step((body, then) if greedy else (then, body))

        head = then
        if most == c.MAXREPEAT:
            head = self.add(_Step())
            self.steps[head] = split(self.sequence(items, flags, head))
            most = least
        for _ in range(most - least):  # x{1,3} is x(x(x)?)?
            head = self.add(split(self.sequence(items, flags, head)))
        for _ in range(least):
            before, head = head, self.sequence(items, flags, head)
            if before == head:  # nothing, however often
                break
        return head

    def match(
        self, text: str, first: int, start: int, end: int | None = None, *, anywhere: bool = False
    ) -> Places | None:
        """The groups of the match that `re` prefers, group 0 among them: by the step `first`, from
        `start` on, or `anywhere` after it; as far as `end`, or to wherever it goes."""
        found: Places | None = None
        now: list[tuple[int, Places]] = []
        for place in range(start, len(text) + 1):
            seen = {s for s, _ in now}
            if found is None and (anywhere or place == start):
                now += self.reached([(first, {0: place})], text, place, seen)
            after: list[tuple[int, Places]] = []
            for number, groups in now:
                step = self.steps[number]
                if step.then and step.fits(text, place):
                    after.append((step.then[0], groups))
                elif not step.then and end in (None, place):
                    found = {**groups, 1: place}
                    break
            if not after and (found is not None or not anywhere):
                break
            now = list(self.reached(after, text, place + 1, set()))
        return found

    def reached(
        self, begun: Iterable[tuple[int, Places]], text: str, place: int, seen: set[int]
    ) -> Iterator[tuple[int, Places]]:
        """The steps that take a character, and the end, as they are reached from others, the
        preferred first. A second way to a step leads to nothing that the first does not."""
        todo = list(begun)[::-1]
        while todo:
            number, groups = todo.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self.steps[number]
            if step.takes or not step.then:
                yield number, groups
                continue
            if step.group >= 0:
                groups = {**groups, step.group: place}
            if step.around >= 0:
                back = place - (step.width or 0)
                stop = None if step.width is None else place
                here = self.match(text, step.around, back, stop) if back >= 0 else None
                if (here is not None) != step.wanted:
                    continue
                groups = {**groups, **(here or {}), 0: groups[0]}
            elif step.fits is not None and not step.fits(text, place):
                continue
            todo += [(s, groups) for s in reversed(step.then)]


@dataclass(frozen=True)
class Stepwise:
    """An expression with the methods of `re.Pattern` that ge uses."""

    pattern: str
    steps: _Steps = field(compare=False, repr=False)
    names: Sequence[str] = field(compare=False, repr=False)  # of the groups; some have none

    def fullmatch(self, text: str) -> "re.Match[str] | None":
        """A match whose groups have the text that those of `re` have; their places are others."""
        return self.matched(text, self.steps.match(text, self.steps.first, 0, len(text)))

    def search(self, text: str) -> "re.Match[str] | None":
        """A match as of `fullmatch`."""
        return self.matched(text, self.steps.match(text, self.steps.first, 0, anywhere=True))

    def matched(self, text: str, places: Places | None) -> "re.Match[str] | None":
        if places is None:
            return None
        whole, *parts = (
            text[places[i] : places[i + 1]] if i + 1 in places else None
            for i in range(0, 2 * len(self.names), 2)
        )
        groups = (
            (f"(?P<{name}>" if name else "(")
            + ("(?!))?" if part is None else f"{re.escape(part)})")
            for name, part in zip(self.names[1:], parts, strict=True)
        )
        behind = "".join(part or "" for part in parts)
        escaped = f"{re.escape(whole or '')}(?={''.join(groups)})"
        return re.match(escaped, f"{whole}{behind}")


UserPattern: TypeAlias = re.Pattern[str] | Stepwise
