"""The page of report keys: what `ge-compile --report` and `ge-run --report` write.

A path has the keys from the outside in; `*` is a name (of a rule, an engine, an output), `[]` each
item of a list. A test compares the paths with those of actual reports.
"""

from collections.abc import Mapping

from ge.tools.reference.markdown import code, paragraphs, table

MACHINE = "the target that times are of, and whether they are simulated or estimated"

# Figures that stand in several parts of a report
MEASURED = {
    "error": "the largest error",
    "share": "that error as part of the largest magnitude",
    "cos": "cosine of the two arrays",
    "snr_db": "signal to noise; not there where there is no noise",
    "differ": "elements that are not equal, of integers",
    "strange": "elements that are nan or infinite in one of the two",
}
COVERAGE = {
    "launches": "launches of kernels",
    "us": "their estimated time, each launch alone",
    "on_tiles.launches": "those with a tile program",
    "on_tiles.us": "their time",
    "others.[].reason": "why launches have none",
    "others.[].launches": "how many",
    "others.[].us": "their time",
}
WHAT_IF = {
    "change": "a change of the target",
    "latency_us": "the latency with it",
    "ratio": "that, over the latency without",
    "machine": MACHINE,
}


def under(path: str, keys: Mapping[str, str], more: str = "") -> Mapping[str, str]:
    return {f"{path}.{key}": meaning + more for key, meaning in keys.items()}


