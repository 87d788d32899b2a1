"""The default pipeline: the passes of each level, as objects."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from xdsl.passes import ModulePass

from ge.dialects.support.environment import cache_folder
from ge.dialects.support.errors import GeError
from ge.lowering.levels.level import Level
from ge.lowering.levels.verify_level import VerifyLevelPass
from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.remedies import Remedies
from ge.lowering.plugins.extensions import placed_passes
from ge.lowering.plugins.universe import rules
from ge.lowering.steps.bufferize_tasks import BufferizeTasksPass
from ge.lowering.steps.kept_programs import compiler, name_of
from ge.lowering.steps.lower_to_tasks import LowerToTasksPass
from ge.transforms.fusion.assign_engines import AssignEnginesPass
from ge.transforms.fusion.expand_attention import ExpandAttentionPass
from ge.transforms.fusion.fuse_attention import FuseAttentionPass
from ge.transforms.fusion.fuse_conv import FuseConvPass
from ge.transforms.fusion.fuse_linear import FuseLinearPass
from ge.transforms.fusion.fuse_norm import FuseNormPass
from ge.transforms.fusion.fuse_region import FuseRegionPass
from ge.transforms.fusion.keep_channels_last import KeepChannelsLastPass
from ge.transforms.fusion.sort_groups import SortGroupsPass
from ge.transforms.graph.absorb_transposes import AbsorbTransposesPass
from ge.transforms.graph.composites.find_activations import FindActivationsPass
from ge.transforms.graph.composites.find_attention import FindAttentionPass
from ge.transforms.graph.composites.find_grouped_matmul import FindGroupedMatmulPass
from ge.transforms.graph.composites.find_norms import FindNormsPass
from ge.transforms.graph.composites.find_rotary import FindRotaryPass
from ge.transforms.graph.composites.find_softmax import FindSoftmaxPass
from ge.transforms.graph.composites.match_quantized_attention import MatchQuantizedAttentionPass
from ge.transforms.graph.deduplicate_constants import DeduplicateConstantsPass
from ge.transforms.graph.eliminate_dead_code import EliminateDeadCodePass
from ge.transforms.graph.expand_einsum import ExpandEinsumPass
from ge.transforms.graph.expand_layers import ExpandLayersPass
from ge.transforms.graph.fold_batch_norm import FoldBatchNormPass
from ge.transforms.graph.fold_constants import FoldConstantsPass
from ge.transforms.graph.infer_shapes import InferShapesPass
from ge.transforms.graph.move_transposes import MoveTransposesPass
from ge.transforms.graph.prepare_weights import PrepareWeightsPass
from ge.transforms.graph.prune_outputs import PruneOutputsPass
from ge.transforms.graph.resolve_shapes import ResolveShapesPass
from ge.transforms.graph.share_common_subexpressions import ShareCommonSubexpressionsPass
from ge.transforms.graph.share_equal_weights import ShareEqualWeightsPass
from ge.transforms.graph.simplify_algebra import SimplifyAlgebraPass
from ge.transforms.graph.simplify_control_flow import SimplifyControlFlowPass
from ge.transforms.graph.simplify_movement import SimplifyMovementPass
from ge.transforms.graph.split_pointwise_convs import SplitPointwiseConvsPass
from ge.transforms.graph.turn_weights import TurnWeightsPass
from ge.transforms.memory.extract_concats import ExtractConcatsPass
from ge.transforms.memory.merge_copies import MergeCopiesPass
from ge.transforms.memory.order_tasks import OrderTasksPass
from ge.transforms.memory.overwrite_operands import OverwriteOperandsPass
from ge.transforms.memory.plan_memory import PlanMemoryPass
from ge.transforms.memory.plan_ranges import PlanRangesPass
from ge.transforms.memory.read_parts import ReadPartsPass
from ge.transforms.memory.recompute_elementwise import RecomputeElementwisePass
from ge.transforms.memory.rematerialize import RematerializePass
from ge.transforms.memory.spill_buffers import SpillBuffersPass
from ge.transforms.memory.write_parts import WritePartsPass
from ge.transforms.precision.modes import MODES, ORIGIN
from ge.transforms.quantization.lower_quantization import LowerQuantizationPass
from ge.transforms.quantization.schemes import SCHEMES
from ge.transforms.rewriting.passes import PassSequence
from ge.transforms.schedule.acknowledge_collectives import AcknowledgeCollectivesPass
from ge.transforms.schedule.assign_streams import AssignStreamsPass
from ge.transforms.schedule.split_launches import SplitLaunchesPass
from ge.transforms.shapes.bind_dims import BindDimsPass
from ge.transforms.shapes.expand_gears import ExpandGearsPass
from ge.transforms.shapes.express_sizes import ExpressSizesPass
from ge.transforms.shapes.relate_dims import RelateDimsPass
from ge.transforms.shapes.split_oversized import SplitOversizedPass
from ge.transforms.sharding.annotate_shardings import AnnotateShardingsPass
from ge.transforms.sharding.choose_algorithms import ChooseAlgorithmsPass
from ge.transforms.sharding.cut_attention import CutAttentionPass
from ge.transforms.sharding.merge_collectives import MergeCollectivesPass
from ge.transforms.sharding.partition_spmd import PartitionSpmdPass
from ge.transforms.sharding.rules import without_auto
from ge.transforms.state.mark_state import MarkStatePass
from ge.transforms.state.update_state import UpdateStatePass

# Steps of the search for the smallest packing at memory level 3: about 6 seconds
SEARCH_LONG = 30_000

# Steps at lower levels, where the quick methods leave a gap: about half a second. Most gaps of
# real graphs close in a few hundred.
SEARCH_BRIEFLY = 3_000

SEARCH_FOR_LIMIT = 15_000  # steps where the program did not fit

SLOWER_FOR_LIMIT = 2.0  # how many times as long the tasks may take where the program did not fit

Passes = list[ModulePass]


def stages(options: Options, remedies: Remedies | None = None) -> dict[Level, Passes]:
    """Level -> the passes that lead there from the level before, those of plugins at their places;
    with the remedies for the memory limit. Raises GeError for a plugin that cannot be loaded."""
    remedies = remedies or Remedies(options.memory_limit)
    passes = {
        Level.GRAPH: to_graph(options),
        Level.FUSED: to_fused(options, remedies),
        Level.TASKS: to_tasks(options, remedies),
        Level.BUFFERS: to_buffers(options, remedies),
        Level.PROGRAM: to_program(options, remedies),
    }
    disabled = options.fusion_disable
    passes = {level: list(enabled(ps, disabled)) for level, ps in passes.items()}
    for placed in placed_passes(*options.plugins):
        if placed.cls.name not in disabled:
            placed.insert(passes[placed.level])
    return passes


def bound_stages(options: Options, shapes: Mapping[str, Sequence[int]]) -> dict[Level, Passes]:
    """The passes from a program whose inputs are of unknown shapes to one whose have these. It is
    verified at its end alone, by rules that hold all those of the level before."""
    launches = [*bound_launches(options, shapes), *tile_programs(options, write=False)]
    return {Level.PROGRAM: [*launches, *stages(options)[Level.PROGRAM]]}


def bound_launches(options: Options, shapes: Mapping[str, Sequence[int]]) -> Passes:
    """Return the passes after which the launches of a bound program are final: streams and places
    come then."""
    bind = BindDimsPass(
        shapes=tuple(f"{n}={'x'.join(map(str, shape))}" for n, shape in shapes.items())
    )
    buffers = stages(options)[Level.BUFFERS]
    return [bind, *(p for p in buffers if not isinstance(p, BufferizeTasksPass))]


def enabled(passes: Iterable[ModulePass], disabled: Collection[str]) -> Iterator[ModulePass]:
    """Yield the passes, with the parts of sequences one by one, without those of disabled names."""
    for p in passes:
        if p.name not in disabled:
            yield from enabled(p.parts(), disabled) if isinstance(p, PassSequence) else (p,)


def pipeline(options: Options, levels: Sequence[Level] = tuple(Level)) -> Passes:
    """The passes that lead through some levels."""
    return [
        p
        for level, passes in stages(options).items()
        if level in levels
        for p in closed(level, passes, options)
    ]


def closed(level: Level, passes: Passes, options: Options) -> Passes:
    return [*passes, VerifyLevelPass(level)] if options.verify else passes


# ---- the stages ------------------------------------------------------------------------------


def to_graph(options: Options) -> Passes:
    return [
        *annotated(options),
        *to_calibrate(options),
        *([*partitioned(options), *clean_up(options)] if decides(options) else []),
        *quantized_cache(options),
        *grown(options),
        *(lowered_quantization(options) if options.precision == ORIGIN else []),
        *with_programs(options),
        *inlined(options),
        PrepareWeightsPass(stored=options.fusion != "off"),
        EliminateDeadCodePass(),
    ]


def annotated(options: Options) -> Passes:
    """Return the pass that states how values are cut over devices."""
    if not options.mesh and not options.shard:
        return []
    return [
        AnnotateShardingsPass(
            options.mesh, options.shard, options.pad, options.pipeline, options.microbatches
        )
    ]


def decides(options: Options) -> bool:
    """Return whether something is decided by running the model: on whole values, before these are
    cut."""
    return bool(options.quantize) or options.precision != ORIGIN


def partitioned(options: Options) -> Passes:
    """Return the passes that make one device's program of a module for many."""
    if not options.mesh:
        return []
    _, auto = without_auto(options.shard)
    partition = PartitionSpmdPass(options.target, auto, options.memory_limit)
    if options.fusion == "off":
        return [partition, EliminateDeadCodePass()]
    return [
        *composites(options),
        *moves(options),
        ShareCommonSubexpressionsPass(),  # what equal values are cut from is cut once
        partition,
        EliminateDeadCodePass(),
        MergeCollectivesPass(options.target),
        *([CutAttentionPass(options.target)] if options.chunks else []),
    ]


