"""Lines of the source that calls ge: of what is traced, and of what builds a graph."""

import sys
from collections.abc import Container
from functools import lru_cache
from pathlib import Path

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr


def source_line(room: Container[str]) -> FileLineColLoc:
    """The innermost line outside of these files."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename in room:
        frame = frame.f_back
    return _line(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def _line(file: str, number: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(Path(file).name), IntAttr(number), IntAttr(0))
