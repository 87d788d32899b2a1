"""Extensions of ge by others: an installed package, or a Python file.

A package declares an entry point in the group `xdsl.universe` (`dialects/support/packages.py` says
what it may add). A file (`--load-plugin FILE.py`, `GE_CUSTOM_PASS`) adds each `Universe` and
`Dialect` object and `ModulePass` class at its top level, and what it registers by `register_pass`
and `register_dialect`. A name that exists already is an error.

A pass with `LEVEL = "graph"`, or another level, is a part of the default pipeline: the last of its
level, or the first of level fused, so that its rules come before ge's own. `BEFORE = "NAME"` puts
it before the first pass of that name, `AFTER = "NAME"` behind the last, where the level has one.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from ge.dialects.support.context import at_hand, having
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import Installed, Package, installed, left_out
from ge.dialects.text.errors import PLUGIN
from ge.dialects.text.kept import hash_of, imported_files
from ge.dialects.text.values import did_you_mean
from ge.lowering.levels.level import Level
from ge.lowering.plugins.universe import GE_UNIVERSE

if TYPE_CHECKING:
    from ge.lowering.building.graph import Graph

PassType = TypeVar("PassType", bound=type[ModulePass])
GraphFunction: TypeAlias = "Callable[[Graph], object]"


Sources: TypeAlias = "dict[str, str | None]"  # file -> hash of its contents


@dataclass
class Registry:
    """Dialects and passes that plugins have added: by `register_pass` and `register_dialect`, and
    by their files."""

    universe: Universe = field(default_factory=Universe)
    files: dict[str, ModuleType] = field(default_factory=dict[str, ModuleType])
    sources: dict[str, Sources] = field(default_factory=dict[str, "Sources"])  # once each was run
    seen: Sources = field(default_factory=dict[str, "str | None"])


_OF_PROCESS = Registry()


def registry() -> Registry:
    return at_hand(Registry) or _OF_PROCESS


def registered() -> Universe:
    return registry().universe


def sources_of(plugins: Sequence[str]) -> list[Sources]:
    """Return for each plugin file, which is run first, the files of users that this process had
    imported when it had run: it, and what it imports. Raises GeError as `universe` does."""
    universe(*plugins)
    return [registry().sources[path] for path in plugins]


def seen_sources() -> Sources:
    """The files of users that this process has imported, each as it was when it was seen first."""
    seen = registry().seen
    for path in imported_files():
        if path not in seen:
            seen[path] = hash_of(path)
    return dict(seen)


def new_registry() -> AbstractContextManager[Registry]:
    """Give the context a registry of its own: empty at first, and it ends with it."""
    return having(Registry())


@overload
def register_pass(cls: PassType, /) -> PassType: ...


@overload
def register_pass(
    name: str, /, level: str = "fused"
) -> Callable[[GraphFunction], GraphFunction]: ...


def register_pass(pass_or_name: Any, /, level: str = "fused") -> Any:
    """Make a pass known by its name to every tool in this process. Two forms:

    `@register_pass` on a ModulePass class, and `@register_pass("my-fusion")` on a function of a
    `Graph` (lowering/building/graph.py), which becomes a part of `level` in the pipeline.
    """
    if not isinstance(pass_or_name, str):
        return _register_class(pass_or_name)

    def decorate(function: GraphFunction) -> GraphFunction:
        _register_class(_pass_of(pass_or_name, function, level))
        return function

    return decorate


def _pass_of(name: str, function: GraphFunction, level: str) -> type[ModulePass]:
    def apply(self: ModulePass, ctx: Context, op: ModuleOp) -> None:
        from ge.lowering.building.graph import Graph  # brings numpy

        function(Graph(op, name))

    body = {"name": name, "LEVEL": level, "apply": apply, "__doc__": function.__doc__}
    body["__module__"] = function.__module__
    cls = type(
        "".join(w.capitalize() for w in re.split(r"\W|_", name)) + "Pass", (ModulePass,), body
    )
    return dataclass(frozen=True)(cls)


def _register_class(cls: PassType) -> PassType:
    if registered().all_passes.setdefault(cls.name, lambda: cls)() is not cls:
        raise GeError(f"a pass named '{cls.name}' exists already")
    return cls


def register_dialect(dialect: Dialect) -> Dialect:
    """Make a dialect known by its name to every tool in this process."""
    if registered().all_dialects.setdefault(dialect.name, lambda: dialect)() is not dialect:
        raise GeError(f"a dialect named '{dialect.name}' exists already")
    return dialect


def _run_file(path: str) -> ModuleType:
    """The module of a plugin file, which is run once. Raises GeError, at the line that failed."""
    files = registry().files
    if path in files:
        return files[path]
    name = PLUGIN + re.sub(r"\W", "_", Path(path).stem)
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise GeError(f"cannot load plugin '{path}': no such Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except GeError:
        raise
    except (Exception, SystemExit) as e:
        line = _line_in(e, path)
        raise GeError(f"cannot load plugin: {type(e).__name__}: {e}", f"{path}{line}") from e
    files[path] = module
    registry().sources[path] = seen_sources()
    return module


def _line_in(error: BaseException, path: str) -> str:
    """`:LINE` where the file raised the error."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f":{error.lineno}"
    lines = list[int]()
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return f":{lines[-1]}" if lines else ""