def moves(options: Options) -> Passes:
    """Return the passes after which little is moved that need not be, before values are cut."""
    exact = options.fusion in ("off", "conservative")
    return [] if options.fusion == "off" else [SimplifyMovementPass(exact=exact)]


def algorithms(options: Options) -> Passes:
    """Return the pass that chooses the algorithms of collectives."""
    if not options.mesh and not options.collective:
        return []
    return [ChooseAlgorithmsPass(options.target, options.collective)]


def with_programs(options: Options) -> Passes:
    """Return passes that bring graphs into the forms that tile programs are written for."""
    if not options.tiles or options.fusion == "off":
        return []
    expanded = [] if options.fusion == "conservative" else [ExpandLayersPass()]
    return [*expanded, TurnWeightsPass(options.target)]


def to_calibrate(options: Options) -> Passes:
    """The passes of the graph level up to the last that decides something from samples."""
    refined = precision(options) if options.precision != ORIGIN else []
    return [*to_quantized(options), *refined]


def to_quantized(options: Options) -> Passes:
    """The passes of the graph level up to quantize and dequantize around layers."""
    now = [] if decides(options) else partitioned(options)
    return [
        *to_partitioned(options),
        *(now or composites(options)),  # which are found before values are cut, too
        *clean_up(options),
        *composites(options),
        *for_target(options),
        *quantization(options),
    ]


