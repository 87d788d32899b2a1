"""`--version` of every tool: cheap, for it is what scripts call to see whether ge is there."""

from importlib.metadata import version


def version_text(tool: str) -> str:
    return f"{tool} {version('ge')} (xDSL {version('xdsl')})"