def _universes(module: ModuleType) -> Iterator[Universe]:
    for value in list(vars(module).values()):
        if isinstance(value, Package):
            hint = "pip install -e FOLDER; a plugin file has dialects, passes and kernels in it"
            raise GeError("a ge.Package is found by its entry point", str(module.__file__), hint)
        if isinstance(value, Universe):
            yield value
        elif isinstance(value, Dialect):
            yield Universe(all_dialects={value.name: _constant(value)})
        elif (
            isinstance(value, type)
            and issubclass(value, ModulePass)
            and value.__module__ == module.__name__
            and "name" in vars(value)
            and value.name not in registered().all_passes
        ):
            yield Universe(all_passes={value.name: _constant(value)})


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _merge(into: Universe, other: Universe) -> None:
    """Add what `other` defines. Raises GeError for a name that is taken, and adds nothing then."""
    kinds = {"all_dialects": "dialect", "all_passes": "pass", "all_targets": "target"}
    for kind, what in kinds.items():
        known: dict[str, Any] = getattr(into, kind)
        for name, factory in getattr(other, kind).items():
            if known.get(name, factory) is not factory:
                by = next((p for p in installed() if name in getattr(p.universe, kind)), None)
                hint = "" if by is None else f"rename it, or set GE_PACKAGES_OFF={by.name}"
                of = "" if by is None else f", of {by.name}"
                raise GeError(f"a {what} named '{name}' exists already{of}", hint=hint)
    for kind in kinds:
        getattr(into, kind).update(getattr(other, kind))


def universe(*plugins: str) -> Universe:
    """Everything known: xDSL, ge, installed packages, registered names, and the plugin files.
    Raises GeError when a plugin cannot be loaded or a name is taken."""
    known = Universe()
    _merge(known, _merged(tuple(installed())))
    _merge(known, _added(plugins))
    return known


@cache
def _merged(packages: tuple[Installed, ...]) -> Universe:
    """Return the universes of xDSL, ge and the installed packages."""
    known = Universe()
    for own in (XDSL_UNIVERSE, GE_UNIVERSE, *(_guarded(p) for p in packages)):
        _merge(known, own)
    return known


def _guarded(package: Installed) -> Universe:
    """The package's universe, whose getters raise GeError if they fail, or get an object that is no
    dialect or pass of the name."""

    def guarded(
        kind: str, getters: Mapping[str, Callable[[], Any]], check: Callable[[str, Any], Any]
    ) -> dict[str, Any]:
        def checked(name: str, get: Callable[[], Any]) -> Any:
            return check(name, get())

        return {
            n: partial(package.guard, f"{kind} '{n}'", partial(checked, n, get))
            for n, get in getters.items()
        }

    theirs = package.universe
    return Universe(
        all_dialects=guarded("dialect", theirs.all_dialects, checked_dialect),
        all_passes=guarded("pass", theirs.all_passes, checked_pass),
        all_targets=theirs.all_targets,
    )