def to_partitioned(options: Options) -> Passes:
    """The passes of the graph level on values as they are on all devices together."""
    pruned = options.outputs or options.drop_unused_inputs
    return [
        *([PruneOutputsPass(options.outputs, options.drop_unused_inputs)] if pruned else []),
        *([MarkStatePass(options.state)] if options.state else []),
        ShareEqualWeightsPass(),
        InferShapesPass(),
        *([] if any(options.gears) else [RelateDimsPass()]),  # of gears each says all sizes
        FoldConstantsPass(),
        *([SimplifyControlFlowPass()] if options.fusion != "off" else []),
        *([ExpandEinsumPass()] if options.fusion not in ("off", "conservative") else []),
    ]


def before_stages(options: Options) -> Passes:
    """The passes after which a program is cut into the stages of a pipeline."""
    return [*annotated(options), *to_partitioned(options), *moves(options)]


def for_target(options: Options) -> Passes:
    """Return passes that expand composites which the target cannot compute in one launch, or not as
    fast."""
    if options.fusion in ("off", "conservative"):
        return []
    return [ExpandAttentionPass(options.target), SortGroupsPass(options.target)]


def lowered_quantization(options: Options) -> Passes:
    exact = options.fusion in ("off", "conservative")
    if exact:
        return []
    lower = LowerQuantizationPass(options.target)
    return [ExpandLayersPass(quantized=True), lower, MatchQuantizedAttentionPass()]


