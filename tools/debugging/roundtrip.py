"""`--verify-roundtrip`: what is printed, in both forms, is read back as the same module."""

from itertools import zip_longest

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.utils.exceptions import ParseError

from ge.dialects.support.errors import GeError
from ge.dialects.text.errors import diagnose
from ge.dialects.text.printing import op_text
from ge.dialects.text.reading import SourceText, parse_module


def check_roundtrip(ctx: Context, module: ModuleOp) -> None:
    """Raises GeError where a printed form cannot be read, or gives another module."""
    whole = op_text(module, generic=True, debuginfo=True)
    for form, generic in (("custom", False), ("generic", True)):
        text = op_text(module, generic=generic, debuginfo=True)
        try:
            again = parse_module(ctx, SourceText(f"<{form} form>", text))
        except ParseError as e:
            error = diagnose(e)
            line = text.split("\n")[max(error.location.line - 1, 0)].strip()
            raise GeError(
                f"the {form} form of this module cannot be read back: {error.message}",
                notes=[f"the line is: {line}"],
            ) from e
        for old, new in zip(module.walk(), again.walk(), strict=False):
            if old.location == UNKNOWN_LOC:  # else it is where the new one stands in the text
                new.location = UNKNOWN_LOC
        after = op_text(again, generic=True, debuginfo=True)
        if after != whole:
            lines = zip_longest(whole.split("\n"), after.split("\n"), fillvalue="")
            was, became = next((a, b) for a, b in lines if a != b)
            raise GeError(
                f"the {form} form of this module is read back as another one",
                notes=[f"it was: {was.strip()}", f"it became: {became.strip()}"],
            )
