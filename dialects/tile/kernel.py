"""The `tile` dialect: the program of one kernel on the cores of an NPU, instruction by instruction.

    // relu of 512x256 times 256x128, four cores, one of 128 rows each
    tile.kernel @gemm(%a: memref<512x256xf16>, %b: memref<256x128xf16>, %c: memref<512x128xf16>)
        cores 4 {
      tile.cube {
        %A = tile.alloc : !tile.ring<2 x 128x64xf16, l1>
        ...
        scf.for %k = %c0 to %c4 step %c1 {
          %slot = tile.slot %A[%k] : !tile.ring<2 x 128x64xf16, l1>
          %box = tile.view %a[%row, %col] : memref<512x256xf16> -> !tile.box<128x64xf16>
          tile.load %box to %slot
          ...

A kernel has a program for its cube cores (`tile.cube`), one for its vector cores (`tile.vector`),
or both, which talk by fifos. Each core runs its program from beginning to end: its scalar unit
computes indices and issues instructions to the core's pipes, which are queues that run side by
side; `tile.set` and `tile.wait` order them.

Cores meet nowhere but at a `tile.barrier`, and data that one of them stores for another lie in
memrefs that are the kernel's own, its workspace.

kernel.py     kernels, programs, barriers    buffers.py    buffers, views, fifos, numbers in memory
transfers.py  instructions that move data    compute.py    instructions that compute, and flags
"""

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
)
from xdsl.dialects.scf import ForOp, IfOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu_task.attributes import number
from ge.dialects.npu_task.ops import KernelOp as TaskKernelOp
from ge.dialects.npu_task.ops import LaunchOp
from ge.dialects.support.definitions import OP, TEXT, Stated
from ge.dialects.support.dims import parsed, symbols
from ge.dialects.support.element_types import bitwidth
from ge.dialects.support.operation import GeOp, initialize, ops_of, walk
from ge.dialects.support.types import DYNAMIC, align_up, byte_size
from ge.dialects.tile.buffers import (
    AllocOp,
    FifoOp,
    ReadOp,
    SlotOp,
    ViewOp,
    buffer_of,
    constant_index,
    reads_of,
)
from ge.dialects.tile.compute import MapOp
from ge.dialects.tile.instruction import INDEX_OPS, CoreProgram, Instruction, program_of
from ge.dialects.tile.transfers import LoadOp, PopOp, PushOp, StoreOp
from ge.dialects.tile.types import Memory, Pipe

INDEX = IndexType()
# Attributes of a kernel: what it is a program of, with open numbers, and the times of it
COMPUTES, ESTIMATES = "tile.computes", "tile.estimates"

STATED = {COMPUTES: Stated(TEXT, (OP,)), ESTIMATES: Stated(TEXT, (OP,))}

WORKSPACE_ALIGNMENT = 512  # of memrefs in it, as of other buffers


class ProgramOp(CoreProgram, ABC):
    """A program: `tile.cube` or `tile.vector`."""

    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (NoTerminator(), HasParent(KernelOp)))
    assembly_format = "attr-dict-with-keyword $body"

    def __init__(self, body: Block | Region):
        super().__init__(regions=[body if isinstance(body, Region) else Region(body)])

    @property
    def kind(self) -> str:
        """Kind of the cores that run it: "cube" or "vector"."""
        return self.name.removeprefix("tile.")

    @property
    def allocs(self) -> list[AllocOp]:
        return [op for op in ops_of(self.body.block) if isinstance(op, AllocOp)]

    @property
    def pipes(self) -> list[Pipe]:
        """The pipes that it issues instructions to."""
        used = {op.pipe() for op in ops_within(self.body) if isinstance(op, Instruction)}
        return [pipe for pipe in Pipe if pipe in used]

    def verify_(self) -> None:
        for op in ops_within(self.body):
            if isinstance(op, ForOp | IfOp) and op.results:
                raise VerifyException(f"{op.name} of a core carries no values")
            if isinstance(op, ForOp) and (step := constant_index(op.step)) is not None and step < 1:
                raise VerifyException(f"the step of a loop is at least 1, not {step}")
            if not isinstance(op, RUN) and op.name not in INDEX_OPS:
                raise VerifyException(f"{op.name} does not run on a core")


@irdl_op_definition
class CubeOp(ProgramOp):
    """The program of each cube core."""

    name = "tile.cube"
    MEMORIES: ClassVar = frozenset(Memory) - {Memory.UB}
    PIPES: ClassVar = frozenset((Pipe.MTE1, Pipe.MTE2, Pipe.M, Pipe.FIX))


