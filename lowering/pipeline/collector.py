"""Work on modules without garbage collection."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """No garbage collection inside the block: a module is one large web of live objects, which
    each full collection would visit again (a third of the time at 50,000 ops)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
