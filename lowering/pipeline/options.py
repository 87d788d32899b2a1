"""The options of the compiler. A field of `Options` says all about an option: command lines,
environment and documentation are made from it, and only the option's use knows it besides.

Memory settings of the process are in the calls that GE's users know. They hold for all that is
compiled after them; arguments of `ge.compile` go before them, and they before the environment.

    ge.set_memory_mode("pool", max_memory_gb=16)
    ge.set_op_memory_reuse("MatMul", enabled=False)
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ge.dialects.support import environment
from ge.dialects.support.context import at_hand, having
from ge.dialects.support.errors import GeError
from ge.dialects.targets import DEFAULT_TARGET
from ge.dialects.text.values import did_you_mean, names, quantity, whole
from ge.lowering.pipeline.option_values import (
    bound,
    capacity,
    detail,
    kept,
    layout,
    memory_level,
    mesh,
    ranges,
    several,
    stages,
)
from ge.transforms.precision.modes import MODES, ORIGIN, mode_name
from ge.transforms.quantization.schemes import CACHE_TYPES, SCHEMES, SEARCH
from ge.transforms.sharding.rules import ShardRules, asked, is_file, rules_text, without_auto

MEMORY_MODES = {
    "pool": "one arena, whose bytes buffers take in turn",
    "separate": "each buffer has bytes of its own",
}

GB = 1 << 30


@dataclass
class Settings:
    """Settings that were made; by the full name of an op whether its results may share bytes."""

    mode: str = ""
    limit: int | None = None  # in bytes
    reuse: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])

    def applied(self, values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Values of options, those of the environment among them, with what was set; `given` ones
        are the caller's, and stay."""
        new: dict[str, Any] = {}
        if self.mode:
            level = values.get("memory", 1)
            new["memory"] = max(level, 1) if self.mode == "pool" else 0
        if self.limit is not None:
            new["memory_limit"] = self.limit
        if self.reuse:
            apart = dict.fromkeys(full_names(values.get("no_reuse", ())), False) | self.reuse
            new["no_reuse"] = tuple(name for name, shared in apart.items() if not shared)
        return values | new | given


_of_process = Settings()


def settings_at_hand() -> Settings:
    return at_hand(Settings) or _of_process


def new_settings() -> AbstractContextManager[Settings]:
    """Give the context settings of its own: none at first, and they end with it."""
    return having(Settings())