def checked_dialect(name: str, dialect: object) -> Dialect:
    """Return a dialect after a check. Raises GeError if it is no dialect of this name, or has ops
    of others."""
    if not isinstance(dialect, Dialect):
        raise GeError(f"it is a {type(dialect).__name__}, not a Dialect")
    if dialect.name != name:
        raise GeError(f"its own name is '{dialect.name}'")
    known = [op.name for op in dialect.operations]
    foreign = [op for op in known if not op.startswith(f"{name}.")]
    twice = [op for i, op in enumerate(known) if op in known[:i]]
    if foreign or twice:
        what = f"its op is named '{foreign[0]}'" if foreign else f"two ops are named '{twice[0]}'"
        raise GeError(what)
    return dialect


def checked_pass(name: str, cls: object) -> type[ModulePass]:
    """Return a pass after a check. Raises GeError if it is no pass of this name."""
    if not isinstance(cls, type) or not issubclass(cls, ModulePass):
        text = cls.__name__ if isinstance(cls, type) else type(cls).__name__
        raise GeError(f"{text} is no ModulePass")
    if cls.name != name:
        raise GeError(f"its own name is '{cls.name}'")
    return cls


@dataclass(frozen=True)
class Placed:
    """A pass that is a part of the default pipeline, and where."""

    cls: type[ModulePass]
    level: Level
    before: str = ""  # the first pass of this name, or
    after: str = ""  # the last; where there is none, the default place

    def insert(self, passes: list[ModulePass]) -> None:
        names = [p.name for p in passes]
        index = 0 if self.level is Level.FUSED else len(passes)
        if self.before in names:
            index = names.index(self.before)
        elif self.after in names:
            index = len(names) - names[::-1].index(self.after)
        passes.insert(index, self.cls())


def placed_passes(*plugins: str) -> Iterator[Placed]:
    """Yield the passes of plugin files, of installed packages, or registered, that state a level;
    one of a package that cannot be used is left out with a warning. Raises GeError for one of a
    plugin file that states an unknown level or place."""
    known = universe(*plugins).all_passes
    of_packages = {n for p in installed() for n in p.universe.all_passes}
    for name, factory in known.items():
        if name in XDSL_UNIVERSE.all_passes or name in GE_UNIVERSE.all_passes:
            continue
        try:
            placed = _placed(factory(), known)
        except GeError as e:
            if name not in of_packages:
                raise
            left_out(f"pass '{name}'", e, e.hint)
            continue
        if placed is not None:
            yield placed


def _placed(cls: type[ModulePass], known: Collection[str]) -> Placed | None:
    """Return where a pass stands, None if it states no level. Raises GeError for an unknown level
    or pass, and for options without defaults."""
    level = getattr(cls, "LEVEL", None)
    if not isinstance(level, str):
        return None
    if level not in list(Level):
        hint = f"levels are {', '.join(Level)}"
        raise GeError(f"pass '{cls.name}' states level '{level}'", hint=hint)
    before, after = (str(getattr(cls, key, "")) for key in ("BEFORE", "AFTER"))
    for name in (before, after):
        if name and name not in known:
            text = f"pass '{cls.name}' states a place beside '{name}'"
            raise GeError(text, hint=f"there is no such pass{did_you_mean(name, tuple(known))}")
    try:
        cls()
    except TypeError as e:
        hint = "passes of the default pipeline have defaults for all options"
        raise GeError(f"pass '{cls.name}' states a level: {e}", hint=hint) from e
    return Placed(cls, Level(level), before, after)


def _added(plugins: Sequence[str]) -> Universe:
    added = Universe()
    for path in dict.fromkeys(plugins):
        for part in _universes(_run_file(path)):
            _merge(added, part)
    _merge(added, registered())
    return added
