"""What this machine can hold."""

import os

from ge.dialects.support.errors import GeError

WITHOUT_MEMORY = "--timing-only needs no memory"


def machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def require_memory(size: int, *what: object, hint: str = "") -> None:
    """Raises GeError where `size` bytes are more than this machine has; `what` needs them."""
    if size > machine_bytes():
        amount = f"{size / 2**30:.1f} GiB, more than this machine has"
        raise GeError(f"{' '.join(map(str, what))} needs {amount}", hint=hint)