KEYS: Mapping[str, str] = {
    "model": "name of the file, without its ending",
    "target": "name of the target, or path of its file",
    "options.*": "each option as it was set: see [Options](options.md)",
    "compile.seconds": "wall time of compiling",
    "compile.passes.[].name": "a pass, in the order in which they ran",
    "compile.passes.[].seconds": "its wall time",
    "ops.graph": "ops that compute, of the graph level; constants are not counted",
    "ops.fused": "the same at the fused level",
    "ops.launches": "launches of kernels in the program; copies and views are none",
    "fusion.*.matched": "how often a [rule](rules.md) matched",
    "fusion.*.applied": "how often the match was rewritten",
    # memory
    "memory.peak_bytes": "the arena: activations and workspaces of kernels that are in the plan",
    "memory.lower_bound_bytes": "the most bytes live at one time in the order of the launches",
    "memory.no_reuse_bytes": "the arena if each tensor had bytes of its own",
    "memory.weight_bytes": "constants in the memory of the device",
    "memory.io_bytes": "inputs and outputs in the memory of the device",
    "memory.state_bytes": "state that stays on the device from run to run",
    "memory.kernel_constant_bytes": "short constants that are part of kernels, and no weights",
    "memory.workspace_bytes": "workspaces of tile programs, one for each stream",
    "memory.remedies.[].remedy": "what was tried where the arena was larger than its limit",
    "memory.remedies.[].arena_bytes": "the arena without it",
    "memory.remedies.[].saved_bytes": "what it saves",
    "memory.remedies.[].applied": "whether it stayed",
    "memory.unknown.tensors": "tensors whose sizes are known at run time only",
    "memory.unknown.dims": "named dimensions that their sizes follow from",
    "memory.unknown.sizes.[].made_by": "kernel or op that makes such a tensor",
    "memory.unknown.sizes.[].type": "its type, `?` for what is not known",
    "memory.unknown.sizes.[].bytes": "its bytes, as an expression of the dimensions",
    "memory.unknown.placed": "how many of them have a place that holds them at all sizes",
    "memory.unknown.placed_bytes": "bytes of all such places",
    "memory.unknown.at_most.dims.*": "the largest size of a dimension with a range",
    "memory.unknown.at_most.peak_bytes": "the arena there",
    "memory.unknown.at_most.lower_bound_bytes": "its lower bound there",
    # what was chosen
    "quantization.integer": "layers that multiply integers",
    "quantization.integer weights": "layers of floats whose weights are stored as integers",
    "quantization.float": "layers that stay float",
    "quantization.layers.[].name": "a layer: its name in the model, or that of its op",
    "quantization.layers.[].op": "its op",
    "quantization.layers.[].scheme": "what it is computed in",
    "quantization.layers.[].reason": "why, where that is not what was asked for",
    "quantization.layers.[].range": "range of its input, from samples",
    "quantization.layers.[].saturated": "share of its input outside of the range",
    "quantization.layers.[].alone_db": "signal to noise if it alone is quantized",
    "quantization.layers.[].accumulated_db": "signal to noise of its result in the quantized model",
    "quantization.layers.[].fitted_db": "how much less error its fitted weights leave on samples",
    "quantization.layers.[].extra_us": "how much longer it takes in floats, by the model of time",
    "quantization.left_db.*": "signal to noise of an output on the samples",
    "quantization.mended.layers": "layers left in floats, as outputs would keep little",
    "quantization.mended.time": "the share of the time of all layers that this takes",
    "quantization.unchanged.*": "share of the elements of an output of integers that are as before",
    "quantization.us": "latency of the program, by the model of time",
    "quantization.fp16_us": "that of the same model in fp16, which was compiled for comparison",
    "precision.mode": "the mode asked for",
    "precision.format": "the element type that f32 became",
    "precision.ranges": "where ranges of values come from: samples, a table, a run, none",
    "precision.narrow": "ops that are computed in that type",
    "precision.kept.[].op": "an op that stays in f32",
    "precision.kept.[].name": "its name in the model",
    "precision.kept.[].why": "the reason",
    "precision.clipped.*": "the largest element of a constant that was clipped",
    "precision.left_db.*": "signal to noise of an output, on the samples or random inputs",
    "engines.by_hand": "ops whose engine was chosen by hand",
    "engines.latency_us": "latency with that choice",
    "engines.without_us": "latency without",
    "engines.machine": MACHINE,
    **under("tiles", COVERAGE),
    # programs of many devices
    "devices.count": "devices of the mesh",
    "devices.plan": "lines about the shardings that were searched for, and the next best",
    "devices.mesh.*": "devices along an axis",
    "devices.collectives.[].op": "what devices send each other; `halo` and `shift` are boxes of a "
    "value, that of a neighbour beside the own one, or another one",
    "devices.collectives.[].bytes": "on a device: what is reduced, gathered, scattered; of a halo "
    "or a shift what the device that sends most sends; 0 where the size is not known",
    "devices.collectives.[].axes": "an axis of the mesh, or a digit of one, along which devices "
    "send each other",
    "devices.collectives.[].count": "how many times a run does so",
    "devices.collectives.[].algorithm": "the steps by which devices send",
    "devices.collectives.[].us": "the time of one",
    "devices.sent_bytes": "bytes that a device sends in a run, by algorithms that send least",
    "devices.parameter_bytes": "bytes of the weights that a device has",
    # gears
    "gears.[].sizes.*": "size of a dimension in this gear",
    "gears.[].launches": "launches of its body",
    "gears.[].kernels": "kernels that they run",
    "gears.[].own_kernels": "those of no other gear",
    "gears.[].arena_bytes": "its part of the arena",
    "gears.[].latency_us": "time of a run in it",
    "gears.[].machine": MACHINE,
    "gears.[].seconds": "its share of the time of compiling, by its launches",
    "other_sizes.tensors": "tensors that the device allocates for sizes of no gear",
    "padding.dims.*": "why a dimension cannot be padded",
    "padding.dims.*.*": "axes of an output that are cut where the dimension was padded",
    "padding.assumes": "what padding takes for granted",
    "histogram.dims": "dimensions of the histogram",
    "histogram.*.gears.[]": "a gear: `now` of those there are, `best` of as many that waste least",
    "histogram.*.wasted": "share of the elements computed that are padding",
    "histogram.*.not_taken": "share of the runs whose size no gear takes",
    "histogram.best.method": "whether the best was searched for exactly",
    # numbers, of ge-run
    "numerics.seconds": "wall time of the emulated run",
    "numerics.outputs.*.shape": "shape of an output",
    "numerics.outputs.*.dtype": "its element type",
    "numerics.outputs.*.min": "its least element",
    "numerics.outputs.*.max": "its largest element",
    "numerics.outputs.*.mean": "the mean of its elements",
    "numerics.random_timings": "how many random timings gave the same bits",
    "compared.with": "what the outputs were compared with",
    "compared.tolerance": "what they have to keep",
    "compared.agrees": "whether all of them do",
    "compared.outputs.*.type": "element type and shape of an output",
    **under("compared.outputs.*", MEASURED),
    "compared.outputs.*.verdict": "agrees, or what is beyond the tolerance",
    "compared.not_compared.*": "why an output has nothing beside it",
    "compared.layers.compared": "nodes that both programs have results of",
    "compared.layers.differ": "those beyond the tolerance",
    "compared.layers.wrong": "those that are so alone, on the program's own operands",
    "compared.layers.first": "the first of these in the order of the model",
    "compared.layers.nodes.[].name": "a node, those that are wrong alone first",
    "compared.layers.nodes.[].op": "its op, or the kernel of its launch",
    "compared.layers.nodes.[].sources": "itself, and what it is computed from that is not compared",
    "compared.layers.nodes.[].type": "element type and shape of its result in the program",
    **under("compared.layers.nodes.[]", MEASURED),
    **under("compared.layers.nodes.[].alone", MEASURED, ", beside the peer's of its own operands"),
    "compared.layers.nodes.[].verdict": "agrees, differs, wrong, or why it is not to blame",
    "compared.layers.nodes.[].complaint": "what is beyond the tolerance",
    "numerics.tiles.run": "which cores ran tile programs: all, or a sample",
    **under("numerics.tiles", COVERAGE),
    # time, of ge-run
    "time.machine": MACHINE,
    "time.latency_us": "from the first task to the end of the last one",
    "time.first_us": "of the host, before the first run at sizes that a program is bound to",
    "time.lower_bound_us": "what the busiest engine and the longest chain of tasks take at least",
    "time.engines.*.busy_us": "time in which an engine works",
    "time.engines.*.utilization": "that, as a share of the latency",
    "time.idle.*": "time in which the busiest compute engine waits, by cause",
    "time.critical_path.tasks": "tasks on the critical path",
    "time.critical_path.busy_us": "their own time",
    "time.critical_path.wait_us": "launches and waits between them",
    "time.communication.us": "time of what devices send each other",
    "time.communication.exposed_us": "the part of it in which no core computes",
    "time.communication.hidden": "the share of it beside which something else runs",
    "time.communication.collectives.[].kernel": "a kernel of a collective, exposed longest first",
    "time.communication.collectives.[].op": "the collective",
    "time.communication.collectives.[].algorithm": "the steps by which devices send",
    "time.communication.collectives.[].us": "one launch",
    "time.communication.collectives.[].runs": "its launches",
    "time.communication.collectives.[].exposed_us": "time in which no core computes, of all",
    "time.communication.collectives.[].causes.*": "that, by what comes then, and why not before",
    "time.timed_by.tiles": "tasks that were timed by a tile program",
    "time.timed_by.estimates": "tasks whose time is the estimate of a tile program",
    "time.timed_by.share_of_estimates": "their share of the time of all launches",
    "time.notes": "what the times take for granted",
    "time.kernels.[].kernel": "a kernel with a tile program, of the slowest",
    "time.kernels.[].launches": "its launches",
    "time.kernels.[].launches_us": "their time",
    "time.kernels.[].tiles.latency_us": "one launch",
    "time.kernels.[].tiles.start_us": "its start",
    "time.kernels.[].tiles.core_us": "time of the busiest core",
    "time.kernels.[].tiles.hbm_us": "time that its bytes take at the bandwidth of HBM",
    "time.kernels.[].tiles.hbm_bytes": "bytes that cross HBM",
    "time.kernels.[].tiles.kind": "kind of kernel: which cores it needs",
    "time.kernels.[].tiles.cores": "how many it runs on",
    "time.kernels.[].tiles.bound": "what bounds it",
    "time.kernels.[].tiles.taken_for_0": "instructions whose time the target does not state",
    "time.kernels.[].tiles.pipes.*.busy_us": "time in which a pipe works",
    "time.kernels.[].tiles.pipes.*.utilization": "that, as a share of the busiest core's time",
    "time.kernels.[].tiles.pipes.*.instructions": "instructions of the pipe",
    "time.kernels.[].tiles.pipes.*.wait_us.*": "what it waits for, by cause",
    "time.state.inputs": "inputs that look like state, and are copied in each run",
    "time.state.copies_us": "time that their copies keep the link busy",
    "time.state.latency_us": "the latency",
    "time.state.machine": MACHINE,
    "time.state.patterns": "what `--state` would say",
    "time.runs.runs": "runs that follow each other",
    "time.runs.prefetch": "sets of memory for inputs and outputs",
    "time.runs.total_us": "time of all",
    "time.runs.interval_us": "from one to the next, once the stages are full",
    "time.runs.per_second": "runs a second",
    "time.runs.slowest_stage": "the stage that decides it",
    "time.runs.stages_us.*": "time of a stage: inputs, compute, outputs",
    "time.runs.io_bytes": "memory of all sets",
    **under("time.what_if.[]", WHAT_IF, ", with the program as it is"),
    **under("time.what_if_compiled.[]", WHAT_IF, ", of the model compiled for it"),
    "time.explained.made_of_us.*": "the latency along the critical path, by cause",
    "time.explained.bytes": "memory that the device holds",
    "time.explained.kernels.[].kernel": "a kernel, or copies one way over the link",
    "time.explained.kernels.[].runs": "its launches",
    "time.explained.kernels.[].total_us": "their time",
    "time.explained.kernels.[].bound": "the cause that bounds it",
    "time.explained.kernels.[].next": "the cause that comes next",
    "time.explained.kernels.[].limits_us.*": "time that a cause asks for",
    "time.explained.kernels.[].nodes": "nodes of the model that it comes from",
    "time.explained.tried.[].name": "a change that was compiled and timed",
    "time.explained.tried.[].flags": "its flags",
    "time.explained.tried.[].latency_us": "the latency with it",
    "time.explained.tried.[].machine": MACHINE,
    "time.explained.tried.[].us": "that, for as many samples as the model has as it is",
    "time.explained.tried.[].samples": "how many times as many samples it computes",
    "time.explained.tried.[].bytes": "memory that the device holds then",
    "time.explained.tried.[].numbers": "what it does to the numbers",
    "time.explained.tried.[].accuracy": "what quantizing leaves on the samples",
    "time.explained.tried.[].seconds": "wall time of trying",
    "time.explained.tried.[].warnings": "what compiling it warned about",
    # the host, of ge-run --dispatch
    "dispatch.machine": MACHINE,
    "dispatch.calls.*.[].CALL": "the figures of a call in a mode: see below",
    "dispatch.steps.*.CALL": "those of all steps in a mode together",
    "dispatch.steps.*.tokens_per_s": "steps a second",
}

