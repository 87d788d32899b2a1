"""Every op of `@main` becomes the launch of a kernel.

    %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
    %0 = graph.matmul %x, %w : ...
becomes
    npu_task.kernel @matmul_0 on cube tiling <...> {
    ^bb0(%0: tensor<8x64xf32>, %1: tensor<64x32xf32>):
      %2 = graph.matmul %0, %1 : ...
      npu_task.return %2 : tensor<8x32xf32>
    }
  and in @main
    %w = npu_task.constant #graph.weight<"w"> as tensor<64x32xf32>
    %d = tensor.empty() : tensor<8x32xf32>
    %0 = npu_task.launch @matmul_0 ins(%x, %w : ...) outs(%d : ...) -> tensor<8x32xf32>

Equal ops (class, properties, types, wiring, small constants) share a kernel, which holds its small
constants. Control flow keeps its structure, views (`transforms/analysis/views.py`) stay graph ops.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.fused_op import ENGINE, PHASE, Body, FusedOp
from ge.dialects.graph.constant import ConstantOp as GraphConstantOp
from ge.dialects.graph.constant import small_constant
from ge.dialects.graph.control import AssumeShapeOp, CaseOp, IfOp, LoopOp, MapIndexOp, YieldOp
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import ConstantOp, KernelOp, LaunchOp, ReturnOp
from ge.dialects.support.diagnostics import error_at, warning
from ge.dialects.support.editing import detach, erase, replace_uses, set_operands
from ge.dialects.support.functions import main_function
from ge.dialects.support.operation import (
    all_ops,
    block_of,
    created,
    operands_of,
    ops_of,
    put_before,
    put_last,
)
from ge.dialects.support.tensor_op import TensorOp
from ge.dialects.support.types import is_dynamic, is_ranked, number_of
from ge.dialects.targets.target import DEFAULT_TARGET, Target, record_target
from ge.runtime.library.costs.structure import structure as body_structure
from ge.transforms.analysis.engines import choose_engine
from ge.transforms.analysis.views import view_offsets

# What keeps its form at this level
CONTROL = (IfOp, CaseOp, LoopOp, YieldOp, MapIndexOp, AssumeShapeOp, FuncReturnOp)


def structure(op: TensorOp, body: Body) -> Hashable:
    """Return a key that is equal for two ops that compute the same on operands of the same types,
    wired alike: for ops of equal class and properties, with equal members, for the same engines. An
    op whose members have regions equals no other."""
    properties = frozenset([(n, number_of(a)) for n, a in op.properties.items()])
    marked = [(i, m.attributes) for i, m in enumerate((op, *body.ops)) if m.attributes]
    engines = tuple([(i, number_of(a[ENGINE])) for i, a in marked if ENGINE in a])
    own = [m for m in body.ops if m.regions]
    inside = body_structure(body) if isinstance(op, FusedOp) else None
    return type(op), properties, engines, inside, *own


def base_name(op: Operation) -> str:
    return op.name.rpartition(".")[2]


@dataclass
class Lowering:
    """Lowers one function, collecting the kernels and constants it needs."""

    target: Target
    symbols: set[str]  # names that are taken
    kernels: dict[Hashable, KernelOp] = field(default_factory=dict[Hashable, KernelOp])
    constants: dict[Hashable, ConstantOp] = field(default_factory=dict[Hashable, ConstantOp])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def lower_function(self, func: FuncOp) -> None:
        """Lower the body; constants that launches read are put first, each once."""
        entry = func.body.block
        self.lower_block(entry)
        for op in all_ops((entry,)):
            if isinstance(op, GraphConstantOp):
                self.share_constant(op)
        if self.constants and entry.first_op is not None:
            entry.insert_ops_before(tuple(self.constants.values()), entry.first_op)

    def lower_block(self, block: Block) -> None:
        """Return launches for the ops of a block, except control flow, views and constants. Raises
        GeError at an op that no kernel is made of."""
        for op in ops_of(block):
            if isinstance(op, CONTROL):
                check_ranked(op)
                for region in op.regions:
                    self.lower_block(region.block)
            elif not isinstance(op, TensorOp):
                raise error_at(op, f"{op.name} is no graph op: it cannot be lowered to a launch")
            elif not isinstance(op, GraphConstantOp) and view_offsets(op) is None:
                self.launch(op)

    def launch(self, op: TensorOp) -> None:
        check_ranked(op)
        operands = operands_of(op)
        sunk = {v: c for v in operands if (c := small_constant(v)) is not None}
        inputs = list(dict.fromkeys([v for v in operands if v not in sunk]))
        numbers: dict[SSAValue, Hashable] = {v: i for i, v in enumerate(inputs)}
        for value, elements in sunk.items():
            numbers[value] = "constant", number_of(elements)
        body, wiring = Body.of(op), tuple([numbers[v] for v in operands])
        types = tuple([number_of(v.type) for v in (*inputs, *op.results)])
        kernel = self.kernels.get(key := (structure(op, body), wiring, types))
        engine = engine_of(op, body) if kernel is None else None
        assert op.parent is not None
        outs = [created(EmptyOp, (), [r.type]) for r in op.results if not is_dynamic(r.type)]
        name = self.new_name(op) if kernel is None else kernel.sym_name.data
        destinations = [r for e in outs for r in e.results]
        launch = LaunchOp(name, inputs, destinations, op.result_types)
        for new in (*outs, launch):
            put_before(op.parent, new, op)
            new.location = op.location
        for old, new in zip(op.results, launch.results_, strict=True):
            replace_uses(old, new)
        if engine is None:
            erase(op)
        else:
            detach(op, op.parent)
            block = body_of_kernel(op, inputs, sunk)
            kernel = self.kernels[key] = KernelOp(name, engine, block)
            kernel.location = op.location

    def new_name(self, op: TensorOp) -> str:
        base = base_name(op)
        number = self.counts.get(base, 0)
        while (name := f"{base}_{number}") in self.symbols:
            number += 1
        self.counts[base] = number + 1
        return name

    def share_constant(self, op: GraphConstantOp) -> None:
        """Replace the remaining uses of a constant by one that all launches share."""
        if op.result.first_use is not None:
            key = op.value, op.result.type
            if key not in self.constants:
                self.constants[key] = ConstantOp(*key)
                self.constants[key].location = op.location
            replace_uses(op.result, self.constants[key].result)
        erase(op)


def engine_of(op: TensorOp, body: Body) -> Engine:
    engine = choose_engine(op, body.ops)
    warn_of_engine(body.ops, engine)
    return engine


def body_of_kernel(
    op: TensorOp, inputs: Sequence[SSAValue], sunk: dict[SSAValue, DenseIntOrFPElementsAttr]
) -> Block:
    """The op, put behind constants of its own, on arguments."""
    block = block_of([v.type for v in inputs])
    inside: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for value, attr in sunk.items():
        constant = GraphConstantOp.make(attr, value.type)
        constant.location = _location(value)
        put_last(block, constant)
        inside[value] = constant.result
    set_operands(op, [inside[v] for v in operands_of(op)])
    put_last(block, op)
    put_last(block, created(ReturnOp, op.results))
    return block


def warn_of_engine(members: Sequence[TensorOp], engine: Engine) -> None:
    """Warn where fusion has put an op elsewhere than its user chose."""
    for member in members:
        chosen = member.attributes.get(ENGINE) if member.attributes else None
        if isinstance(chosen, StringAttr) and chosen.data != engine:
            warning(member, f"{member.name} runs on the {engine}, not on the {chosen.data}")


def check_ranked(op: Operation) -> None:
    for result in op.results:
        if not is_ranked(result):
            raise error_at(op, f"the number of dimensions of the result of {op.name} is not known")


def _location(value: SSAValue) -> LocationAttr:
    assert isinstance(value.owner, Operation)
    return value.owner.location


def symbols_of(module: ModuleOp) -> set[str]:
    names: list[Attribute | None] = [op.properties.get("sym_name") for op in module.ops]
    return {n.data for n in names if isinstance(n, StringAttr)}


@dataclass(frozen=True)
class LowerToTasksPass(ModulePass):
    """Turn every op of @main into the launch of a kernel, on an engine."""

    name = "lower-to-tasks"

    target: str = DEFAULT_TARGET
    """Preset name, or path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        for inner in all_ops(main.body.blocks):
            inner.attributes.pop(PHASE, None)  # launches are made
        lowering = Lowering(Target.load(self.target), symbols_of(op))
        lowering.lower_function(main)
        for kernel in lowering.kernels.values():
            op.body.block.insert_op_before(kernel, main)
        record_target(main, self.target)
