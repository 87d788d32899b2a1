"""Handlers of the ops that onnxruntime adds to ONNX, its domain `com.microsoft`.

    @contrib_op("QuickGelu", alpha=ANY)
    def quick_gelu(n: Node) -> SSAValue:
        return n.emit(SiluOp, n[0], alpha=n.float("alpha", 1.702))

These ops change from one onnxruntime to the next. So a handler states what it takes: attributes and
their values, and inputs that must be absent. A node that says anything else is refused with all
that does not fit, before the handler sees it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ge.lowering.onnx.registry import Handler, Node, Unsupported, onnx_op

DOMAIN: Final = "com.microsoft"
LAYOUTS: Final = "com.microsoft.nchwc"

ANY: Final = object()
"""An attribute that may have any value: the handler itself says what it does not take."""

Names = Mapping[int, str]
Ranks = Mapping[int, Sequence[int]]


def contrib_op(
    *names: str,
    absent: Names | None = None,
    unwanted: Names | None = None,
    ranks: Ranks | None = None,
    domains: Sequence[str] = (DOMAIN,),
    **attributes: object,
) -> "Registration":
    """Register the function below as the handler of these ops of onnxruntime. `attributes` are all
    that it takes: ANY, or the one value that is supported. `absent` and `unwanted` are the inputs
    and outputs, by index, that are not supported, `ranks` those that an input may have."""
    return Registration(names, domains, attributes, absent or {}, unwanted or {}, ranks or {})


@dataclass(frozen=True)
class Registration:
    """What a handler takes, applied to the function that it decorates."""

    names: Sequence[str]
    domains: Sequence[str]
    attributes: Mapping[str, object]
    absent: Names
    unwanted: Names
    ranks: Ranks

    def __call__(self, handler: Handler) -> Handler:
        checked = Checked(handler, self)
        for domain in self.domains:
            onnx_op(*self.names, domain=domain)(checked)
        return handler

    def problems(self, n: Node) -> list[str]:
        """What the node says that the handler does not take."""
        found: list[str] = []
        for name in n.attributes:
            value = n.attribute(name)
            if name not in self.attributes:
                found.append(f"attribute '{name}' is not known")
            elif (only := self.attributes[name]) is not ANY and value != only:
                found.append(f"attribute '{name}' is {value!r}, supported is {only!r}")
        given = [i for i, value in enumerate(n.inputs) if value is not None]
        found += [
            f"input {i} '{self.absent[i]}' is not supported" for i in given if i in self.absent
        ]
        asked = (i for i in self.unwanted if n.wants(i))
        found += [f"output {i} '{self.unwanted[i]}' is not supported" for i in asked]
        return found + [
            f"input {i} has rank {n.rank(i)}, supported is {' or '.join(map(str, self.ranks[i]))}"
            for i in given
            if i in self.ranks and n.rank(i) not in self.ranks[i]
        ]


class Checked:
    """A handler that sees only nodes of which it takes all that they say."""

    def __init__(self, handler: Handler, takes: Registration) -> None:
        self.handler, self.takes = handler, takes
        self.__module__ = handler.__module__  # whose handler it is
        self.__doc__ = handler.__doc__

    def __call__(self, n: Node) -> object:
        if problems := self.takes.problems(n):
            raise Unsupported("; ".join(problems))
        return self.handler(n)


def advice(domain: str) -> str:
    """What to do about an op of a domain whose ops have no meaning outside of onnxruntime, "" for
    other domains."""
    if domain != LAYOUTS:
        return ""
    return (
        "its layout is one of this machine's CPU: save the optimized model with graph optimization "
        "level ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
    )
