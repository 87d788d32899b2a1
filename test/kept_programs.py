"""The folder in which tests keep what users' caches do: tile programs. All processes of pytest and
of lit share it, so that each program is written once for one state of ge's files; those of other
states are removed."""

import shutil
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1] / "build" / "test_cache"


def folder() -> str:
    from ge.dialects.text.kept import own_files

    name = sha256(repr(sorted(own_files())).encode()).hexdigest()[:16]
    for other in ROOT.glob("*"):
        if other.name != name:
            shutil.rmtree(other, ignore_errors=True)  # another process may do the same
    return str(ROOT / name)
