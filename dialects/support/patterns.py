"""Regular expressions of users: in options, in calls, and in comments of test files.

`re` tries the ways in which an expression may match one after the other, and an expression that can
match one text in many ways takes years for a text that does not match at its end: `(a+)+$` tries
2^40 ways on 40 letters. `user_pattern` refuses such an expression before it meets a text. What it
accepts is matched by `re`, as fast as ever.

An expression is looked at as an automaton whose states are its characters (Glushkov's): which may
follow which, and in how many ways. It is refused

- where a loop comes back to a character in two ways by the same text, which doubles the work with
  each turn: `(a+)+`, `(a|a)*`, `(\\w+\\s?)*`;
- where more than `MOST_WAYS` paths read one character 64 times: five loops in a row that all take
  it, as in `.*.*.*.*.*x`, or `a?` thirty times.

An expression whose loops take different characters in turn, such as `(\\w+\\.)*\\w+`, has one way
for each text. Backreferences and lookarounds are looked at on their own.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from ge.dialects.support.errors import GeError

# What `re` itself reads expressions with
c: Any = getattr(re, "_constants")
compiler: Any = getattr(re, "_compiler")
parser: Any = getattr(re, "_parser")

TURNS = 64  # of a loop: the length of a part of a name
MOST_WAYS = 10**8  # paths that read `TURNS` times the same character; `re` tries 10^8 in a second
WRITTEN_OUT = 8  # a part that is repeated at most so often stands there as often, else as a loop
MOST_STATES = 10_000  # characters of an expression
MOST_JOINED = 100_000  # pairs of characters that may follow each other
REPEATED = "*+?{"  # signs: without one of them, nothing is tried for long
SAMPLES = "".join(map(chr, range(256))) + "\u0436\u4e2d\u0660\u2003"  # and what the text names

Set: TypeAlias = int  # of characters, by their places among the samples
Ways: TypeAlias = "dict[int, int]"  # state -> in how many ways it is first (or last)


@lru_cache(maxsize=256)
def user_pattern(text: str, what: str = "") -> re.Pattern[str]:
    """The compiled expression; `what` it belongs to stands before it in errors. Raises GeError for
    a text that is no expression, and for one that may take for ever where it does not match."""
    named = f"{what} '{text}'".lstrip()
    try:
        compiled, why = re.compile(text), ""
        if any(sign in text for sign in REPEATED):
            tree = parser.parse(text)
            automaton = _Automaton("".join(dict.fromkeys(SAMPLES + text + text.swapcase())))
            why = automaton.ambiguity(automaton.sequence(tree, tree.state.flags))
    except (re.error, RecursionError, OverflowError) as e:
        raise GeError(f"{named} is no regular expression: {e}") from None
    if why:
        message = f"{named} is a regular expression that may take for ever: {why}"
        raise GeError(message, hint=HINT)
    return compiled


HINT = (
    "let what is repeated begin or end with what the rest of it cannot match, as in (\\w+\\.)* or "
    "[^.]*\\., or write x++, x*+ or (?>...) for what is not to be tried again"
)


@dataclass
class _Part:
    """A part of the expression: in how many ways it matches nothing, and its ends."""

    empty: int = 1
    first: Ways = field(default_factory=dict[int, int])
    last: Ways = field(default_factory=dict[int, int])


def _sum(a: Ways, b: Ways, times: int = 1) -> Ways:
    """The ways of `a`, and `times` those of `b`."""
    return {**a, **{s: a.get(s, 0) + times * w for s, w in b.items()}} if times else a


class _Automaton:
    def __init__(self, samples: str) -> None:
        self.samples = samples
        self.joined = 0
        self.sets: list[Set] = []
        self.follow: list[Ways] = []
        self.within: list[str] = []  # what is wrong with lookarounds and atomic groups
        self.known: dict[object, Set] = {}

    # ---- made of the tree --------------------------------------------------------------------

    def state(self, characters: Set) -> _Part:
        if len(self.sets) >= MOST_STATES:
            raise OverflowError(
                f"more than {MOST_STATES:,} characters, with those of repeated parts"
            )
        self.sets.append(characters)
        self.follow.append({})
        new = len(self.sets) - 1
        return _Part(0, {new: 1}, {new: 1})

    def join(self, before: Ways, after: Ways, times: int = 1) -> None:
        self.joined += len(before) * len(after)
        if self.joined > MOST_JOINED:
            raise OverflowError("too many of its parts may be left out")
        for state, ways in before.items():
            self.follow[state] = _sum(self.follow[state], after, ways * times)

    def sequence(self, items: Iterable[Any], flags: int) -> _Part:
        whole = _Part()
        for op, value in items:
            part = self.part(op, value, flags)
            self.join(whole.last, part.first)
            whole = _Part(
                whole.empty * part.empty,
                _sum(whole.first, part.first, whole.empty),
                _sum(part.last, whole.last, part.empty),
            )
        return whole

    def part(self, op: Any, value: Any, flags: int) -> _Part:
        match op:
            case c.MAX_REPEAT | c.MIN_REPEAT:
                least, most, items = value
                return self.repeat(least, most, items, flags)
            case c.POSSESSIVE_REPEAT:
                return self.at_once([(c.MAX_REPEAT, value)], flags)
            case c.ATOMIC_GROUP:
                return self.at_once(value, flags)
            case c.SUBPATTERN:
                _, more, less, items = value
                return self.sequence(items, (flags | more) & ~less)
            case c.BRANCH:
                return self.choice([self.sequence(items, flags) for items in value[1]])
            case c.GROUPREF_EXISTS:
                _, yes, no = value
                return self.choice([self.sequence(items or [], flags) for items in (yes, no)])
            case c.ASSERT | c.ASSERT_NOT:
                self.at_once(value[1], flags)
                return _Part()
            case c.AT | c.FAILURE:
                return _Part()
            case c.GROUPREF:
                return self.state((1 << len(self.samples)) - 1)
            case _:
                return self.state(self.characters(op, value, flags))

    def choice(self, parts: Sequence[_Part]) -> _Part:
        whole = _Part(0)
        for p in parts:
            ends = _sum(whole.first, p.first), _sum(whole.last, p.last)
            whole = _Part(whole.empty + p.empty, *ends)
        return whole

    def repeat(self, least: int, most: int, items: Any, flags: int) -> _Part:
        if most <= WRITTEN_OUT:
            whole = _Part()
            for i in reversed(range(most)):  # x{1,3} is x(x(x)?)?
                part = self.sequence(items, flags)
                self.join(part.last, whole.first)
                last = _sum(whole.last, part.last, whole.empty)
                first = _sum(part.first, whole.first, part.empty)
                whole = _Part(part.empty * whole.empty + (i >= least), first, last)
            return whole
        part = self.sequence(items, flags)
        # Without an end, a turn that matches nothing is the last; else each may match nothing
        self.join(part.last, part.first, 1 if most == c.MAXREPEAT or not part.empty else 2)
        more = 1 + part.empty
        last = {s: w * more for s, w in part.last.items()}
        return _Part((not least) + part.empty, part.first, last)

    def at_once(self, items: Any, flags: int) -> _Part:
        """What is not tried again when the rest does not match: one state for the whole."""
        inner = _Automaton(self.samples)
        part = inner.sequence(items, flags)
        if why := inner.ambiguity(part):
            self.within.append(why)
        characters = 0
        for s in inner.sets:
            characters |= s
        outer = self.state(characters)
        return _Part(min(part.empty, 1), outer.first, outer.last)

    def characters(self, op: Any, value: Any, flags: int) -> Set:
        key = (op, str(value), flags)
        if key not in self.known:
            tree = parser.SubPattern(parser.State(), [(op, value)])
            tree.state.flags = flags & ~re.VERBOSE
            fits = compiler.compile(tree).match
            self.known[key] = sum(1 << i for i, s in enumerate(self.samples) if fits(s))
        return self.known[key]

    # ---- looked at ---------------------------------------------------------------------------

    def ambiguity(self, whole: _Part) -> str:
        """Why it may take for ever, "" if it does not."""
        if self.within:
            return self.within[0]
        components = self.components(range(len(self.sets)))
        if any(is_loop and self.doubles(states) for states, is_loop in components):
            return "what it repeats can match the same text in several ways"
        of_each = zip(*(f"{s:0{len(self.samples)}b}" for s in self.sets), strict=True)
        for taken in set(of_each):
            ways = self.ways([i for i, bit in enumerate(taken) if bit == "1"], whole)
            if max(ways, whole.empty) > MOST_WAYS:
                return "too many of its parts can match the same characters"
        return ""

    def components(self, states: Sequence[int]) -> list[tuple[list[int], bool]]:
        """Those of the states that can follow each other in a loop, and True; each other one alone,
        and False. What can follow stands before."""
        inside = set(states)
        after = {s: [t for t in self.follow[s] if t in inside] for s in states}
        reach, before = dict.fromkeys(states, 0), dict[int, int]()
        while reach != before:  # as often as loops stand in each other
            before = dict(reach)
            for s in reversed(states):
                for t in after[s]:
                    reach[s] |= reach[t] | 1 << t
        found: dict[int, list[int]] = {}
        for s in sorted(states, key=lambda s: (reach[s] | 1 << s).bit_count()):
            found.setdefault(reach[s] if reach[s] >> s & 1 else ~s, []).append(s)
        return [(together, key > 0) for key, together in found.items()]

    def doubles(self, loop: Sequence[int]) -> bool:
        """Whether two paths in a loop that part meet again after the same text."""
        inside = set(loop)
        after = {s: [t for t in self.follow[s] if t in inside] for s in loop}
        if any(self.follow[s][t] > 1 for s in loop for t in after[s]):
            return True
        seen = {(s, s) for s in loop}
        todo = list(seen)
        while todo:
            a, b = todo.pop()
            for s in after[a]:
                for t in after[b]:
                    if s == t and a != b:
                        return True
                    pair = min(s, t), max(s, t)
                    if self.sets[s] & self.sets[t] and pair not in seen:
                        seen.add(pair)
                        todo.append(pair)
        return False

    def ways(self, states: Sequence[int], whole: _Part) -> int:
        """How many paths there are through these, `TURNS` of them through each loop."""
        total: dict[int, int] = {}
        for together, is_loop in self.components(states):
            after = (f for s in together for f in self.follow[s].items() if f[0] in total)
            ends = max(whole.last.get(s, 1) for s in together)
            ways = (ends + sum(total[s] * w for s, w in after)) * (TURNS if is_loop else 1)
            total |= dict.fromkeys(together, ways)
        return max((w * whole.first.get(s, 1) for s, w in total.items()), default=0)