def set_memory_mode(mode: str, max_memory_gb: float | None = None) -> None:
    """Set how programs that are compiled from now on hold their activations: "pool" (one arena,
    whose bytes buffers take in turn) or "separate" (each has its own); in at most `max_memory_gb`
    times 2**30 bytes (weights, inputs and outputs not counted), or, if that is not given, what the
    target has. Raises GeError for an unknown mode, and for a limit that is no positive number."""
    if mode not in MEMORY_MODES:
        known = ", ".join(f"'{name}' ({what})" for name, what in MEMORY_MODES.items())
        raise GeError(
            f"no memory mode '{mode}'{did_you_mean(mode, list(MEMORY_MODES))}",
            hint=f"modes: {known}",
        )
    if max_memory_gb is not None:
        is_number = isinstance(max_memory_gb, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or not 0 < max_memory_gb < float("inf"):
            raise GeError(f"max_memory_gb is a number above 0, not {max_memory_gb!r}")
    settings = settings_at_hand()
    settings.mode = mode
    settings.limit = None if max_memory_gb is None else max(int(max_memory_gb * GB), 1)


def set_op_memory_reuse(op: str, enabled: bool = True) -> None:
    """Set whether results of launches with an op ("MatMul", "fused_op.conv") may share bytes with
    other buffers, in programs that are compiled from now on. Raises GeError for an unknown op."""
    settings_at_hand().reuse |= dict.fromkeys(full_names([op]), bool(enabled))


def full_names(ops: Any) -> list[str]:
    """Return the full names of ops. Raises GeError for unknown ops."""
    if not ops:
        return []
    from ge.dialects.fused_op import FusedOps
    from ge.dialects.graph import Graph
    from ge.transforms.memory.assign_offsets import check_kinds

    return check_kinds(ops, (*Graph.operations, *FusedOps.operations))


T = TypeVar("T")

FUSION_MODES = ("off", "conservative", "default", "aggressive")

MEMORY_LEVELS = range(4)

DUMP_FORMS = ("mlir", "onnx", "pbtxt")

IMPORT, OPT, COMPILE, RUN, CHECK = "ge-import", "ge-opt", "ge-compile", "ge-run", "ge-check"

CALIBRATE, BENCH = "ge-calibrate", "ge-bench"

LAUNCHES = "the target and its launches"

MEMORY = "memory"

DEVICES = "many devices"
ON_DEVICES = "mesh shard pipeline"  # the options one of which says that there are many

QUANTIZATION = "quantization and precision"

MODEL = "the model"

TOLD = "reports and checks"  # titles of groups of flags


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """Facts of an option besides its name, type and default."""

    help: str
    variable: str
    flags: str
    metavar: str
    tools: tuple[str, ...]
    group: str
    read: Callable[[str], Any]
    choices: Sequence[Any]
    adds: bool
    in_program: bool
    of: tuple[str, ...] = ()

    def value(self, text: str) -> Any:
        """Return the value that a text stands for. Raises ValueError, which says what is
        expected."""
        value = self.read(text)
        if self.choices and value not in self.choices:
            raise ValueError(f"one of {self.listed()}")
        return value

    def listed(self) -> str:
        """The choices without the empty one."""
        return ", ".join(str(c) for c in self.choices if c != "")


def option(
    default: T,
    help: str,
    *,
    variable: str = "",
    flags: str = "",
    metavar: str = "",
    tools: tuple[str, ...] = (COMPILE,),
    group: str = TOLD,
    read: Callable[[str], Any] | None = None,
    choices: Sequence[T] = (),
    adds: bool = False,
    in_program: bool = True,
    of: str = "",
) -> T:
    """A field of `Options`. The flag is named like the field unless `flags` says otherwise. `adds`:
    values of a command line come before those of the environment, and do not replace them.
    `in_program`: programs follow from the option. `of`: options, one of which it is a part of: it
    does nothing without them."""
    by_type: dict[type, Callable[[str], Any]] = {
        bool: environment.truth, int: whole(), tuple: names, str: str,
    }  # fmt: skip
    read = read or by_type[type(default)]
    owners = tuple(of.split())
    facts = OptionFacts(
        help, variable, flags, metavar, tools, group, read, choices, adds, in_program, owners
    )
    return dataclasses.field(default=default, metadata={"facts": facts})


def facts_of(field: "dataclasses.Field[Any]") -> OptionFacts:
    return field.metadata["facts"]


def flags_of(field: "dataclasses.Field[Any]") -> list[str]:
    return facts_of(field).flags.split() or ["--" + field.name.replace("_", "-")]


@dataclass(frozen=True)
class Options:
    """Options of the compiler."""

    target: str = option(
        DEFAULT_TARGET,
        "preset name or .toml file; ge-run takes that of a compiled program first",
        variable="GE_TARGET", metavar="NAME", tools=(COMPILE, RUN, BENCH), group=LAUNCHES,
    )  # fmt: skip
    fusion: str = option(
        "default",
        "off (one launch for each graph op), conservative (the numbers keep every bit), default "
        "(what mathematics allows, within the ULPs that each pass states) or aggressive (also "
        "computes cheap values again in each launch that uses them, for less traffic and memory "
        "at the peak, and trusts exp not to overflow. It does not search yet: most networks keep "
        "the launches of default, and --explain does not try it)",
        variable="GE_GRAPH_FUSION", metavar="MODE", tools=(COMPILE, CALIBRATE), group=LAUNCHES,
        choices=FUSION_MODES,
    )  # fmt: skip
    fusion_disable: tuple[str, ...] = option(
        (), "leave out these passes and rules of the optimizer",
        variable="GE_FUSION_DISABLE", metavar="NAME,...", group=LAUNCHES,
    )  # fmt: skip
    engine: tuple[str, ...] = option(
        (),
        "engines chosen by hand: a regular expression that matches the name of a node of "
        "the model or of an op (graph.gelu), and cube, vector or host (or AI_CORE, AI_VECTOR_CORE, "
        "AI_CPU); ops for vector cores leave launches that multiply. The report states the "
        "cost",
        variable="GE_ENGINE", metavar="REGEX=ENGINE,...", tools=(COMPILE, RUN), group=LAUNCHES,
    )  # fmt: skip
    quantize: str = option(
        "",
        "int8 (activations and weights of matmuls and convolutions; needs calibration), int16 "
        "(activations of 16 bits), dynamic (scales of activations computed by the program), fp8 "
        "(f8E4M3FN), w8a16 or w4a16 (weights alone, 4 bits in groups of 32), w8a16g32 (8 bits in "
        "such groups), mxfp4 or nvfp4 (weights alone, floats of 4 bits in groups)",
        variable="GE_QUANTIZE", metavar="SCHEME", tools=(COMPILE, RUN, CALIBRATE, BENCH),
        group=QUANTIZATION, choices=("", *SCHEMES),
    )  # fmt: skip
    calibration: str = option(
        "",
        "samples of the inputs (.npz with an array for each input; several files are separated as "
        "in PATH), or the table that ge-calibrate wrote (.toml)",
        variable="GE_CALIBRATION", metavar="FILE", tools=(COMPILE, RUN, BENCH), group=QUANTIZATION,
        in_program=False, of="quantize precision",
    )  # fmt: skip
    quantize_skip: tuple[str, ...] = option(
        (),
        "layers that stay float: names of layers, of what they read in the model or of their ops "
        "(graph.conv), or else regular expressions, found in such names",
        variable="GE_QUANTIZE_SKIP", metavar="REGEX,...", tools=(COMPILE, CALIBRATE),
        group=QUANTIZATION, of="quantize",
    )  # fmt: skip
    fit_weights: bool = option(
        False,
        "round weights so that the outputs of layers are nearest to those of floats, by samples "
        "(GPTQ), where outputs gain; for w4a16 above all",
        variable="GE_FIT_WEIGHTS", tools=(COMPILE, RUN, CALIBRATE), group=QUANTIZATION,
        of="quantize",
    )  # fmt: skip
    ranges: str = option(
        SEARCH,
        "how the range of an activation follows from samples: search (min-max times the "
        "factor with which layers are most exact), minmax, or average, kl or "
        "percentile:99.99, which hold only where layers are no less exact with them",
        variable="GE_RANGES", metavar="METHOD", tools=(COMPILE, CALIBRATE), group=QUANTIZATION,
        read=ranges, of="quantize",
    )  # fmt: skip
    time_limit: int = option(
        0,
        "seconds after which choices from samples stop, and the best so far holds (0: none); a "
        "table of what was decided till then, given beside the samples, is gone on from",
        variable="GE_TIME_LIMIT", metavar="SECONDS", tools=(COMPILE, CALIBRATE),
        group=QUANTIZATION, of="quantize precision",
    )  # fmt: skip
    quantize_cache: str = option(
        "",
        "keep caches (inputs that come back with rows of a token appended) as int8 or fp8: each "
        "becomes an input and an output of that type, and one of scales, NAME.scale",
        variable="GE_QUANTIZE_CACHE", metavar="TYPE", tools=(COMPILE,), group=QUANTIZATION,
        choices=("", *CACHE_TYPES),
    )  # fmt: skip
    export_qdq: str = option(
        "",
        "write the quantized model too, with quantize and dequantize around its layers: as ONNX, "
        "for other tools, or as .mlir; models that are quantized already take this form too",
        metavar="M.onnx", group=QUANTIZATION, in_program=False,
    )  # fmt: skip
    precision: str = option(
        ORIGIN,
        "the type that replaces f32: origin (f32), fp16 or bf16 (values that do not fit stay f32, "
        "by the calibration or a run on random inputs: see --remarks), mixed (f16 for matmuls, "
        "convolutions and attention, f32 for norms, sums and softmax), mixed_bf16, or one of GE's "
        "names (force_fp16, allow_mix_precision)",
        variable="GE_PRECISION", metavar="MODE", tools=(COMPILE, RUN, CALIBRATE, BENCH),
        group=QUANTIZATION, read=mode_name, choices=(ORIGIN, *MODES),
    )  # fmt: skip
    precision_clip: bool = option(
        False,
        "clip constants beyond the range of f16 to its largest number; without this, ops "
        "that use them stay f32",
        variable="GE_PRECISION_CLIP", tools=(COMPILE, RUN), group=QUANTIZATION, of="precision",
    )  # fmt: skip
    keep_dtype: tuple[str, ...] = option(
        (),
        "nodes that keep their element type under --precision and --quantize: names in the model, "
        "OpType::Softmax for all of a type, or a file with one of these on each line",
        variable="GE_KEEP_DTYPE", metavar="NAME,...", tools=(COMPILE, RUN, CALIBRATE),
        group=QUANTIZATION, read=kept, of="quantize precision",
    )  # fmt: skip
    accuracy: str = option(
        "",
        "the accuracy that outputs keep on the samples (snr>=25 dB, cos>=0.999, snr(y)>=25 for "
        "one output): as few and as cheap layers as possible stay in more bits; ge-calibrate's "
        "table lists them",
        variable="GE_ACCURACY", metavar="BOUND", tools=(COMPILE, CALIBRATE), group=QUANTIZATION,
        read=bound, of="quantize precision",
    )  # fmt: skip
    memory: int = option(
        1,
        "0: each buffer has bytes of its own; 1: bytes are reused, in place too; 2: the order of "
        "the launches is chosen for memory as well; 3: and values are computed again, for at most "
        "a fifth more time, and the packing is searched to the end",
        variable="GE_MEMORY_OPTIMIZE", metavar="LEVEL", tools=(COMPILE, BENCH), group=MEMORY,
        read=memory_level, choices=MEMORY_LEVELS,
    )  # fmt: skip
    memory_limit: int = option(
        0,
        "bytes that the arena may take (also 512K, 64M, 1.5G); 0: what the target has beside "
        "weights, inputs and outputs. Where a program would take more, its order and fusion are "
        "chosen for memory, values are computed again, and buffers go to host memory, as needed",
        variable="GE_MEMORY_LIMIT", metavar="BYTES", tools=(COMPILE, RUN), group=MEMORY,
        read=quantity,
    )  # fmt: skip
    no_reuse: tuple[str, ...] = option(
        (),
        "results of launches with these ops (MatMul, fused_op.conv) share bytes with nothing",
        variable="GE_NO_REUSE", metavar="OP,...", group=MEMORY,
    )  # fmt: skip
    share_io: bool = option(
        False, "the device reads inputs and writes outputs where the caller has them",
        variable="GE_SHARE_IO", tools=(COMPILE, BENCH), group=MEMORY,
    )  # fmt: skip
    state: tuple[str, ...] = option(
        (),
        "inputs that are the last run's outputs, which the device keeps: regular expressions of "
        "their names, each with the output that they become, in which \\1 stands for a group",
        variable="GE_STATE", metavar="INPUT=OUTPUT,...", tools=(COMPILE, BENCH), group=MODEL,
    )  # fmt: skip
    merge_io: bool = option(
        False, "small inputs cross the link as one copy, and so do small outputs: as many bytes as "
        "take no longer than the smallest copy",
        variable="GE_MERGE_IO", tools=(COMPILE, BENCH), group=MEMORY,
    )  # fmt: skip
    state_capacity: str = option(
        "",
        "the dimension of the model along which state grows, and the most rows that it gets: the "
        "program is static, and appends to state where it is",
        variable="GE_STATE_CAPACITY", metavar="NAME=N", group=MODEL, read=capacity,
    )  # fmt: skip
    state_layout: str = option(
        "contiguous",
        "of state with a capacity: contiguous, or paged:N: rows lie in blocks of N, which are "
        "taken as it grows and found by a table (PagedAttention)",
        variable="GE_STATE_LAYOUT", metavar="LAYOUT", group=MODEL, read=layout,
    )  # fmt: skip
    mesh: str = option(
        "",
        "devices that values are cut over: axes, and how many devices lie along each (dp=2,tp=4)",
        variable="GE_MESH", metavar="AXIS=N,...", tools=(COMPILE, RUN), group=DEVICES, read=mesh,
    )  # fmt: skip
    shard: str = option(
        "",
        "rules that say by names of inputs, outputs, weights and other values how these are cut: "
        'a file ({"x": [["dp"], []], "w_*": [[], ["tp"]]}), or its text; auto, or RULES.json,auto: '
        "what they do not say is searched for, by time and memory",
        variable="GE_SHARD", metavar="RULES.json|auto", tools=(COMPILE, RUN), group=DEVICES,
    )  # fmt: skip
    pad: bool = option(
        False,
        "inputs, outputs and weights may be cut into parts of unequal size: the last ones are "
        "padded",
        variable="GE_PAD", tools=(COMPILE, RUN), group=DEVICES, of=ON_DEVICES,
    )  # fmt: skip
    pipeline: str = option(
        "",
        "stages, each a program of its own on the devices of one place along an axis of the mesh: "
        "how many there are, or the axis too (4, pp=4); without a mesh each is one device",
        variable="GE_PIPELINE", metavar="[AXIS=]N", tools=(COMPILE, RUN), group=DEVICES,
        read=stages,
    )  # fmt: skip
    microbatches: int = option(
        0,
        "parts of the batch, one after the other through the stages (default: as many as stages)",
        variable="GE_MICROBATCHES", metavar="N", tools=(COMPILE, RUN), group=DEVICES,
        read=whole(1), of="pipeline",
    )  # fmt: skip
    collective: tuple[str, ...] = option(
        (),
        "algorithms of collectives by choice, where a group can take them (all_reduce=ring); by "
        "default the one that takes least on the links of the target: mesh, halving_doubling, nhr, "
        "ring or two_level of all_reduce, all_gather and reduce_scatter; mesh, pairwise or "
        "two_level of all_to_all; mesh or pairwise of exchange",
        variable="GE_COLLECTIVE", metavar="KIND=ALGORITHM,...", tools=(COMPILE, RUN), group=DEVICES,
        of=ON_DEVICES,
    )  # fmt: skip
    chunks: bool = option(
        True,
        "cut what devices send each other into chunks, with the launches that make and use it, so "
        "that these compute meanwhile, where the clock says that the program is faster so",
        variable="GE_CHUNKS", tools=(COMPILE, RUN), group=DEVICES,
    )  # fmt: skip
    print_liveness: bool = option(False, "print when each buffer is live, and where, in bytes")
    dim: tuple[str, ...] = option(
        (),
        "size of a symbolic dimension, in elements, or the range that it is in: batch=1..8 (of a "
        "name such as past + 1, that of past is enough)",
        variable="GE_DIM", metavar="NAME=N", tools=(COMPILE, RUN, CHECK, BENCH), group=MODEL,
        read=several,
    )  # fmt: skip
    shape: tuple[str, ...] = option(
        (),
        "shape of an input, also with ranges: x=1x3x224x224, or x:1~10,3,-1 (-1: any size)",
        variable="GE_SHAPE", metavar="NAME=1x3x8", tools=(COMPILE, RUN, CHECK, BENCH), group=MODEL,
        read=several,
    )  # fmt: skip
    static_shape: bool | None = option(
        None,
        "on: ge-compile refuses a model whose dimensions are not all known; off: ge-run does not "
        "compile a model with symbolic dimensions anew for the shapes of its inputs, and its "
        "program allocates dynamic values as it runs",
        variable="GE_STATIC_SHAPE", tools=(COMPILE, RUN), group=MODEL, read=environment.truth,
    )  # fmt: skip
    dynamic_batch: str = option(
        "",
        "gears: sizes of the first dimension of inputs, for each of which the program has a body "
        "(1,2,4,8); the sizes of the other gear options are combined with them",
        variable="GE_DYNAMIC_BATCH", metavar="N,...", tools=(COMPILE, RUN), group=MODEL,
    )  # fmt: skip
    dynamic_image_size: str = option(
        "", 'gears: heights and widths of images ("224,224;512,512")',
        variable="GE_DYNAMIC_IMAGE_SIZE", metavar="H,W;...", tools=(COMPILE, RUN), group=MODEL,
    )  # fmt: skip
    dynamic_dims: str = option(
        "",
        "gears: sizes of all other dynamic dimensions, in the order of the inputs, one for each "
        'name or one for each -1 ("1,256;1,512"); of a dimension that another gear option sizes '
        "there may be a placeholder, 1 or -1",
        variable="GE_DYNAMIC_DIMS", metavar="N,...;...", tools=(COMPILE, RUN), group=MODEL,
    )  # fmt: skip
    dynamic_fallback: bool = option(
        False,
        "gears: also a body for all other sizes, whose values the device allocates as it runs",
        variable="GE_DYNAMIC_FALLBACK", tools=(COMPILE, RUN), group=MODEL,
    )  # fmt: skip
    gear_histogram: str = option(
        "",
        "gears: a .csv file with a column for each dynamic dimension, and one of counts: the "
        "report states what the gears waste, and which gears of the same number would waste least",
        metavar="SIZES.csv", group=MODEL,
    )  # fmt: skip
    cache_dir: str = option(
        "", "folder that keeps compiled programs by the hash of model and options",
        variable="GE_CACHE_DIR", metavar="DIR", group="what comes out", in_program=False,
    )  # fmt: skip
    dump_graph: int = option(
        0,
        "write the module after each pass: 1 (true) in full, 2 without the elements of large "
        "constants, 3 without those of any; 0 (false): not at all; ge-opt takes the variable",
        variable="GE_DUMP_GRAPH", metavar="DETAIL", tools=(COMPILE, RUN, CALIBRATE), read=detail,
        choices=range(4), in_program=False,
    )  # fmt: skip
    dump_path: str = option(
        "ge_dump", "folder for what --dump-graph writes",
        variable="GE_DUMP_PATH", metavar="DIR", tools=(COMPILE, RUN, CALIBRATE), in_program=False,
        of="dump_graph",
    )  # fmt: skip
    dump_graph_format: str = option(
        "mlir",
        "of what --dump-graph writes: mlir, or onnx: the graph and the fused level as ONNX "
        "(fused ops are functions, from 2 on weights are inputs), all else as mlir; or pbtxt: as "
        "mlir, and beside it as graph_N.pbtxt in GE's text form",
        variable="GE_DUMP_GRAPH_FORMAT", metavar="FORM", tools=(COMPILE, RUN, CALIBRATE),
        choices=DUMP_FORMS, in_program=False, of="dump_graph",
    )  # fmt: skip
    custom_pass: str = option(
        "",
        "add the dialects and ONNX ops of a Python file, and its passes at the level that they "
        "state; several files are separated as in PATH",
        variable="GE_CUSTOM_PASS", flags="--load-plugin", metavar="FILE.py",
        tools=(IMPORT, OPT, COMPILE, RUN, CHECK, CALIBRATE, BENCH), group=LAUNCHES, adds=True,
    )  # fmt: skip
    packages_off: tuple[str, ...] = option(
        (), "installed packages to ignore, by name (`all`: every one)",
        variable="GE_PACKAGES_OFF", metavar="NAME,...", tools=(), in_program=False,
    )  # fmt: skip
    outputs: tuple[str, ...] = option(
        (), "compute only these outputs",
        flags="--keep-outputs --outputs", metavar="NAME,...", tools=(COMPILE, RUN), group=MODEL,
    )  # fmt: skip
    pieces: bool = option(
        False,
        "cut launches into chunks that overlap where the clock says that this is faster: more "
        "launches, in less time and memory (see pass split-launches)",
        variable="GE_PIECES", tools=(COMPILE, BENCH), group=LAUNCHES,
    )  # fmt: skip
    tiles: bool = option(
        True,
        "write beside each kernel the tile program that is known for it: what runs on each core, "
        "whose simulation says what the kernel takes, which ge-check proves and ge-run --tiles "
        "runs. Without them times are estimates of them, and all that states one says so",
        variable="GE_TILES", tools=(COMPILE, BENCH), group=LAUNCHES,
    )  # fmt: skip
    tile_cache: str = option(
        "",
        "folder that keeps tile programs by the hash of kernel and target, or off; by default "
        "tiles in that of --cache-dir, or else ge/tiles in the user's cache folder",
        variable="GE_TILE_CACHE", metavar="DIR", group=LAUNCHES, in_program=False, of="tiles",
    )  # fmt: skip
    tile_tunings: str = option(
        "",
        "file of ge-tune with cuts of kernels that are faster than the estimated ones",
        variable="GE_TILE_TUNINGS", metavar="FILE", group=LAUNCHES, of="tiles",
    )  # fmt: skip
    drop_unused_inputs: bool = option(False, "remove inputs that no output depends on", group=MODEL)
    verify: bool = option(True, "check that each level is legal where it begins", tools=())
    sanitize: bool = option(
        False,
        "prove a program before it runs, as ge-check does (memory plan, schedule, figures, "
        "capacity, and tile programs where these run), and fill memory that holds no value with "
        "garbage",
        variable="GE_SANITIZE", tools=(RUN,), group="checks", in_program=False,
    )  # fmt: skip
    peer_timeout: int = option(
        8,
        "seconds after which a rank (under mpiexec) gives up waiting for others that do not get on",
        variable="GE_PEER_TIMEOUT", metavar="SECONDS", tools=(RUN,), group="checks",
        in_program=False, read=whole(1),
    )  # fmt: skip
    debug: bool = option(
        False, "print Python's traceback with an error",
        variable="GE_DEBUG", tools=(IMPORT, OPT, COMPILE, CHECK, RUN, CALIBRATE),
        in_program=False,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if isinstance(self.state, Mapping):  # as ge.Session takes it
            pairs = cast("Mapping[str, str]", self.state).items()
            object.__setattr__(self, "state", tuple(f"{name}={to}" for name, to in pairs))
        if isinstance(stages := cast(Any, self.pipeline), int):  # as ge.compile takes it
            object.__setattr__(self, "pipeline", str(stages))
        if isinstance(self.mesh, Mapping):
            sizes = cast("Mapping[str, int]", self.mesh).items()
            object.__setattr__(self, "mesh", ",".join(f"{name}={size}" for name, size in sizes))
        if isinstance(self.collective, Mapping):
            pairs = cast("Mapping[str, str]", self.collective).items()
            object.__setattr__(self, "collective", tuple(f"{k}={name}" for k, name in pairs))
        if isinstance(self.shard, Mapping):
            object.__setattr__(self, "shard", rules_text(cast("Mapping[str, Any]", self.shard)))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, str) and not isinstance(value, str | os.PathLike):
                raise GeError(f"{field.name} is a text, not {value!r}")
            if isinstance(value, os.PathLike):
                value = os.fspath(cast("os.PathLike[str]", value))
                object.__setattr__(self, field.name, value)
            if isinstance(field.default, tuple) and isinstance(value, str):
                object.__setattr__(self, field.name, self._listed(field.name, value))
        try:
            object.__setattr__(self, "precision", mode_name(self.precision))
        except ValueError as e:
            raise GeError(f"precision is {e}, not '{self.precision}'") from None
        for field in dataclasses.fields(self):
            self._check(field)
        if type(self.memory_limit) is not int or self.memory_limit < 0:
            raise GeError(f"the memory limit is a number of bytes, not {self.memory_limit}")

    def _check(self, field: "dataclasses.Field[Any]") -> None:
        """Raises GeError for a text or a number that the option does not take."""
        facts, value = facts_of(field), getattr(self, field.name)
        if facts.choices and value not in facts.choices:
            raise GeError(f"{field.name} is one of {facts.listed()}, not '{value}'")
        if value == field.default or type(value) not in (str, int):
            return
        try:
            facts.read(str(value))
        except ValueError as e:
            raise GeError(f"{field.name} is {e}, not '{value}'") from None

    def _listed(self, name: str, text: str) -> tuple[str, ...]:
        try:
            (field,) = (f for f in dataclasses.fields(self) if f.name == name)
            return facts_of(field).read(text)
        except ValueError as e:
            raise GeError(f"{name} is {e}, not '{text}'") from None

    @property
    def gears(self) -> tuple[str, str, str]:
        return self.dynamic_batch, self.dynamic_image_size, self.dynamic_dims

    @property
    def rules(self) -> ShardRules | None:
        """The mesh and the rules together; None if nothing is given. Raises GeError for what
        cannot be read."""
        return asked(self.mesh, self.shard, self.pipeline, self.microbatches)

    @property
    def in_stages(self) -> "Options":
        """The options with the pipeline that a file of rules states. Raises GeError for what cannot
        be read, or contradicts an option."""
        rules = self.rules
        if rules is None:
            return self
        return dataclasses.replace(self, pipeline=rules.pipeline, microbatches=rules.microbatches)

    @property
    def plugins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p for p in self.custom_pass.split(os.pathsep) if p))

    @property
    def calibration_files(self) -> tuple[str, ...]:
        return tuple(p for p in self.calibration.split(os.pathsep) if p)

    @property
    def read_files(self) -> tuple[str, ...]:
        """Files that programs and reports follow from, beside the model, the target and plugins."""
        source, _ = without_auto(self.shard)
        rules = source if is_file(source) else ""
        others = self.gear_histogram, self.tile_tunings, rules
        return (*self.calibration_files, *(p for p in others if p))

    @classmethod
    def from_environment(
        cls, source: Mapping[str, str] | None = None, **arguments: Any
    ) -> "Options":
        """Options from `GE_*` variables and the settings of the process;
        `arguments` that are not None win. Raises GeError for a value that cannot be read."""
        given = {name: value for name, value in arguments.items() if value is not None}
        values = dict(given)
        variables = environment.variables() if source is None else source
        for field in dataclasses.fields(cls):
            facts, name = facts_of(field), field.name
            if not (text := variables.get(facts.variable)):
                continue
            try:
                value = facts.value(text)
            except ValueError as e:
                raise GeError(f"{facts.variable} is {e}, not '{text}'") from None
            if name not in values:
                values[name] = value
            elif facts.adds:
                given[name] = values[name] = os.pathsep.join((values[name], value))
        return cls(**settings_at_hand().applied(values, given))

    def of_program(self) -> dict[str, Any]:
        fields = (f for f in dataclasses.fields(self) if facts_of(f).in_program)
        return {f.name: getattr(self, f.name) for f in fields}

    def as_dict(self) -> dict[str, Any]:
        """Return for reports what differs from the defaults, and always target, fusion and
        memory."""
        always = ("target", "fusion", "memory")
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name in always or getattr(self, f.name) != f.default
        }


def unknown_variables(variables: Mapping[str, str]) -> list[str]:
    """A line for each variable that begins with `GE_` and is none of an option."""
    known = [v for f in dataclasses.fields(Options) if (v := facts_of(f).variable)]
    return [
        f"no option has the variable {name}{did_you_mean(name, known)}"
        for name in sorted(variables)
        if name not in known
    ]
