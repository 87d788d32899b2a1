"""Every program that a test runs is proved first, and its dead memory is garbage (lit.cfg does the
same)."""

import os

os.environ["GE_SANITIZE"] = "1"