def inlined(options: Options) -> Passes:
    """Return passes that have vector cores compute codes in few instructions, and kernels hold the
    biases and scales of integers as they hold biases of floats."""
    if not options.quantize:
        return []
    from ge.transforms.graph.inline_vectors import InlineVectorsPass
    from ge.transforms.quantization.narrow_codes import NarrowCodesPass

    exact = options.fusion in ("off", "conservative")
    return [*([] if exact else [NarrowCodesPass()]), InlineVectorsPass()]


def quantized_cache(options: Options) -> Passes:
    if not options.quantize_cache:
        return []
    from ge.transforms.quantization.quantize_cache import QuantizeCachePass

    return [QuantizeCachePass(options.quantize_cache)]


def grown(options: Options) -> Passes:
    """Return passes that make state that grows static, and the constants that follow simple."""
    if not options.state_capacity:
        if options.state_layout not in ("", "contiguous"):
            hint = "add --state-capacity, as in past=2048"
            raise GeError(f"state layout '{options.state_layout}' without a capacity", hint=hint)
        return []
    from ge.transforms.state.grow_state import GrowStatePass

    grow = GrowStatePass(options.state_capacity, options.state_layout)
    return [grow, FoldConstantsPass(), *clean_up(options)]


def precision(options: Options) -> Passes:
    """Return passes that lower quantization and choose the precision of all that is not of
    integers."""
    from ge.transforms.precision.refine_precision import RefinePrecisionPass

    accuracy = "" if options.quantize else options.accuracy  # which that of integers meets
    refine = RefinePrecisionPass("", options.precision, options.precision_clip, accuracy)
    return [*lowered_quantization(options), refine]


def quantization(options: Options) -> Passes:
    if not options.quantize:
        return []
    from ge.transforms.quantization.calibrate import CalibratePass
    from ge.transforms.quantization.choose_precision import ChoosePrecisionPass
    from ge.transforms.quantization.correct_bias import CorrectBiasPass
    from ge.transforms.quantization.equalize_channels import EqualizeChannelsPass
    from ge.transforms.quantization.fit_weights import FitWeightsPass
    from ge.transforms.quantization.insert_quantization import InsertQuantizationPass
    from ge.transforms.quantization.judge_attention import JudgeAttentionPass
    from ge.transforms.quantization.refine_weights import RefineWeightsPass
    from ge.transforms.quantization.search_ranges import SearchRangesPass
    from ge.transforms.quantization.smooth_activations import SmoothActivationsPass

    scheme = options.quantize
    smooth = SmoothActivationsPass(scheme=scheme)
    skip, target = options.quantize_skip, options.target
    floats = "" if options.precision == ORIGIN else MODES[options.precision].format
    choose = ChoosePrecisionPass("", scheme, skip, True, target, options.accuracy, floats=floats)
    insert = InsertQuantizationPass(scheme, skip, True, target)
    fit = [FitWeightsPass("", scheme, skip, True, target)] if options.fit_weights else []
    insertion = [*fit, choose, insert, CorrectBiasPass()]
    if not SCHEMES[scheme].activation_bits:
        refine = RefineWeightsPass("", scheme, skip, True, target)
        return [smooth, *([] if options.accuracy else [refine]), *insertion]
    equalize = EqualizeChannelsPass(scheme=scheme)
    search = SearchRangesPass("", scheme, options.ranges, target, skip)
    if SCHEMES[scheme].is_float:
        return [CalibratePass(), *insertion]
    if SCHEMES[scheme].is_dynamic:
        return [equalize, smooth, *insertion]
    judge = JudgeAttentionPass("", scheme, skip, target)
    return [CalibratePass(), equalize, smooth, search, judge, *insertion]


