"""Every program that a test runs is proved first, and its dead memory is garbage. A test has one
core: workers run side by side. No variable of the user's changes what a test does, nor a package
that the environment has beside ge, and tools of the
environment are on the path, whether or not it is activated (lit.cfg does the same)."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "examples"))  # kernels by hand
sys.path.insert(0, str(Path(__file__).parent))
from kept_programs import folder
from packages_beside import packages_beside

for name in [n for n in os.environ if n.startswith(("GE_", "ASCEND_"))]:
    del os.environ[name]
os.environ["GE_SANITIZE"] = "1"
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["XDG_CACHE_HOME"] = folder()  # no test reads or writes what the user's cache keeps
os.environ["GE_PACKAGES_OFF"] = BESIDE = packages_beside()
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# a collection visits all objects that are new, a full one every live module; less often than in
# the command line tools, as nobody waits for the memory of modules that tests are done with; what
# is older is looked at no more (the 1000), as a tenth of all garbage is found there
gc.set_threshold(400_000, 1000)

# `make soak` takes the longer profile; no deadline, as a busy machine is no fault of an example
settings.register_profile("check", max_examples=16, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=4000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))


def pytest_collection_finish() -> None:
    """What was imported and collected lives until the end: no collection visits it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Plugins and profilers of a test end with it."""
    from ge.lowering.plugins.extensions import new_registry
    from ge.runtime.device.profiler import new_listeners

    with new_registry(), new_listeners():
        yield


@pytest.fixture(autouse=True, scope="module")
def packages_of_a_module_end_with_it() -> None:
    """A package that a test installs takes part in its module, though the environment has it, too
    (`test/unit/packages.py`)."""
    os.environ["GE_PACKAGES_OFF"] = BESIDE


@pytest.fixture(scope="module")
def without_programs() -> Iterator[None]:
    """What is compiled in this module by way of the environment has no tile programs: its tests
    are about numbers that kernels' bodies give, or about graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GE_TILES", "0")
        yield


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of batches run in threads from the first batch on."""
    monkeypatch.setattr("ge.runtime.device.streaming.PAYS", 0.0)
