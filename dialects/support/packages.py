"""Additions of installed packages, by one entry point of the group `xdsl.universe`:

    [project.entry-points."xdsl.universe"]
    acme = "acme_npu:PACKAGE"

    PACKAGE = ge.Package(
        dialects={"acme": "acme_npu.ops:Acme"},
        passes={"acme-tidy": "acme_npu.passes:AcmeTidyPass"},
        kernels=["acme_npu.kernels"],
        onnx={"com.acme": "acme_npu.onnx_ops"},
        targets={"acme1": "acme_npu:acme1.toml"},
        operations={"AcmeTwice": "acme_npu.host"},
    )

The entry point is loaded by every tool when it starts; all that it names is imported when it is
used. A plain `xdsl.universe.Universe` of dialects and passes is taken too, and xDSL's own tools see
those of a `Package`. A package that cannot be loaded, or takes a name that is taken, is left out
with a warning, and the others work.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path
from traceback import extract_tb
from typing import Any

from xdsl.universe import Universe

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.distribution import NAME, stranger, version
from ge.dialects.support.environment import packages_off
from ge.dialects.support.errors import GeError
from ge.dialects.support.processes import lock_held_while_forking

GROUP = "xdsl.universe"
OWN = ("ge", "xdsl")  # whose names nobody takes

NONE: Mapping[str, str] = {}


def lazy(place: str) -> Callable[[], Any]:
    """A getter that imports `MODULE:NAME` when it is called."""
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(module), name)


class Package(Universe):
    """The additions of a package. Values are places: `MODULE:NAME` of a dialect or a pass class,
    `PACKAGE:FILE` of a target's TOML file, `MODULE` of what registers itself when it is imported.

    `kernels` are modules that compute the ops of its dialects (`@kernel`), `tiles` those with their
    tile programs (`@ge.tile.program`). `onnx` has for an ONNX domain (`""` is ONNX's own, for ops
    that ge does not have) the module of its handlers (`@onnx_op`), `operations` for a host
    operation the module that registers it (`ge.host.register_operation`)."""

    def __init__(
        self,
        *,
        dialects: Mapping[str, str] = NONE,
        passes: Mapping[str, str] = NONE,
        kernels: Sequence[str] = (),
        tiles: Sequence[str] = (),
        onnx: Mapping[str, str] = NONE,
        targets: Mapping[str, str] = NONE,
        operations: Mapping[str, str] = NONE,
    ) -> None:
        super().__init__(
            all_dialects={name: lazy(place) for name, place in dialects.items()},
            all_passes={name: lazy(place) for name, place in passes.items()},
        )
        self.kernels, self.tiles = tuple(kernels), tuple(tiles)
        self.onnx, self.targets, self.operations = dict(onnx), dict(targets), dict(operations)


@dataclass(frozen=True)
class Installed:
    """A package that takes part."""

    name: str
    version: str
    module: str  # of its entry point
    universe: Universe

    def __str__(self) -> str:
        return f"package '{self.name}' {self.version}"

    @property
    def adds(self) -> Package:
        """Additions of the package beyond dialects and passes: none for a plain universe."""
        return self.universe if isinstance(self.universe, Package) else Package()

    def load(self, module: str) -> None:
        """Import a module that registers something. Raises GeError where that fails."""
        self.guard(f"module '{module}'", lambda: import_module(module))

    def guard(self, what: str, get: Callable[[], Any]) -> Any:
        """Return what `get` returns. Raises GeError, which names the package, if that fails."""
        try:
            return get()
        except (Exception, SystemExit) as e:
            text = f"{what} of {self} cannot be loaded: {reason(e)}"
            raise GeError(text, hint=way_out(self.name)) from e

    def file_of(self, place: str) -> Path:
        """The file at `PACKAGE:FILE`. Raises GeError where there is no such package."""
        folder, _, name = place.partition(":")
        return Path(str(self.guard(f"'{place}'", lambda: files(folder) / name)))

    @cached_property
    def folder(self) -> Path | None:
        """The folder of the package's sources; None if unknown."""
        file = getattr(sys.modules.get(self.module.partition(".")[0]), "__file__", None)
        return None if file is None else Path(file).parent


def of_dialect(name: str) -> Sequence[Installed]:
    """The packages with the dialect: one, or none."""
    return [p for p in installed() if name in p.universe.all_dialects]


@dataclass
class Packages:
    """The installed packages, once they were looked for, and the objects that they have loaded."""

    found: Sequence[Installed] | None = None
    warned: set[str] = field(default_factory=set[str])


_OF_PROCESS = Packages()
_LOOKING = lock_held_while_forking()  # of the thread that looks for them


def looking_again() -> AbstractContextManager[Packages]:
    """Within the context, packages are looked for anew."""
    return having(Packages())


def packages_at_hand() -> Packages:
    return at_hand(Packages) or _OF_PROCESS


def installed() -> Sequence[Installed]:
    """The packages that take part, by name, but for ge and xDSL themselves."""
    packages = packages_at_hand()
    if packages.found is None:
        with _LOOKING:
            if packages.found is None:
                packages.found = _find()
    return packages.found


def package_of(module: str) -> Installed | None:
    """The installed package that a module is of."""
    top = module.partition(".")[0]
    return next((p for p in installed() if p.module.partition(".")[0] == top), None)


