"""The description of an NPU: cores, memories, bandwidths, limits. Read from a short TOML file.

`Target.load("910b2")` reads a preset of the package (`dialects/targets/*.toml`),
`Target.load("my.toml")` a file of the user's. `dialects/targets/910b2.toml` explains each key.
"""

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ge.dialects.support.constraints import ROUNDINGS
from ge.dialects.support.element_types import ELEMENT_TYPES
from ge.dialects.support.errors import GeError
from ge.dialects.support.packages import installed, presets
from ge.dialects.support.types import align_up
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.targets.cluster import Cluster

# element types that matmuls may have a rate of their own for
RATE_KEYS = tuple(dict.fromkeys(row.rate_key for row in ELEMENT_TYPES))

# Instructions of the vector unit that may have a time of their own; elementwise ones come first.
VECTOR_INSTRUCTIONS = (
    *("add", "sub", "mul", "max", "min", "scalar", "relu", "abs", "cast", "compare", "select"),
    *("mul_add", "axpy", "exp", "ln", "div", "sqrt", "rsqrt", "copy"),
    *("row_sum", "row_max", "group_add", "gather", "scatter", "transpose"),
)

# What kernels use: vector cores, the same for rows (softmax, norms), cube cores, or both; attention
# is both with rows between two products.
KERNEL_KINDS = ("vector", "row", "cube", "mixed", "attention")

# Where the time of a launch comes from: a simulation of its tile program, or the estimate of one
SIMULATED, ESTIMATED = "simulated", "estimated"

REPEAT_LANES = 128  # elements of 16 bits in 256 bytes

# What a target that does not state a rate has: assumptions, which matter where cores are merged
TAKEN_FOR = {
    "gm_to_ub_rate": "l2_read_rate",
    "l2_rate": "l2_read_rate",
    "l0c_out_rate": "ub_out_rate",
    "l0c_to_l1_rate": "l1_to_l0a_rate",
}

TABLES = {"vector_cycles": VECTOR_INSTRUCTIONS, "kernel_start_us": KERNEL_KINDS}

# attributes of a function
TARGET = "npu_task.target"  # its name
TARGET_FILE = "npu_task.target_file"  # what stood in its file, without comments

BOUNDS = (
    (("_us", "_cycles"), 0, 1e6),
    (("l2_bytes",), 0, 2**50),
    (("_rate", "_gbs", "_ghz", "_efficiency"), 1e-3, 1e6),
    (("",), 1, 2**50),
)
"""The least and the most that keys with these endings can be; the first ending that fits counts.
Without L2 (0 bytes) everything comes from HBM."""


