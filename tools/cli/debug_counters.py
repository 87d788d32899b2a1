"""`--mlir-debug-counter=NAME-skip=N,NAME-count=M`."""

import re
from collections.abc import Iterator, Sequence

from xdsl.pattern_rewriter import RewritePattern

from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean, names
from ge.lowering.plugins.universe import rules
from ge.transforms.rewriting.counts import APPLICATIONS, PASSES, Counters, DebugCounter


def counted() -> Iterator[str]:
    """What is counted: rules, patterns that are no rules by their classes, passes."""
    yield from (PASSES, APPLICATIONS, *rules())
    todo = [RewritePattern]
    while todo:
        more = todo.pop().__subclasses__()
        yield from (cls.__name__ for cls in more if not getattr(cls, "ASKS", False))
        todo += more


def read_counters(texts: Sequence[str], all_names: bool) -> Counters | None:
    """The counters that flags ask for; None: there are none. Raises GeError for
    a text of another form, or a name that nothing counts."""
    counters = Counters(all_names)
    known = sorted({*counted()}) if texts else []
    for part in (part for text in texts for part in names(text)):
        match = re.fullmatch(r"(.+)-(skip|count)=(\d{1,15})", part)
        if match is None:
            form = "NAME-skip=N or NAME-count=N"
            raise GeError(f"--mlir-debug-counter: expected {form}, not '{part}'")
        name, number = match[1], int(match[3])
        if name not in known:
            hint = did_you_mean(name, known, "; --list-rules lists rules")
            raise GeError(f"--mlir-debug-counter: nothing counts '{name}'{hint}")
        counter = counters.setdefault(name, DebugCounter())
        if match[2] == "skip":
            counter.skip = number
        else:
            counter.count = number
    return counters if counters or all_names else None