def owner_of(module: str) -> str:
    """The name of the package that a module is of: one that is installed, else that of the module
    itself."""
    package = package_of(module)
    return module.partition(".")[0] if package is None else package.name


def left_out(what: str, error: BaseException, way: str = "") -> None:
    """Warn of a package or module that takes no part, and say why."""
    warn(f"{what} is left out: {reason(error)}{f'; {way}' if way else ''}")


def warn(line: str) -> None:
    """Print a warning to standard error, once."""
    if line not in (warned := packages_at_hand().warned):
        warned.add(line)
        print(f"warning: {line}", file=sys.stderr)


def reason(error: BaseException) -> str:
    """The message of an exception, in one line, with the place in a package's own source."""
    if isinstance(error, GeError):
        return error.message
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}:{error.lineno})"
    else:
        ours = (str(Path(__file__)), "importlib")
        frames = [
            f for f in extract_tb(error.__traceback__) if not any(o in f.filename for o in ours)
        ]
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return f"{type(error).__name__}: {text}{place}"


def way_out(name: str) -> str:
    return f"mend or uninstall it, or set GE_PACKAGES_OFF={name}"


# ---- looking for them ------------------------------------------------------------------------


def _find() -> list[Installed]:
    found: list[Installed] = []
    if "all" in (off := packages_off()):
        return found
    entries = entry_points(group=GROUP)
    if text := stranger():
        warn(text)
    own = [e for e in entries if e.value.partition(".")[0] in OWN]
    taken = _Names()
    for entry in sorted((e for e in entries if e not in own), key=_name):
        if (name := _name(entry)) in off:
            continue
        if not taken.names:
            taken.take_own(own)
        try:
            package = _load(entry)
            taken.take(package)
        except (Exception, SystemExit) as e:
            left_out(f"package '{name}'", e, way_out(name))
        else:
            found.append(package)
    return found


def _name(entry: EntryPoint) -> str:
    """The name of the distribution, which takes reading its metadata."""
    return entry.dist.name if entry.dist else entry.name


def _load(entry: EntryPoint) -> Installed:
    """Load an entry point. Raises GeError if it is no universe, or its package wants another ge."""
    number = entry.dist.version if entry.dist else "0"
    if wanted := unmet(entry.dist.requires or () if entry.dist else (), version()):
        raise GeError(f"it requires {wanted}, and this is {version()}")
    universe = entry.load()
    if not isinstance(universe, Universe):
        raise GeError(f"{entry.value} is a {type(universe).__name__}, not a ge.Package")
    return Installed(_name(entry), number, entry.module, universe)


class _Names:
    """The names that are taken: kind -> name -> by whom."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}

    def take_own(self, own: Sequence[EntryPoint]) -> None:
        """Take the entry points of ge and xDSL, which are listed as others are: this room is below
        those that have them. An installation under an earlier name may list ge a second time."""
        for entry in {e.value: e for e in own}.values():
            self.take(Installed(entry.name, "", entry.module, entry.load()))
        self.names["target"] = dict.fromkeys(presets(), "ge")

    def take(self, package: Installed) -> None:
        """Raises GeError for a name that is taken, and takes none then."""
        adds = package.adds
        new = {
            "dialect": package.universe.all_dialects,
            "pass": package.universe.all_passes,
            "output format": package.universe.all_targets,
            "target": adds.targets,
            "host operation": adds.operations,
        }
        for kind, names in new.items():
            for name in names:
                if (by := self.names.get(kind, {}).get(name)) is not None:
                    raise GeError(f"a {kind} named '{name}' exists already, of {by}")
        for kind, names in new.items():
            self.names.setdefault(kind, {}).update(dict.fromkeys(names, package.name))


def presets() -> tuple[str, ...]:
    """The names of ge's own targets, sorted."""
    folder = files("ge.dialects.targets")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


# ---- versions --------------------------------------------------------------------------------

OURS = NAME.replace("-", "[-_.]")
REQUIREMENT = re.compile(OURS + r"\s*(?:\[[^\]]*\])?\s*\(?(?P<clauses>[<>=!~][^;)]*)")
CLAUSE = re.compile(r"\s*(?P<how>[<>=!]=|[<>])\s*(?P<number>\d+(?:\.\d+)*)\s*")
COMPARE: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def unmet(requirements: Sequence[str], ours: str) -> str:
    """The requirement of ge (`Requires-Dist`) that version `ours` does not meet; empty if there is
    none. Pip has compared them when the package was installed; ge may have changed since. Clauses
    of other than plain numbers are left to pip."""
    for requirement in requirements:
        if (match := REQUIREMENT.match(requirement)) is None:
            continue
        for text in match["clauses"].split(","):
            clause = CLAUSE.fullmatch(text)
            if clause is not None and not COMPARE[clause["how"]](*_aligned(ours, clause["number"])):
                return f"{NAME} {match['clauses'].strip()}"
    return ""


def _aligned(*numbers: str) -> list[tuple[int, ...]]:
    """Versions as tuples of one length."""
    parts = [[int(p) for p in re.findall(r"\d+", n)] for n in numbers]
    length = max(map(len, parts))
    return [tuple(p + [0] * (length - len(p))) for p in parts]
