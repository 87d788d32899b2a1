"""What steers the compiler, once: the Python API, the command lines and the environment are
three views of this dataclass."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ge.dialects.support.errors import GeError
from ge.dialects.targets.target import DEFAULT_TARGET
from ge.lowering.cli.arguments import parse_bytes

FUSION_MODES = ("off", "conservative", "default", "aggressive")
MEMORY_LEVELS = range(4)


@dataclass(frozen=True)
class Options:
    """Options of the compiler. Each has an environment variable (`ENVIRONMENT`) and a command
    line flag of its own name."""

    target: str = DEFAULT_TARGET
    """Preset name or path of a target file."""
    fusion: str = "default"
    """Fusion mode: off (one launch for each graph op), conservative (the numbers keep every bit),
    default (what mathematics allows, within the ULPs that each pass states) or aggressive (may
    compute again, and put sums in another order)."""
    fusion_disable: tuple[str, ...] = ()
    """Names of passes and rules of the optimizer that are left out."""
    memory: int = 1
    """Memory level: 0 each buffer has bytes of its own; 1 bytes are reused, in place too; 2 the
    order of the launches is chosen for memory as well; 3 and values are computed again, for at most
    a fifth more time, and the packing is searched to the end."""
    memory_limit: int = 0
    """Bytes that the arena may take (on command lines and in the environment also 512K, 64M,
    1.5G); 0: what the target has beside weights, inputs and outputs. Where a program would take
    more, its order and fusion are chosen for memory, values are computed again, and buffers go to
    host memory, as far as needed."""
    no_reuse: tuple[str, ...] = ()
    """Kinds of ops (`matmul`, `fused_op.conv`) whose results keep bytes of their own."""
    share_io: bool = False
    """Whether the device works on the caller's arrays: inputs are read and outputs written where
    they are, not copied."""
    print_liveness: bool = False
    """Whether a table of the buffers and their lifetimes is printed."""
    print_core_plans: bool = False
    """Print a table of each kernel's buffers in the memories of a core."""
    static_shape: bool = True
    """Whether `ge-run` compiles a model with symbolic dimensions anew for the shapes of its
    inputs; else the program allocates dynamic values as it runs."""
    cache_dir: str = ""
    """Folder that keeps compiled programs by the hash of model and options; empty: none."""
    dump_graph: int = 0
    """1 writes the module after each pass to `dump_path`."""
    dump_path: str = "ge_dump"
    custom_pass: str = ""
    """Python files with passes and dialects of the user's own (see --load-plugin), with the
    separator of PATH between them."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs that are computed; none: all of them."""
    pieces: bool = False
    """Whether launches are cut into pieces that overlap where the clock says that this is faster:
    more launches, in less time and memory (see `split-launches`). Not by default: fused programs
    gain little (a U-Net 1 %, for many more launches), and without fusion a launch is a graph op."""
    drop_unused_inputs: bool = False
    """Whether the program has no inputs that nothing is computed from."""
    verify: bool = True
    """Check that each level is legal where it begins."""

    def __post_init__(self) -> None:
        if self.fusion not in FUSION_MODES:
            raise GeError(f"fusion is one of {', '.join(FUSION_MODES)}, not '{self.fusion}'")
        if self.memory not in MEMORY_LEVELS:
            raise GeError(f"the memory level is one of 0, 1, 2 and 3, not {self.memory}")
        if self.memory_limit < 0:
            raise GeError(f"the memory limit is a number of bytes, not {self.memory_limit}")

    @property
    def plugins(self) -> tuple[str, ...]:
        """The files of `custom_pass`."""
        return tuple(p for p in self.custom_pass.split(os.pathsep) if p)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **given: Any
    ) -> "Options":
        """Options from `GE_*` variables; `given` ones that are not None win.
        Raises GeError for a value that cannot be read."""
        values: dict[str, Any] = {}
        source = os.environ if environment is None else environment
        for variable, name in ENVIRONMENT.items():
            if text := source.get(variable):
                values[name] = _read(variable, name, text)
        values.update({k: v for k, v in given.items() if v is not None})
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """For reports: what differs from the defaults, and always target, fusion and memory."""
        always = ("target", "fusion", "memory")
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name in always or getattr(self, f.name) != f.default
        }


ENVIRONMENT: dict[str, str] = {
    "GE_TARGET": "target",
    "GE_GRAPH_FUSION": "fusion",
    "GE_FUSION_DISABLE": "fusion_disable",
    "GE_MEMORY_OPTIMIZE": "memory",
    "GE_MEMORY_LIMIT": "memory_limit",
    "GE_NO_REUSE": "no_reuse",
    "GE_SHARE_IO": "share_io",
    "GE_PIECES": "pieces",
    "GE_STATIC_SHAPE": "static_shape",
    "GE_CACHE_DIR": "cache_dir",
    "GE_DUMP_GRAPH": "dump_graph",
    "GE_DUMP_PATH": "dump_path",
    "GE_CUSTOM_PASS": "custom_pass",
}
"""Environment variable -> option."""


def _read(variable: str, name: str, text: str) -> Any:
    default = getattr(Options, name)
    if name == "memory":
        text = text.removeprefix("level:")
    if name == "memory_limit":
        return parse_bytes(text, variable)
    try:
        if isinstance(default, bool):
            return {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}[
                text.lower()
            ]
        if isinstance(default, tuple):
            return tuple(name for part in text.split(",") if (name := part.strip()))
        return int(text) if isinstance(default, int) else text
    except (KeyError, ValueError):
        raise GeError(f"{variable} cannot be '{text}'") from None
