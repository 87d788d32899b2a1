"""Every program that a test runs is proved first, and its dead memory is garbage. A test has one
core: workers run side by side (lit.cfg does the same)."""

import os
from collections.abc import Iterator

import pytest

os.environ["GE_SANITIZE"] = "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")


@pytest.fixture(autouse=True)
def no_registration_stays() -> Iterator[None]:
    """What a test registers ends with it: a pass with a level is a part of every pipeline."""
    from ge.lowering.plugins import extensions

    known = extensions.REGISTERED
    kept = [(table, dict(table)) for table in (known.all_passes, known.all_dialects)]
    yield
    if any(table != before for table, before in kept):
        for table, before in kept:
            table.clear()
            table.update(before)
        extensions._run_file.cache_clear()  # a plugin file registers again when it is loaded again