def composites(options: Options) -> Passes:
    """The passes that find composites in what exporters write out. They run before clean-up, which
    may break a pattern, and again after it, on the canonical form."""
    if options.fusion in ("off", "conservative"):
        return []
    return [
        ResolveShapesPass(),
        ShareCommonSubexpressionsPass(),
        FindActivationsPass(aggressive=options.fusion == "aggressive"),
        FindNormsPass(),
        FindGroupedMatmulPass(),
        FindRotaryPass(),
        FindSoftmaxPass(),
        FindAttentionPass(),
    ]


def clean_up(options: Options) -> Passes:
    if options.fusion == "off":
        return []
    exact = options.fusion == "conservative"
    return [
        SimplifyMovementPass(exact=exact),
        MoveTransposesPass(exact=exact),
        SimplifyAlgebraPass(exact=exact),
        SimplifyControlFlowPass(),
        DeduplicateConstantsPass(),
        ShareCommonSubexpressionsPass(),
        AbsorbTransposesPass(exact=exact),
        FoldBatchNormPass(exact=exact),
        *([] if exact else [SplitPointwiseConvsPass()]),
    ]


def to_fused(options: Options, remedies: Remedies) -> Passes:
    if options.fusion == "off":
        fusion: Passes = []
    else:
        target, aggressive = options.target, options.fusion == "aggressive"
        fewest, kept = aggressive or remedies.fuse, answers(options)
        fusion = [
            *([] if options.fusion == "conservative" else [KeepChannelsLastPass(target, kept)]),
            FuseLinearPass(target, answers=kept),
            FuseConvPass(target, answers=kept),
            FuseAttentionPass(target, answers=kept, exact=options.fusion == "conservative"),
            FuseNormPass(target, answers=kept),
            FuseRegionPass(target, recompute=aggressive, peak_memory=fewest, answers=kept),
        ]
        if recomputes(options, remedies) and remedies.elementwise:
            fusion.insert(0, RecomputeElementwisePass())
    fallback = options.dynamic_fallback
    gears: Passes = []
    if any(options.gears):
        gears = [ExpandGearsPass(*options.gears, fallback), SplitOversizedPass(options.target)]
    engines = [AssignEnginesPass(options.engine)] if options.engine else []
    return [*engines, *fusion, *gears, *([ExtractConcatsPass()] if options.memory else [])]


def recomputes(options: Options, remedies: Remedies) -> bool:
    return options.memory > 2 and remedies.slower > 1


def to_tasks(options: Options, remedies: Remedies) -> Passes:
    passes: Passes = [*algorithms(options), LowerToTasksPass(options.target)]
    if (options.memory > 1) != remedies.order:
        passes.append(OrderTasksPass(options.target))
    if remedies.recompute:
        limit = remedies.recompute
        passes.append(RematerializePass(options.target, SLOWER_FOR_LIMIT, limit))
    elif recomputes(options, remedies):
        passes.append(RematerializePass(options.target, remedies.slower))
    return passes


