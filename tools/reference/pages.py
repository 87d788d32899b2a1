"""The pages of the documentation that are made from the code: path below docs/ -> text."""

from collections.abc import Callable, Mapping

from ge.tools.reference.command_lines import tools_page
from ge.tools.reference.onnx import onnx_page
from ge.tools.reference.ops import dialect_pages
from ge.tools.reference.options import options_page
from ge.tools.reference.passes import passes_page, rules_page
from ge.tools.reference.report_keys import report_page
from ge.tools.reference.targets import targets_page

PAGES: Mapping[str, Callable[[], str]] = {
    **dialect_pages(),
    "reference/onnx.md": onnx_page,
    "reference/options.md": options_page,
    "reference/passes.md": passes_page,
    "reference/report.md": report_page,
    "reference/rules.md": rules_page,
    "reference/targets.md": targets_page,
    "reference/tools.md": tools_page,
}


def generated_pages() -> dict[str, str]:
    """Make all of them."""
    return {path: make() for path, make in PAGES.items()}