CALL: Mapping[str, str] = {
    "latency_us": "until the last task of the call has ended",
    "host_us.*": "time of the host's threads, by what they do",
    "idle_us.*": "time in which the device waits before launches, by cause",
    "idle_for_host_us": "the part of it that is the host's",
    "idle_at_start_us": "the part of that which lies before the first launch",
    "setups": "operations that were set up",
    "setups_skipped": "operations whose last setup still held",
    "tilings.*": "where tilings were found: in a cache, patched, or nowhere (`miss`)",
    "captures": "times that tasks were captured",
    "refused": "captured tasks that could not be replayed",
    "replays": "times that captured tasks were replayed",
    "updates": "captured tasks that were written anew",
}
"""What is known of one call of a host."""

INTRODUCTION = """# Keys of reports

`ge-compile --report R.json` and `ge-run --report R.json` write one object. A path has the keys from
the outside in; `*` is a name, `[]` each item of a list. A part that was not computed is absent.
Times in `us` are of the emulated device, `seconds` of this machine; sizes are bytes."""


def report_page() -> str:
    """A row for each key."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for path, meaning in KEYS.items():
        groups.setdefault(path.partition(".")[0], []).append((code(path), meaning))
    parts = [f"## {name}\n\n{table(['key', 'meaning'], rows)}" for name, rows in groups.items()]
    calls = table(["key", "meaning"], [(code(path), meaning) for path, meaning in CALL.items()])
    return paragraphs(INTRODUCTION, *parts, "### A call\n\n" + calls)