def to_buffers(options: Options, remedies: Remedies) -> Passes:
    passes: Passes = [BufferizeTasksPass(options.share_io), UpdateStatePass()]
    if options.memory:
        overwrite = OverwriteOperandsPass(no_reuse=options.no_reuse)
        passes += [WritePartsPass(), ReadPartsPass(), overwrite]
    if options.mesh and options.chunks:
        passes.append(SplitLaunchesPass(options.target, 0, True, answers(options)))
    if options.pieces:
        passes.append(SplitLaunchesPass(options.target))
    if remedies.spill:
        passes.append(SpillBuffersPass(remedies.spill, options.target, options.no_reuse))
    if options.merge_io:
        passes.append(MergeCopiesPass(options.target))
    return passes


def to_program(options: Options, remedies: Remedies) -> Passes:
    search = 0
    if options.memory >= 3:
        search = SEARCH_LONG
    elif options.memory:
        search = SEARCH_FOR_LIMIT if remedies.any else SEARCH_BRIEFLY
    return [
        AcknowledgeCollectivesPass(),
        ExpressSizesPass(),
        *(tile_programs(options) if options.tiles else []),  # their times are the schedule's
        AssignStreamsPass(options.target, frugal=remedies.any, answers=answers(options)),
        PlanMemoryPass(
            options.target,
            reuse=options.memory > 0,
            search=search,
            limit=remedies.limit,
            no_reuse=options.no_reuse,
            print_liveness=options.print_liveness,
            # what devices send each other is begun as early as memory allows
            waits=remedies.any or not options.mesh,
        ),
        PlanRangesPass(),
    ]


def tile_programs(options: Options, write: bool = True) -> Passes:
    """Return passes that write a program for the cores beside each kernel that they can, or have
    those alone that were written for all sizes."""
    from ge.lowering.steps.lower_kernels import LowerKernelsPass

    cache, tunings = tile_cache(options), options.tile_tunings
    return [LowerKernelsPass(options.target, True, cache, tunings, write)]


def tile_cache(options: Options) -> str:
    """The folder that keeps tile programs; empty: none does."""
    if options.tile_cache:
        return "" if options.tile_cache == "off" else options.tile_cache
    if options.cache_dir:
        return os.path.join(options.cache_dir, "tiles")
    return os.path.join(cache_folder(), "ge", "tiles")


def answers(options: Options) -> str:
    """The file beside programs that keeps what the library is asked about launches; empty: none
    does."""
    if not (folder := tile_cache(options)):
        return ""

    return os.path.join(folder, f"asked-{name_of(compiler())}.json")


# ---- what is left out ------------------------------------------------------------------------

# Passes that a program cannot do without, where the options have them run
REQUIRED = frozenset(
    (
        *("expand-gears", "split-oversized", "prune-outputs", "infer-shapes", "prepare-weights"),
        "annotate-shardings",
        *("lower-to-tasks", "bufferize-tasks", "spill-buffers", "assign-streams", "verify-level"),
        *("plan-memory", "assign-offsets", "check-capacity", "certify-plan"),
    )
)


def check_switches(options: Options, available: Collection[str]) -> None:
    """Raises GeError for the name of a rule to leave out that no pass and no rule has, and for
    that of a pass that cannot be left out."""
    for name in options.fusion_disable:
        if name in REQUIRED:
            hint = "passes and rules that only make the program better can be: ge-opt --list-rules"
            raise GeError(f"pass '{name}' cannot be left out: programs need it", hint=hint)
    unknown = [n for n in options.fusion_disable if n not in available]
    if not unknown:
        return
    known = rules()
    for name in unknown:
        if name not in known:
            near = get_close_matches(name, [*known, *available], 1)
            close = f"did you mean {near[0]}? " if near else ""
            hint = f"{close}the rules are {', '.join(known)}; passes: see ge-opt --list-passes"
            raise GeError(f"there is no rule '{name}' to leave out", hint=hint)
