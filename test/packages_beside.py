"""Packages that the environment has beside ge: they take no part in tests."""

from importlib.metadata import entry_points


def packages_beside() -> str:
    """Return their names, as `GE_PACKAGES_OFF` takes them."""
    found = entry_points(group="xdsl.universe")
    names = {
        e.dist.name for e in found if e.dist and e.value.partition(".")[0] not in ("ge", "xdsl")
    }
    return ",".join(sorted(names))
