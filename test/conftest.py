"""Every program that a test runs is proved first, and its dead memory is garbage. A test has one
core: workers run side by side (lit.cfg does the same)."""

import os

os.environ["GE_SANITIZE"] = "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
