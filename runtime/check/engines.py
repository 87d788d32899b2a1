"""Which engine may run a kernel: matmuls the cube, shape arithmetic the host, the rest the vector
cores; and whose work on the cores is proved, by its tile program (`tiles.py`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.fused_op import FusedOp
from ge.dialects.graph.shape import is_shape_arithmetic
from ge.dialects.npu_task.attributes import Engine
from ge.dialects.npu_task.ops import KernelOp
from ge.dialects.npu_task.program_info import OPEN_TILES
from ge.dialects.support.types import is_dynamic
from ge.dialects.targets.target import Target
from ge.runtime.check.problems import Problem


def engine_problem(kernel: KernelOp) -> str | None:
    """Why the engine of a kernel cannot run it."""
    engine, op = kernel.engine.data, kernel.main
    members = op.members if isinstance(op, FusedOp) else [op]
    work = op.work()
    matmul = any(o.ALWAYS_MACS for o in members) if work is None else work.macs > 0
    if engine is Engine.DMA:
        return "DMA copies between host and device, and runs no kernel"
    if matmul and engine is not Engine.CUBE:
        return f"matmuls run on the cube, not on {engine}"
    multiplies = matmul or (work is None and any(o.IS_MATMUL for o in members))
    if engine is Engine.CUBE and not multiplies:
        return f"the cube computes matmuls, and there are none in {op.name}"
    shapes = all(is_shape_arithmetic(o) for o in members)
    if engine is Engine.HOST and not shapes and not any(is_dynamic(r.type) for r in op.results):
        return f"the host does shape arithmetic only, not {op.name}"
    return None


ON_CORES = Engine.CUBE, Engine.VECTOR


@dataclass
class CoreProof:
    """The kernels of a program by who says what they do on a core."""

    problems: list[Problem] = field(default_factory=list[Problem])
    programs: int = 0
    open: int = 0  # whose tile programs have sizes for arguments
    others: int = 0  # on cores, without a tile program

    @property
    def summary(self) -> Iterator[str]:
        """A clause for each kind of kernels that there are."""
        if self.programs:
            yield f"tile programs of {plural(self.programs)}"
        if self.open:
            programs = f"the tile programs of {plural(self.open)}, whose sizes are arguments"
            yield f"nothing yet of {programs}"
        if self.others:
            yield f"nothing of what {plural(self.others)} without a tile program keep on a core"


def plural(count: int) -> str:
    return f"{count} kernel{'s' * (count > 1)}"


def prove_cores(module: ModuleOp, target: Target) -> CoreProof:
    """Whether each kernel runs on an engine that can run it, on no more cores than there are."""
    proof = CoreProof()
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        engine, tiling = kernel.engine.data, kernel.tiling
        rule, problem = "K1", engine_problem(kernel)
        if problem is None and tiling is not None:
            rule, is_cube = "K2", len(tiling.sizes) == 3
            cores = target.cube_cores if is_cube else target.vector_cores
            if engine not in ON_CORES:
                problem = "has tiles, but runs on no core"
            elif not 1 <= tiling.blocks.data <= cores:
                kind = "cube" if is_cube else "vector"
                problem = f"has {tiling.blocks.data} blocks for {cores} {kind} cores"
        if problem is not None:
            text = f"@{kernel.sym_name.data}: {problem}"
            proof.problems.append(Problem(rule, text, kernel))
        is_open = OPEN_TILES in kernel.attributes
        proof.programs += kernel.tiles is not None
        proof.open += is_open
        proof.others += kernel.tiles is None and not is_open and engine in ON_CORES
    return proof
