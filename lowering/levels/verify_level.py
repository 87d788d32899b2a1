"""The pass that checks a module against the table of `level.py`, and dominance."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.elementwise import AddOp
from ge.dialects.graph.sharding import MeshOp
from ge.dialects.npu_task.ops import KernelOp, kernels_of
from ge.dialects.npu_task.pipeline import ReceiveOp, SendOp, stages_of
from ge.dialects.support.definitions import wrong_attributes
from ge.dialects.support.diagnostics import error_at
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import MAIN, functions
from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import DYNAMIC
from ge.dialects.targets.target import target_for
from ge.lowering.levels.dominance import check_dominance
from ge.lowering.levels.level import Legality, Level, legality
from ge.lowering.levels.rules import Rules, Surroundings, is_tile_program, tile_programs


def is_foreign(op: Operation) -> bool:
    """Return whether this is a tensor op of a plugin: it may stand where graph ops may."""
    return isinstance(op, TensorOp) and type(op) not in legality()[Level.FUSED].main


# In a kernel that was verified: the target and all that it consisted of then. What a kernel may be
# is the same at all levels that have kernels, and most stay as lower-to-tasks has made them.
_VERIFIED = "_ge_verified"


def parts_of(kernel: KernelOp) -> list[object]:
    """All parts of a kernel, in order: equal lists mean that the kernel was not changed between
    them."""
    parts: list[object] = [*kernel.properties.items()]
    for region in kernel.regions:
        add_parts(region, parts)
    return parts


def add_parts(region: Region, parts: list[object]) -> None:
    block = region.first_block
    while block is not None:
        parts += (block, *[arg.type for arg in block.args])
        for op in ops_of(block):
            results = [r.type for r in op.results]
            parts += (op, *operands_of(op), *results, *op.properties.items())
            if op.attributes:
                parts += op.attributes.items()
            for inner in op.regions:
                add_parts(inner, parts)
        parts.append(None)  # the block ends
        block = block.next_block


@dataclass
class Verification:
    """One walk over a module. Raises GeError at the first thing that is wrong."""

    level: Level
    around: Surroundings
    legal: Legality = field(init=False)
    fused: Legality = field(init=False)
    # Types that are legal where values may be `values`, by identity
    types: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    values: tuple[type[Attribute], ...] = ()  # what the values around may be
    passed: list[tuple[KernelOp, list[object]]] = field(
        default_factory=list[tuple[KernelOp, list[object]]]
    )
    unchanged: set[Operation] = field(default_factory=set[Operation])  # kernels, since verified

    def __post_init__(self) -> None:
        self.legal, self.fused = legality()[self.level], legality()[Level.FUSED]

    def fail(self, op: Operation, message: str) -> GeError:
        return error_at(op, f"not legal at the {self.level} level: {message}")

    def module(self, module: ModuleOp) -> None:
        for op in module.ops:
            if isinstance(op, FuncOp):
                self.function(op)
            elif isinstance(op, KernelOp) and self.legal.kernel:
                self.kernel(op)
            elif not isinstance(op, MeshOp | SendOp | ReceiveOp) and not (
                is_tile_program(op) and self.legal.kernel
            ):
                raise self.fail(op, f"{op.name} may not stand in a module")
        check_dominance(module, self.unchanged)
        for kernel, parts in self.passed:
            vars(kernel)[_VERIFIED] = parts

    def kernel(self, op: KernelOp) -> None:
        before: list[object] | None = vars(op).get(_VERIFIED)
        is_last = self.level is Level.PROGRAM and before is None
        parts = [] if is_last else [self.around.target, *parts_of(op)]
        if before is not None and op.tiles is None and before == parts:
            self.unchanged.add(op)
            return
        self.begin((TensorType,))
        self.block(op.body.block, self.legal.kernel, {})
        self.apply(op, self.legal.rules)
        if not is_last:
            self.passed.append((op, parts))

    def function(self, func: FuncOp) -> None:
        main = func is self.around.main
        name = f"@{func.sym_name.data}"
        for problem in wrong_attributes(func):
            raise error_at(func, problem)
        if len(func.body.blocks) > 1:
            raise self.fail(func, f"{name} has several blocks; use graph.if and graph.loop")
        if func.body.blocks:
            legal = self.legal if main else self.fused
            self.begin(legal.values)
            self.block(func.body.block, legal.main, legal.rules if main else {})
        elif main:
            raise self.fail(func, f"{name} has no body")

    def begin(self, values: tuple[type[Attribute], ...]) -> None:
        """A function or kernel begins, whose values may have these types."""
        if values != self.values:
            self.types.clear()
        self.values = values

    def block(self, block: Block, allowed: frozenset[type[Operation]], rules: Rules) -> None:
        self.check_types(block.args, block.parent_op())
        types = self.types
        for op in ops_of(block):
            if type(op) not in allowed and not (is_foreign(op) and AddOp in allowed):
                raise self.fail(op, f"{op.name} may not stand here")
            for result in op.results:
                if id(result.type) not in types:
                    self.check_types((result,), op)
            for region in op.regions:
                inner = self.fused.main if isinstance(op, FusedOp) else allowed
                for nested in region.blocks:
                    self.block(nested, inner, rules)
            if type(op) in rules:
                self.apply(op, rules)

    def apply(self, op: Operation, rules: Rules) -> None:
        for rule in rules.get(type(op), ()):
            for message in rule(op, self.around):
                raise self.fail(op, message)

    def check_types(self, values: Iterable[SSAValue], op: Operation | None) -> None:
        for value in values:
            t = value.type
            if id(t) in self.types:
                continue
            assert op is not None
            if not isinstance(t, self.values):
                raise self.fail(op, f"{op.name} defines a value of type {t}")
            self.types[id(t)] = t
            shape = getattr(t, "get_shape", None)
            for dim in () if shape is None else shape():
                if dim < 0 and dim != DYNAMIC:
                    raise self.fail(op, f"dimension {dim} of {t} is negative")


@dataclass(frozen=True)
class VerifyLevelPass(ModulePass):
    """Check that the module is legal at a level: graph, fused, tasks, buffers or program."""

    name = "verify-level"

    level: str
    """The level."""
    target: str = ""
    """Preset name, or path of a target file; empty: the target of lower-to-tasks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        level = Level.named(self.level)
        for stage in stages_of(op):
            self.apply(ctx, stage)
        if stages_of(op):
            return
        if (main := functions(op).get(MAIN)) is None:
            raise GeError(f"not legal at the {level} level: there is no function @main")
        target = target_for(main, self.target)
        around = Surroundings(main, target, kernels_of(op), tile_programs(op))
        Verification(level, around).module(op)
