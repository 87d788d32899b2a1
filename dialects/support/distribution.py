"""The distribution that this package is installed as. On the package index the name `ge` belongs
to another project, whose package is called `ge` too: each hides or overwrites the other."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.metadata import version as version_of
from pathlib import Path

from ge.dialects.support.errors import GeError

NAME = "ge-npu"
PACKAGE = "ge"  # what Python imports


def version() -> str:
    """The version of this package: as it was installed, else that of the sources it lies in."""
    try:
        return version_of(NAME)
    except PackageNotFoundError:
        import tomllib

        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        return tomllib.loads(project.read_text("utf-8"))["project"]["version"]


def lacking(message: str, extra: str) -> GeError:
    """The error that something of an extra is missing."""
    note = stranger()
    return GeError(message, hint=f"pip install '{NAME}[{extra}]'", notes=(note,) if note else ())


def stranger() -> str:
    """A sentence with the way out where another project's distribution `ge` is installed; empty
    where there is none."""
    try:
        other = distribution(PACKAGE)
    except PackageNotFoundError:
        return ""
    if is_ours(other):
        return ""
    return (
        f"the distribution '{PACKAGE}' {other.version} is another project, whose package "
        f"'{PACKAGE}' hides that of '{NAME}' or overwrites its files; pip uninstall {PACKAGE}, "
        f"then pip install --force-reinstall --no-deps {NAME}"
    )


def is_ours(other: Distribution) -> bool:
    """True if the distribution is this one, by the name that it had before it was published."""
    return any(e.value.startswith(f"{PACKAGE}.lowering.") for e in other.entry_points)