@irdl_op_definition
class VectorOp(ProgramOp):
    """The program of each vector core. With `split 2` it runs on two vector cores beside each cube
    core, each of which pops and pushes its half of the rows of a tile in a fifo; `tile.part` is
    which.

        tile.vector split 2 {
          %s = tile.alloc : !tile.tile<64x128xf32, ub>
          tile.pop %scores to %s          // %scores has tiles of 128x128
    """

    name = "tile.vector"
    split = opt_prop_def(IntegerAttr[I64])
    assembly_format = "(`split` $split^)? attr-dict-with-keyword $body"
    MEMORIES: ClassVar = frozenset((Memory.UB,))
    PIPES: ClassVar = frozenset((Pipe.MTE2, Pipe.MTE3, Pipe.V))

    def __init__(self, body: Block | Region, split: int = 1):
        super().__init__(body)
        if split != 1:
            self.split = number(split)

    @property
    def parts(self) -> int:
        return 1 if self.split is None else self.split.value.data

    def verify_(self) -> None:
        super().verify_()
        if self.split is not None and self.parts < 2:
            raise VerifyException(f"a program is split between at least 2 cores, not {self.parts}")
        kernel = self.parent_op()
        if self.parts > 1 and isinstance(kernel, KernelOp) and kernel.cube is None:
            hint = "without a tile.cube all vector cores are `cores`"
            raise VerifyException(f"a tile.vector is split beside a tile.cube; {hint}")


class OwnNumberOp(GeOp, ABC):
    """A number that a core knows of itself."""

    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self):
        initialize(self, (), (INDEX,))


@irdl_op_definition
class PartOp(OwnNumberOp):
    """The number of this vector core among those beside one cube core, from 0 on."""

    name = "tile.part"

    def verify_(self) -> None:
        if isinstance(program_of(self), CubeOp):
            raise VerifyException("a cube core has no part: tile.vector is split")


@irdl_op_definition
class CoreOp(OwnNumberOp):
    """The number of this core, from 0 on. A cube core and the vector cores that it talks to have
    one number."""

    name = "tile.core"