@dataclass(frozen=True, slots=True)
class Target:
    """One NPU. Sizes in bytes, rates in bytes a cycle a core, times in microseconds."""

    name: str
    clock_ghz: float
    cube_cores: int
    vector_cores: int
    macs_per_cycle: dict[str, int]  # of a cube core, by element type (f16, i8, f32, ...)
    hbm_bytes: int
    l2_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    ub_bytes: int
    hbm_rate: float
    l2_read_rate: float
    l2_write_rate: float
    l1_to_l0a_rate: float
    l1_to_l0b_rate: float
    ub_out_rate: float
    host_link_gbs: float  # gigabytes a second, each way
    launch_us: float = 2.0  # start of a task that sits in the device's queue
    host_launch_us: float = 15.0  # of one that the host issues (dynamic shapes, control flow)
    # What the host does for operations, by thread (`runtime/host`); docs/host.md says which figures
    # have a source and which are assumptions
    host_dispatch_us: float = 5.0  # a framework finds the op, and memory for its results
    host_setup_us: float = 2.0  # checks and shapes of an operation
    host_reuse_us: float = 0.2  # finding that they are those of the last call
    host_tiling_us: float = 10.0  # choosing the tiling of a kernel
    host_lookup_us: float = 0.5  # finding it in a cache
    host_patch_us: float = 0.5  # writing another length into it
    host_arguments_us: float = 1.0  # of a launch
    host_copy_us: float = 3.0  # asking for a copy
    host_issue_us: float = 3.0  # asking for a launch
    host_handoff_us: float = 1.0  # one thread wakes another
    host_sync_us: float = 10.0  # learning from the device what comes next
    host_capture_us: float = 2.0  # making a captured task ready to be replayed
    host_update_us: float = 5.0  # writing a captured task anew
    host_replay_us: float = 10.0  # asking for all captured tasks
    host_alloc_us: float = 100.0  # more device memory for the workspace
    hbm_alignment: int = 512
    gm_block_bytes: int = 1  # HBM gives vector cores whole blocks of this size; 1: not stated
    core_alignment: int = 32
    full_rate_bytes: int = 16384  # a smaller transfer does not reach the full bandwidth
    max_streams: int = 1984
    max_events: int = 65536
    requantize: str = "float32"  # how sums of 32 bits are rounded to codes: see `graph.requantize`
    cube_block: int = 16  # rows, and columns, of the least product: fewer take as long
    cube_efficiency: float = 1.0  # share of the peak that large matmuls sustain
    hbm_efficiency: float = 1.0  # share of the peak bandwidth that long transfers reach
    hbm_read_efficiency: float = 1.0  # of that, what reading alone reaches
    # Cube and vector cores are apart: nothing goes from L0C to UB nor from UB to L1 but through
    # memory (L2). Merged cores have the path, and state its rate.
    split_cores: bool = False
    l0c_to_ub_rate: float = 0.0
    # What the time of kernels' instructions comes from. 0, or a name that a table lacks: not
    # stated, so that what needs it (`stated`, `vector_cycles_of`) refuses the target.
    gm_to_ub_rate: float = 0.0  # of a vector core
    l2_rate: float = 0.0  # what L2 gives all cores that read, a cube core of the chip
    l0c_out_rate: float = 0.0  # L0C to memory, through the fixpipe
    l0c_to_l1_rate: float = 0.0
    bt_bytes: int = 0  # of numbers that sums begin with; 0: sums begin with 0
    fb_bytes: int = 0  # of scales by which sums leave L0C; 0: they leave as they are
    # Cycles that an instruction takes besides its bytes or macs
    mmad_start_cycles: float = 0.0
    mte1_start_cycles: float = 0.0  # L1 to L0A or L0B
    mte2_start_cycles: float = 0.0  # memory to L1 or UB
    mte2_piece_cycles: float = 0.0  # at least, of each piece of what goes to or from UB
    vector_start_cycles: float = 0.0
    flags: int = 8  # between two pipes of a core
    flag_cycles: float = 0.0  # from setting a flag to the end of the wait for it
    cross_flag_cycles: float = 0.0  # the same between a cube core and a vector core
    # Elements of 16 bits that a vector core works on in a cycle, by whatever instruction; or its
    # cycles for 256 bytes, by instruction (`VECTOR_INSTRUCTIONS`)
    vector_lanes: int = 0
    vector_cycles: dict[str, float] = field(default_factory=dict[str, float])
    # Start of a kernel, by its kind (`KERNEL_KINDS`), besides `launch_us`
    kernel_start_us: dict[str, float] = field(default_factory=dict[str, float])
    cluster: Cluster | None = None  # the devices around it; None: there are no others
    idealised: bool = False  # no chip is so: whatever states a time of it says that

    def __hash__(self) -> int:
        return hash(self.name)  # the table of macs has no hash

    @staticmethod
    @cache
    def presets() -> tuple[str, ...]:
        return presets()

    @classmethod
    def load(cls, name: str = DEFAULT_TARGET) -> "Target":
        """A preset by name, that of an installed package, or a TOML file by path. Raises GeError
        for an unknown name, an unreadable file, a missing, unknown or ill-typed key."""
        if name.endswith(".toml"):
            return _from_text(_read(name), name)
        if name.lower() in cls.presets():
            return _preset(name.lower())
        of_packages = files_of_packages()
        if name in of_packages:
            path = str(of_packages[name]())
            return dataclasses.replace(_from_text(_read(path), path), name=name)
        known = (*cls.presets(), *of_packages)
        near = get_close_matches(name.lower(), known, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"presets are {', '.join(known)};"
        raise GeError(f"unknown target '{name}'", hint=f"{hint} or give a .toml file")

    @classmethod
    def of(cls, table: dict[str, Any], where: str) -> "Target":
        """A target from the keys of a TOML file; `where` names it in errors."""
        fields = {f.name: f for f in dataclasses.fields(cls)}
        for key, value in table.items():
            if key == "cluster":
                table[key] = Cluster.of(value, where)
                continue
            if key in TABLES:
                table[key] = _named_numbers(key, value, where)
                continue
            if key not in fields:
                near = get_close_matches(key, fields, 1)
                hint = f"did you mean '{near[0]}'?" if near else ""
                raise GeError(f"unknown key '{key}'", where, hint)
            want = fields[key].type
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if want is float and number:
                table[key] = float(value)
            elif want is int and not (number and isinstance(value, int)):
                raise GeError(f"'{key}' is an integer, not {value!r}", where)
            elif want is float or (want is str and not isinstance(value, str)):
                raise GeError(
                    f"'{key}' is a {getattr(want, '__name__', want)}, not {value!r}", where
                )
            elif want is bool and not isinstance(value, bool):
                raise GeError(f"'{key}' is true or false, not {value!r}", where)
            if number:
                _check_bounds(key, cast(float, value), where)
            if key.endswith("_alignment") and cast(int, value).bit_count() != 1:
                raise GeError(f"'{key}' is a power of two, not {value!r}", where)
            if key.endswith("_efficiency") and cast(float, value) > 1:
                raise GeError(f"'{key}' is a share, at most 1, not {value!r}", where)
        missing = dataclasses.MISSING
        required = [n for n, f in fields.items() if f.default is f.default_factory is missing]
        split = table.get("split_cores")
        required += ("l0c_out_rate", "gm_to_ub_rate") if split else ("l0c_to_ub_rate",)
        if absent := [n for n in required if n not in table]:
            raise GeError(f"missing keys: {', '.join(absent)}", where)
        if not table.get("vector_lanes") and not table.get("vector_cycles"):
            raise GeError("missing key: vector_lanes, or a table vector_cycles", where)
        macs = table["macs_per_cycle"]
        if not isinstance(macs, dict) or "f16" not in macs:
            raise GeError("'macs_per_cycle' is a table with at least f16", where)
        for element, rate in cast(dict[str, Any], macs).items():
            if element not in RATE_KEYS:
                known = ", ".join(RATE_KEYS)
                raise GeError(f"'macs_per_cycle' has no type '{element}'", where, f"types: {known}")
            if not _positive(rate) or rate > MOST_MACS:
                raise GeError(f"'macs_per_cycle' of {element} is positive, not {rate!r}", where)
        if table.get("requantize", ROUNDINGS[0]) not in ROUNDINGS:
            known = ", ".join(ROUNDINGS)
            raise GeError(f"'requantize' is one of {known}, not '{table['requantize']}'", where)
        if "f32" not in macs:
            hint = "state it (a quarter of f16 is usual: 910_merged.toml)"
            raise GeError("'macs_per_cycle' has no rate for f32", where, hint)
        return cls(**table)

    def timed(self, launches: int = 0, estimated: int = 0, share: float = 0.0) -> str:
        """Return the target, and where times of it come from, for what states one: `910b2,
        simulated`. No tile program times `estimated` of the launches, which take that `share` of
        the time of all."""
        name = f"{self.name} (idealised: no such chip)" if self.idealised else self.name
        if estimated and estimated == launches:
            return f"{name}, {ESTIMATED}"
        few = f"; {ESTIMATED} {estimated} of {launches} launches, {share:.1%} of their time"
        return f"{name}, {SIMULATED}{few if estimated else ''}"

    @property
    def core_memories(self) -> dict[str, int]:
        return {
            "l1": self.l1_bytes,
            "l0a": self.l0a_bytes,
            "l0b": self.l0b_bytes,
            "l0c": self.l0c_bytes,
            "ub": self.ub_bytes,
            "bt": self.bt_bytes,
            "fb": self.fb_bytes,
        }

    @property
    def cores(self) -> dict[str, int]:
        """Number of cores of each kind."""
        return {"cube": self.cube_cores, "vector": self.vector_cores}

    @property
    def vector_parts(self) -> int:
        """Vector cores beside a cube core."""
        return max(self.vector_cores // self.cube_cores, 1)

    @property
    def cycles_per_us(self) -> float:
        return self.clock_ghz * 1e3

    @property
    def lanes(self) -> float:
        """Elements of 16 bits that a vector core adds in a cycle."""
        return REPEAT_LANES / self.vector_cycles_of("add")

    def stated(self, key: str) -> float:
        """A number that the target must state, or another one that is taken for it. Raises GeError
        where it does neither."""
        names = key, TAKEN_FOR.get(key, key)
        value = next((cast(float, v) for n in names if (v := getattr(self, n))), 0.0)
        if not value:
            raise GeError(f"the target does not state '{key}'", self.name, STATE_IT)
        return value

    def vector_cycles_of(self, instruction: str) -> float:
        """Cycles for 256 bytes. Raises GeError where the target does not state them."""
        if not self.vector_cycles:
            return REPEAT_LANES / self.vector_lanes
        cycles = self.vector_cycles.get(instruction)
        if cycles is None:
            problem = f"'vector_cycles' has no instruction '{instruction}'"
            raise GeError(problem, self.name, STATE_IT)
        return cycles

    @property
    def states_all(self) -> bool:
        """True if the time of any program follows from what the target states: cycles for each
        instruction of the vector unit, or lanes for all, and each rate."""
        rates = all(getattr(self, key) or getattr(self, other) for key, other in TAKEN_FOR.items())
        cycles = self.vector_cycles
        return rates and (not cycles or all(n in cycles for n in VECTOR_INSTRUCTIONS))

    def constants_bytes(self, sizes: Iterable[int], alignment: int) -> int:
        """Bytes that constants take. They lie one behind the other: first those that are multiples
        of `alignment`, or long enough for the full rate, each at a multiple of it; then all others,
        at multiples of `core_alignment`. That short ones lose nothing there is an assumption: the
        vendor's guide tells of up to 30 % less bandwidth at 32 bytes, for transfers in general; the
        model of time gives shorter ones than `full_rate_bytes` the time of so many."""
        short, total = min(self.core_alignment, alignment), 0
        for size in sizes:
            total += align_up(size, alignment if size >= self.full_rate_bytes else short)
        return align_up(total, alignment)


def files_of_packages() -> dict[str, Callable[[], Path]]:
    """Target of an installed package -> the function that returns its file."""
    return {
        name: partial(package.file_of, place)
        for package in installed()
        for name, place in package.adds.targets.items()
    }


def _file_of(name: str) -> str:
    """The file of a target; empty for a preset, and where there is none."""
    if name.endswith(".toml") or name.lower() in Target.presets():
        return name if name.endswith(".toml") else ""
    found = files_of_packages().get(name)
    return "" if found is None else str(found())


@cache
def _preset(name: str) -> Target:
    text = (files("ge.dialects.targets") / f"{name}.toml").read_text("utf-8")
    return Target.of(tomllib.loads(text), name)


MOST_MACS = 10**9  # a cycle

STATE_IT = "state it in the target's file (910b2.toml shows how), or choose a target that does"


def _named_numbers(key: str, value: Any, where: str) -> dict[str, float]:
    """A table of numbers with known names. Raises GeError for another name or no number."""
    if not isinstance(value, dict):
        raise GeError(f"'{key}' is a table of numbers, not {value!r}", where)
    numbers: dict[str, float] = {}
    for name, number in cast(dict[str, Any], value).items():
        if name not in TABLES[key]:
            names = ", ".join(TABLES[key])
            raise GeError(f"'{key}' has no '{name}'", where, f"names: {names}")
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise GeError(f"'{key}.{name}' is a number, not {number!r}", where)
        _check_bounds(f"{key}.{name}", number, where)
        numbers[name] = float(number)
    return numbers


def _check_bounds(key: str, value: float, where: str) -> None:
    """Raises GeError for a number that no machine has; `key` may be that of a table, and a name."""
    low, high = next((a, b) for ends, a, b in BOUNDS if key.partition(".")[0].endswith(ends))
    if not low <= value < float("inf") or (not low and value < 0):
        kind = "positive and finite" if low else "not negative, and finite"
        least = f" and at least {low}" if 0 < value < low else ""
        raise GeError(f"'{key}' is {kind}{least}, not {value!r}", where)
    if value > high:
        raise GeError(f"'{key}' is at most {high:g}, not {value!r}", where)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value is not True and 0 < value < float("inf")


def record_target(func: Operation, name: str) -> None:
    """State the target of a function, and the content of its file: a program may be read where
    the file is missing. Raises GeError when it cannot be read."""
    func.attributes[TARGET] = StringAttr(name)
    func.attributes.pop(TARGET_FILE, None)
    if path := _file_of(name):
        func.attributes[TARGET_FILE] = StringAttr(_without_comments(_read(path)))


def target_for(func: Operation, name: str = "") -> Target:
    """The target by name, or for an empty name the one that `func` was lowered to.
    Raises GeError when it cannot be read, or when its file has changed since then."""
    recorded, text = func.attributes.get(TARGET), func.attributes.get(TARGET_FILE)
    if name or not isinstance(recorded, StringAttr):
        return Target.load(name or DEFAULT_TARGET)
    name = recorded.data
    if not isinstance(text, StringAttr):
        return Target.load(name)
    path = _file_of(name)
    if Path(path).is_file() and _without_comments(_read(path)) != text.data:
        hint = "compile the program again, or name the target with --target"
        raise GeError("the target has changed since the program was compiled for it", name, hint)
    return _from_text(text.data, name)


def stated_facts(target: Target) -> dict[str, Any]:
    """The facts that a target states, by key: `Target.of` reads them."""
    facts = {f.name: (getattr(target, f.name), f.default) for f in dataclasses.fields(target)}
    stated = {key: value for key, (value, default) in facts.items() if value != default}
    if target.cluster is not None:
        stated["cluster"] = target.cluster.table()
    return stated


def toml_text(target: Target) -> str:
    """A target as the text of a file that `Target.load` reads."""
    facts = stated_facts(target)
    tables = {k: cast(dict[str, Any], v) for k, v in facts.items() if isinstance(v, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in facts.items() if key not in tables]
    for key, table in tables.items():
        inner = {f"{key}.{k}": cast(dict[str, Any], v) for k, v in table.items() if type(v) is dict}
        for name, own in {key: table, **inner}.items():
            values = (f"{k} = {_toml(v)}" for k, v in own.items() if type(v) is not dict)
            lines += [f"[{name}]", *values]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return json.dumps(list(cast(Sequence[Any], value)) if isinstance(value, tuple) else value)


def _read(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise GeError(f"cannot read the target: {e}", name) from None


def _without_comments(text: str) -> str:
    lines = (re.sub(r"\s*(#[^\"']*)?$", "", line) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=64)
def _from_text(text: str, where: str) -> Target:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise GeError(f"not TOML: {e}", where) from None
    return Target.of(table, where)
