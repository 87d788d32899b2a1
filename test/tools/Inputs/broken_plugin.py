"""A plugin that cannot be loaded."""

import no_such_module  # noqa: F401