@irdl_op_definition
class SizeOp(GeOp):
    """The size of a dimension that has a name, where the memrefs of a kernel have dimensions that
    are not known yet. A kernel that is bound to sizes has numbers instead.

        %n = tile.size "batch"
    """

    name = "tile.size"
    dim = prop_def(StringAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$dim attr-dict"

    def __init__(self, dim: str):
        super().__init__(result_types=[INDEX], properties={"dim": StringAttr(dim)})

    def verify_(self) -> None:
        if symbols(self.dim.data) != (self.dim.data,):
            raise VerifyException(f"'{self.dim.data}' is no name of a dimension")


@irdl_op_definition
class CoresOp(OwnNumberOp):
    """The number of cores that the kernel runs on."""

    name = "tile.cores"


@irdl_op_definition
class BarrierOp(GeOp):
    """All cores of the kernel meet, cube and vector cores: what each of them issued before is done,
    and stored where the others find it, when anything behind starts on any of them.

        tile.store %part to %mine        // of %w, the kernel's workspace
        tile.barrier
        tile.load %other to %t           // what another core stored
    """

    name = "tile.barrier"
    assembly_format = "attr-dict"


RUN = (
    *(Instruction, AllocOp, SlotOp, ViewOp, CoreOp, CoresOp, PartOp, SizeOp, ReadOp, BarrierOp),
    *(ForOp, IfOp, YieldOp),
)
"""What a program consists of, besides `INDEX_OPS`."""


@irdl_op_definition
class KernelOp(GeOp):
    """A kernel on memrefs in device memory, on a number of cores. Before its programs stand fifos
    and constants that both use. The last of its memrefs may be its workspace: each launch has them
    anew, unwritten, and nobody gives or gets them.

        tile.kernel @k(%x: memref<64xf32>) workspace(%w: memref<4x64xf32>) cores 4 { ... }

    Where sizes are its arguments, `sizes` says for each `?` of its memrefs, in order, what it is of
    dimensions that have names: `tile.size` gives those of one. It runs when it is bound to sizes.

        tile.kernel @k(%x: memref<?x64xf32>) sizes ["batch * past"] cores 4 { ... }
    """

    name = "tile.kernel"
    sym_name = prop_def(StringAttr)
    cores = prop_def(IntegerAttr[I64])
    workspaces = opt_prop_def(IntegerAttr[I64])  # how many of the memrefs they are
    sizes = opt_prop_def(ArrayAttr[StringAttr])  # of dimensions that are not known yet
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator())

    def __init__(self, name: str, cores: int, body: Block | Region, workspaces: int = 0):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "cores": number(cores),
                "workspaces": number(workspaces) if workspaces else None,
            },
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @property
    def core_count(self) -> int:
        return self.cores.value.data

    @property
    def arguments(self) -> Sequence[BlockArgument]:
        """The memrefs that a launch is given."""
        args = self.body.block.args
        return args[: len(args) - self.workspace_count]

    @property
    def workspace(self) -> Sequence[BlockArgument]:
        """The memrefs that a launch has for itself."""
        return self.body.block.args[len(self.arguments) :]

    @property
    def workspace_count(self) -> int:
        return 0 if self.workspaces is None else self.workspaces.value.data

    @property
    def is_open(self) -> bool:
        """True if sizes are arguments of the kernel: it has a dimension that is not known."""
        return self.sizes is not None

    @property
    def workspace_bytes(self) -> int:
        """Bytes of device memory of the workspace, each memref at a multiple of
        `WORKSPACE_ALIGNMENT`. Raises NotStatic if sizes are not known."""
        return sum(align_up(byte_size(a.type), WORKSPACE_ALIGNMENT) for a in self.workspace)

    @property
    def unchanged(self) -> "KernelOp":
        """This kernel, for callers that change nothing: unread ones of one text share an object."""
        return self

    @property
    def barriers(self) -> list[BarrierOp]:
        return [op for op in self.walk() if isinstance(op, BarrierOp)]

    @property
    def programs(self) -> list[ProgramOp]:
        return [op for op in self.body.block.ops if isinstance(op, ProgramOp)]

    @property
    def cube(self) -> CubeOp | None:
        return next((p for p in self.programs if isinstance(p, CubeOp)), None)

    @property
    def vector(self) -> VectorOp | None:
        return next((p for p in self.programs if isinstance(p, VectorOp)), None)

    @property
    def parts(self) -> int:
        """Number of vector cores that work beside each cube core."""
        return max(p.parts for p in self.programs)

    @property
    def units(self) -> list[tuple[ProgramOp, int]]:
        """The units with pipes of their own on a core: the program of each, and the number of a
        vector core beside the cube core."""
        return [(p, part) for p in self.programs for part in range(p.parts)]

    @property
    def cores_taken(self) -> dict[str, int]:
        """Number of cores of each kind that it runs on."""
        return {p.kind: p.parts * self.core_count for p in self.programs}

    @property
    def fifos(self) -> list[FifoOp]:
        return [op for op in self.body.block.ops if isinstance(op, FifoOp)]

    @classmethod
    def parse(cls, parser: Parser) -> "KernelOp":
        name = parser.parse_symbol_name().data
        locations: list[LocationAttr | None] = []

        def argument() -> Parser.Argument:
            found = parser.parse_argument()
            locations.append(parser.parse_optional_location())
            return found

        args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        own: list[Parser.Argument] = []
        if parser.parse_optional_keyword("workspace"):
            own = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        square, texts = Parser.Delimiter.SQUARE, None
        if parser.parse_optional_keyword("sizes"):
            texts = parser.parse_comma_separated_list(square, parser.parse_str_literal)
        parser.parse_keyword("cores")
        cores = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region([*args, *own])
        for arg, location in zip(region.block.args, locations, strict=True):
            arg.location = location or arg.location
        op = cls(name, cores, region, len(own))
        if texts is not None:
            op.sizes = ArrayAttr(map(StringAttr, texts))
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.arguments, printer.print_block_argument)
        if self.workspace:
            printer.print_string(" workspace")
            with printer.in_parens():
                printer.print_list(self.workspace, printer.print_block_argument)
        if self.sizes is not None:
            printer.print_string(" sizes ")
            printer.print_attribute(self.sizes)
        printer.print_string(f" cores {self.core_count}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        if self.core_count < 1:
            raise VerifyException(f"a kernel runs on at least one core, not {self.core_count}")
        for arg in self.body.block.args:
            check_argument(arg.type)
        shapes = [cast("MemRefType[Attribute]", a.type).get_shape() for a in self.body.block.args]
        self.check_sizes(sum(shape.count(DYNAMIC) for shape in shapes))
        if not 0 <= self.workspace_count <= len(self.body.block.args):
            raise VerifyException(f"{self.workspace_count} of its memrefs are its workspace")
        kinds = [type(p) for p in self.programs]
        if not kinds or len(set(kinds)) < len(kinds):
            raise VerifyException("a kernel has one tile.cube, one tile.vector, or both")
        for op in self.body.block.ops:
            if not isinstance(op, ProgramOp | FifoOp) and op.name not in INDEX_OPS:
                raise VerifyException(f"{op.name} stands in a program, not before it")
        for fifo in self.fifos:
            check_fifo(fifo)
        for op in self.walk():
            if isinstance(op, StoreOp) and reads_of(buffer_of(op.target)):
                raise VerifyException("a memref that tile.read reads is stored to")
            if isinstance(op, ReadOp) and op.source in self.workspace:
                raise VerifyException("tile.read reads what a kernel is given, no workspace")

    def check_sizes(self, unknown: int) -> None:
        """Raises VerifyException where `sizes` are not those of as many unknown dimensions."""
        texts = [] if self.sizes is None else [text.data for text in self.sizes]
        if len(texts) != unknown:
            raise VerifyException(
                f"{unknown} dimensions are not known, and `sizes` has {len(texts)}"
            )
        if wrong := [text for text in texts if parsed(text) is None]:
            raise VerifyException(f"'{wrong[0]}' is no expression of dimensions")
        named = next((op for op in self.walk() if isinstance(op, SizeOp)), None)
        if named is not None and not unknown:
            raise VerifyException(f"'{named.dim.data}' is a size, and all of its memrefs are known")


class MemrefUses(NamedTuple):
    """The memrefs that the programs of a kernel read, store to and add to."""

    read: set[SSAValue]  # loaded from, or numbers in it
    stored: set[SSAValue]
    added: set[SSAValue]

    @classmethod
    def of(cls, kernel: KernelOp) -> "MemrefUses":
        uses = cls(set(), set(), set())
        for op in kernel.walk():
            if isinstance(op, LoadOp | ReadOp):
                uses.read.add(buffer_of(op.source))
            elif isinstance(op, StoreOp):
                (uses.added if op.is_atomic else uses.stored).add(buffer_of(op.target))
        return uses


def check_argument(t: Attribute) -> None:
    if not isinstance(t, MemRefType):
        raise VerifyException(f"arguments of a kernel are memrefs, not {t}")
    memref = cast("MemRefType[Attribute]", t)
    if not memref.get_shape():
        raise VerifyException(f"arguments have at least one dimension, not {t}")
    if not isinstance(memref.layout, NoneAttr) or not isinstance(memref.memory_space, NoneAttr):
        raise VerifyException(f"arguments are dense, without memory space or layout, not {t}")
    bitwidth(memref.element_type)


def ops_within(region: Region) -> Iterator[Operation]:
    """The ops that a core runs, loops and branches before their bodies; not those of maps."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            if not isinstance(op, MapOp):
                for inner in op.regions:
                    yield from ops_within(inner)


def check_fifo(fifo: FifoOp) -> None:
    """Raises VerifyException unless one program pushes and the other pops."""
    sides: dict[type[Operation], set[CoreProgram]] = {PushOp: set(), PopOp: set()}
    for use in fifo.result.uses:
        if (program := program_of(use.operation)) is not None:
            sides[type(use.operation)].add(program)
    if [len(s) for s in sides.values()] != [1, 1] or sides[PushOp] == sides[PopOp]:
        raise VerifyException("one program pushes to a fifo, and the other pops from it")


def workspace_bytes(module: ModuleOp) -> int:
    """Bytes of the workspaces of all streams of a program, for the tile programs that its launches
    name. Launches on one stream come one after the other, so they share one workspace, as large as
    the largest. It is no part of the arena: tile programs are written when that is planned."""
    programs = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    if not any(program.workspace_bytes for program in programs.values()):
        return 0
    tiles = {
        op.sym_name.data: programs[op.tiles.data].workspace_bytes
        for op in module.ops
        if isinstance(op, TaskKernelOp) and op.tiles is not None and op.tiles.data in programs
    }
    largest: dict[int, int] = {}
    for op in walk(module):
        if isinstance(op, LaunchOp):
            stream = 0 if op.stream is None else op.stream.value.data
            largest[stream] = max(largest.get(stream, 0), tiles.get(op.callee, 0))
    return sum(largest.values())
