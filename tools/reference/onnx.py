"""The page of ONNX's ops, and of those that onnxruntime adds: which of them ge imports."""

from collections.abc import Iterator

from ge.lowering.onnx.contrib import ANY, DOMAIN, Checked, Registration
from ge.lowering.onnx.registry import Handler, own_handlers
from ge.tools.reference.markdown import code, paragraphs, table

INTRODUCTION = """# Ops of ONNX

What is imported, by domain. An op that ONNX itself defines by others is imported as these, listed
or not. A model with other nodes is refused with all of them at once."""

ONNXRUNTIME = """These are ops of [onnxruntime](../onnxruntime.md). An attribute may have any value
but where one stands beside it; nodes with other attributes are refused, and so are nodes with an
input or output of the last column."""

NAMES = {"": "ONNX", "ai.onnx.ml": "ai.onnx.ml", DOMAIN: DOMAIN}


def onnx_page() -> str:
    """A list of op types for each domain; for onnxruntime's a table of what they take."""
    by_domain: dict[str, dict[str, Handler]] = {}
    for (domain, name), handler in sorted(own_handlers().items()):
        by_domain.setdefault(domain, {})[name] = handler
    sections = [
        paragraphs(f"## {NAMES.get(domain, domain)}", section(domain, handlers))
        for domain, handlers in by_domain.items()
    ]
    return paragraphs(INTRODUCTION, *sections)


def section(domain: str, handlers: dict[str, Handler]) -> str:
    if domain != DOMAIN:
        return ", ".join(map(code, handlers))
    rows = [row(name, h.takes) for name, h in handlers.items() if isinstance(h, Checked)]
    return paragraphs(ONNXRUNTIME, table(["op", "attributes", "not supported"], rows))


def row(name: str, takes: Registration) -> tuple[str, str, str]:
    return (code(name), ", ".join(_attributes(takes)), ", ".join(_refused(takes)))


def _attributes(takes: Registration) -> Iterator[str]:
    for name, only in sorted(takes.attributes.items()):
        yield code(name if only is ANY else f"{name} = {only}")


def _refused(takes: Registration) -> Iterator[str]:
    yield from (f"input {code(name)}" for name in takes.absent.values())
    yield from (f"output {code(name)}" for name in takes.unwanted.values())
