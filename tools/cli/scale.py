"""ge-scale: see `sweep.py`."""

from ge.tools.cli.sweep import scale as run

__all__ = ["run"]
