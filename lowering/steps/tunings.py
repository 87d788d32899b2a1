"""Cuts of kernels that somebody has found to be faster than those that estimates choose, by what
they are for: the kernel's text, whatever it is called, and the target.

    {"kernels": [{"name": "linear_0", "kernel": "5d41402a...", "target": "910b2",
                  "cut": "MatmulCut(m=128, n=256, k=128, part=64, sums=1)",
                  "us": 41.2, "own_us": 43.0}]}

`ge-tune PROGRAM.mlir -o FILE` writes such a file (`tuning.py`), `ge-compile --tunings FILE` takes
what fits. A cut that a later version no longer knows is passed over.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import Target
from ge.lowering.steps.kept_programs import nameless

PART = "kernels"  # of the file; others are for kernels in Python
LATER = ("tiles", "tiling")  # what a kernel gets when its program is written


@dataclass(frozen=True)
class TunedKernel:
    """The fastest cut of a kernel, and microseconds: of it, and of the one that its lowering takes.
    `name`: what the kernel was called, for people."""

    name: str
    kernel: str
    target: str
    cut: str
    us: float
    own_us: float


KEYS = {f.name: str if f.type is str else (int, float) for f in fields(TunedKernel)}


@dataclass(frozen=True)
class KernelTunings:
    """Those of a file, by kernel and target."""

    entries: Mapping[tuple[str, str], TunedKernel] = field(
        default_factory=dict[tuple[str, str], TunedKernel]
    )

    @classmethod
    def read(cls, path: str) -> "KernelTunings":
        """Raises GeError for what is no such file."""
        hint = "ge-tune PROGRAM.mlir -o FILE writes such files"
        try:
            parts: Any = json.loads(Path(path).read_text())
            rows = rows_of(parts)
        except OSError as e:
            raise GeError(f"cannot read the tunings: {e.strerror}", path, hint) from None
        except ValueError as e:
            raise GeError(f"it is no file of tunings: {e}", path, hint) from None
        entries = [TunedKernel(**row) for row in rows]
        return cls({(e.kernel, e.target): e for e in entries})

    def cut(self, kernel: KernelOp, target: Target) -> str:
        """What is kept for a kernel; empty: nothing."""
        if not self.entries:
            return ""
        entry = self.entries.get((kernel_hash(kernel, target), target.name))
        return "" if entry is None else entry.cut

    def merged(self, others: Iterable[TunedKernel]) -> "KernelTunings":
        """With others in the place of those for the same kernels."""
        return KernelTunings({**self.entries, **{(e.kernel, e.target): e for e in others}})

    def rows(self) -> list[dict[str, Any]]:
        return [asdict(e) for e in self.entries.values()]


def rows_of(parts: Any) -> list[dict[str, Any]]:
    """The entries for kernels of a file. Raises ValueError for what is none."""
    found: Any = cast("dict[str, Any]", parts).get(PART, []) if isinstance(parts, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"it has no list '{PART}'")
    rows = cast("list[dict[str, Any]]", found)
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(KEYS):  # pyright: ignore
            raise ValueError(f"entry {i} of '{PART}' has not the keys {', '.join(KEYS)}")
        for key, kind in KEYS.items():
            if not isinstance(row[key], kind):
                what = "text" if kind is str else "number"
                raise ValueError(f"'{key}' of entry {i} of '{PART}' is no {what}: {row[key]!r}")
    return rows


def kernel_hash(kernel: KernelOp, target: Target) -> str:
    """Of all that its program follows from, but ge itself. What `unseen` hides is hidden."""
    alone = kernel.clone()
    for name in LATER:
        alone.properties.pop(name, None)
    text = json.dumps(asdict(target), default=str) + nameless(alone)
    return sha256(text.encode()).hexdigest()
