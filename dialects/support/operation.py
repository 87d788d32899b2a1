"""The base of all ops of ge: an xDSL op with a fast `isinstance` (not through ABCMeta, as for all
ops, values and attributes of xDSL), `__hash__`, `has_trait` and accessors, which compilation calls
millions of times.

Operands, results and regions that a class names are read straight from the op's tuples. xDSL's own
accessors make a view of all operands first, and unpack the sizes of segments each time.

    source = operand_def(...)   # xDSL: a view of op.operands, its item 0; here: op._operands[0]

xDSL reads assembly formats as it defines a class: two fifths of the time that a dialect takes to
load. Most texts have ops of a few classes; here the formats of others are never read, nor those of
xDSL's own dialects that ge loads.

xDSL's printer is called for each piece of a text. A printer of many ops at a time asks an op for
its whole line instead, and keeps the names itself (`dialects/text/printing.py`).
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from io import StringIO
from itertools import accumulate
from operator import attrgetter
from struct import unpack
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, UnknownLoc, i32
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    Region,
    SSAValue,
    SSAValues,
    Use,
)
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    OpDef,
    OptionalDef,
    VarIRConstruct,
)
from xdsl.irdl import operations as irdl
from xdsl.irdl.declarative_assembly_format import FormatDirective, FormatProgram, ParsingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import ParseError, PyRDLOpDefinitionError

from ge.dialects.support.constraints import PartsParser
from ge.dialects.support.definitions import with_known_definitions

Values: TypeAlias = Sequence[Any]

Read: TypeAlias = Callable[[Any], Any]

READERS: dict[VarIRConstruct, Callable[[Any], Values]] = {
    VarIRConstruct.OPERAND: attrgetter("_operands"),
    VarIRConstruct.RESULT: attrgetter("results"),
    VarIRConstruct.REGION: attrgetter("regions"),
}

# SSAValues has one of its own, which asks for the type of the index
item: Callable[[Values, int], Any] = cast(Any, tuple).__getitem__


def direct(accessor: Any) -> Any:
    """The accessor that a class has in place of one of xDSL's; any other object is returned
    unchanged."""
    if not isinstance(accessor, irdl.BaseAccessor | irdl.BaseAttrAccessor):
        return accessor
    values = READERS.get(accessor.construct)
    if values is None:
        return accessor
    if isinstance(accessor, irdl.BaseAttrAccessor):
        return property(_in_segments(accessor, values))
    return Indexed(accessor, values)


class Indexed(property, irdl.BaseAccessor):
    """Accessor of values whose places follow from their number. Formats ask for `index`."""

    indexed: Callable[[Values], Any]

    def __init__(self, accessor: irdl.BaseAccessor, values: Callable[[Any], Values]) -> None:
        property.__init__(self, _at_index(accessor, values))
        irdl.BaseAccessor.__init__(self, accessor.construct, accessor.idx)
        object.__setattr__(self, "indexed", accessor.index)

    def index(self, args: Values) -> Any:
        return self.indexed(args)


def _at_index(accessor: irdl.BaseAccessor, values: Callable[[Any], Values]) -> Read:
    index = accessor.idx
    if isinstance(accessor, irdl.AfterVariadicSingleAccessor):
        index -= accessor.num_defs
    elif not isinstance(accessor, irdl.BeforeVariadicSingleAccessor):
        return lambda op: accessor.index(values(op))
    return lambda op: item(values(op), index)


def _in_segments(accessor: irdl.BaseAttrAccessor, values: Callable[[Any], Values]) -> Read:
    """Reader of values for ops on which an attribute says how many values each definition has."""
    name, index = accessor.option.attribute_name, accessor.idx
    sizes_of: Callable[[Any], Mapping[str, Any]]
    sizes_of = attrgetter("properties" if accessor.option.as_property else "attributes")

    def ends(op: Any) -> tuple[int, ...]:
        sizes: DenseArrayBase = sizes_of(op)[name]
        return _ends(sizes.data.data)

    if isinstance(accessor, irdl.SingleAttrAccessor):
        return lambda op: item(values(op), ends(op)[index])

    def several(op: Any) -> Values:  # of launches, asked for all the time
        start, end = _ends(sizes_of(op)[name].data.data)[index : index + 2]
        return values(op)[start:end]

    def optional(op: Any) -> Any:
        start, end = ends(op)[index : index + 2]
        return item(values(op), start) if end > start else None

    return optional if isinstance(accessor, irdl.OptionalAttrAccessor) else several


@lru_cache(maxsize=4096)
def _ends(sizes: bytes) -> tuple[int, ...]:
    """The places where segments begin, and where the last one ends, for their sizes as i32."""
    return tuple(accumulate(unpack(f"<{len(sizes) // 4}i", sizes), initial=0))


class Format(FormatProgram):
    """A format that leaves constraints of types and properties to verification, which names the
    operand: xDSL asks them of a text for what variables of constraints stand for. Ops that have
    variables are read by its own program."""

    def resolve_constraint_variables(self, state: ParsingState, op_def: OpDef) -> None:
        pass


def has_variables(definition: OpDef) -> bool:
    values = (*definition.operands, *definition.results)
    constraints = (
        *(d.constr for _, d in values),
        *(d.constr for d in definition.properties.values()),
    )
    return any(c.variables() for c in constraints)


class Declared:
    """The format of a class of ops, read when it is first asked for."""

    def __init__(self, text: str, definition: OpDef) -> None:
        self.text, self.definition = text, definition

    @cached_property
    def program(self) -> FormatProgram:
        """Raises PyRDLOpDefinitionError for a format that makes no sense."""
        try:
            program = PartsParser(self.text, self.definition).parse_format()
        except ParseError as e:
            name = self.definition.name
            raise PyRDLOpDefinitionError(f"the assembly format of {name}: {e}") from e
        return program if has_variables(self.definition) else Format(program.stmts)


class Methods(NamedTuple):
    """The methods that a format gives to a class."""

    parse: Any  # a class method
    print: Callable[[Any, Printer], None]

    @classmethod
    def of(cls, declared: Declared) -> "Methods":
        def parse(kind: Any, parser: Parser) -> Any:
            return declared.program.parse(parser, kind)

        def print(self: Any, printer: Printer) -> None:
            declared.program.print(printer, self)

        return cls(classmethod(parse), print)


read_format = FormatProgram.from_str

OF_XDSL = "arith", "memref", "scf", "tensor"  # dialects of xDSL, whose formats make sense


class LateFormat(FormatProgram):
    """The format of a class of such a dialect, read when it is first asked for."""

    def __init__(self, text: str, definition: OpDef) -> None:
        vars(self).update(text=text, definition=definition)

    @cached_property
    def stmts(self) -> tuple[FormatDirective, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return read_format(vars(self)["text"], vars(self)["definition"]).stmts

    @staticmethod
    def from_str(input: str, op_def: OpDef) -> FormatProgram:
        is_late = op_def.name.partition(".")[0] in OF_XDSL
        return (LateFormat if is_late else read_format)(input, op_def)


FormatProgram.from_str = LateFormat.from_str

NOWHERE = UnknownLoc()

NO_VALUES: SSAValues[Any] = SSAValues()

FORMAT = "assembly_format"

NOTHING: Mapping[str, Attribute] = MappingProxyType({})

Trait = TypeVar("Trait", bound=OpTrait)


class Checked(ABCMeta):
    """Classes that do not ask `register` and `__subclasshook__` of abstract base classes."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def check_quickly(base: type[Any]) -> None:
    """Let a class of xDSL, and all that are made of it, be `Checked`."""
    if type(base) is ABCMeta:
        type.__setattr__(base, "__class__", Checked)
    for kind in type.__subclasses__(base):
        check_quickly(kind)


for _base in (Operation, SSAValue, Attribute, AttrConstraint, FormatDirective):
    check_quickly(_base)


class OpClass(Checked):
    """Op classes are checked as others are, and what they name is read from the op directly."""

    @property
    def assembly_format(cls) -> str | None:
        """The format of a class; of one that xDSL is about to define, none."""
        return cls._format if "get_irdl_definition" in vars(cls) else None

    @property
    def _format(cls) -> str | None:
        return next((vars(c)[FORMAT] for c in cls.__mro__ if FORMAT in vars(c)), None)

    def __setattr__(cls, name: str, value: Any) -> None:
        # xDSL sets what a definition becomes
        if name == "verify_":
            value = with_known_definitions(cast("type[GeOp]", cls).verify_more)
        super().__setattr__(name, direct(value))
        if name == "get_irdl_definition" and (text := cls._format) is not None:
            definition = cast("type[GeOp]", cls).get_irdl_definition()
            if definition.assembly_format is None:
                definition.assembly_format = text
                declared = Declared(text, definition)
                if not cls.__module__.startswith("ge."):
                    _ = declared.program  # reports a mistake of an author at once
                for method, made in Methods.of(declared)._asdict().items():
                    super().__setattr__(method, made)


def _announce(cls: type[object], attributes: Iterable[str]) -> None:
    """Python keeps the attributes of an object side by side, where they take little memory and time
    to read, as long as the first few objects of the class had these attributes. Some of an op or a
    value come later: its place, its users. So the first object of the class is made here,
    with all of them, and dropped."""
    first = object.__new__(cls)
    for name in attributes:
        with suppress(AttributeError):  # a class may have a property of that name
            object.__setattr__(first, name, None)


_OF_OPS = (
    "_operands", "_operand_uses", "results", "_successors", "_successor_uses", "properties",
    "attributes", "location", "regions", "parent", "_next_op", "_prev_op",
)  # fmt: skip

_announce(OpResult, ("_type", "op", "index", "first_use", "_name"))

_announce(BlockArgument, ("_type", "block", "index", "location", "first_use", "_name"))

_OF_BLOCKS = (
    "_args", "_first_op", "_last_op", "_next_block", "_prev_block", "parent", "first_use", "_name",
)  # fmt: skip

_announce(Block, _OF_BLOCKS)

# xDSL's own methods, which are functions of Python, say the same
for _kind in (OpResult, BlockArgument, Block, Operation, IRDLOperation):
    _kind.__hash__ = object.__hash__  # pyright: ignore[reportAttributeAccessIssue]
    _kind.__eq__ = object.__eq__  # pyright: ignore[reportAttributeAccessIssue]

_READ_LATE: set[type[Operation]] = set()  # classes whose ops make their regions when asked for


class GeOp(IRDLOperation, metaclass=OpClass):
    """The base: see the top of this file."""

    __eq__ = object.__eq__  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.verify_more = cls.verify_  # pyright: ignore[reportAttributeAccessIssue]
        _announce(cls, _OF_OPS)
        if isinstance(cls.regions, property):
            _READ_LATE.add(cls)

    def verify_more(self) -> None:
        """Verify what a class demands beyond its definition: `verify_` as the class wrote it.
        Raises VerifyException."""

    def __post_init__(self) -> None:
        for is_property, name, value in _defaults(type(self)):
            (self.properties if is_property else self.attributes).setdefault(name, value)

    @property
    def is_unread(self) -> bool:
        """True if the op's regions are still text, whose ops are made when they are asked for."""
        return False

    @classmethod
    def get_trait(cls, trait: type[Trait] | Trait) -> Trait | None:
        return cast("Trait | None", _trait(cls, trait))


FILLS = GeOp.__post_init__, IRDLOperation.__post_init__
"""Add properties and attributes that are defaults, and do nothing else."""


def initialize(
    op: Operation,
    operands: Iterable[SSAValue] = (),
    result_types: Iterable[Attribute] = (),
    properties: dict[str, Attribute] | None = None,
    attributes: dict[str, Attribute] | None = None,
    regions: Iterable[Region] = (),
) -> None:
    """Initialize an op like `Operation.__init__`, in a third of its time: for a new op without
    successors, which keeps the dictionaries."""
    values = SSAValues(operands)
    uses: list[Use] = []  # `list[Use]()` takes ten times as long
    for i, value in enumerate(values):
        uses.append(use := Use(op, i))
        if (first := value.first_use) is not None:  # as `value.add_use(use)`
            use._next_use = first  # pyright: ignore[reportPrivateUsage]
            first._prev_use = use  # pyright: ignore[reportPrivateUsage]
        value.first_use = use
    op._operands = values  # pyright: ignore[reportPrivateUsage]
    op._operand_uses = tuple(uses)  # pyright: ignore[reportPrivateUsage]
    results = [OpResult(t, op, i) for i, t in enumerate(result_types)]
    op.results = SSAValues(results) if results else NO_VALUES
    op.properties = {} if properties is None else properties
    op.attributes = {} if attributes is None else attributes
    op.location = NOWHERE
    op.regions = ()
    for region in regions:
        op.add_region(region)
    if (defaults := _filled(type(op))) is None:
        op.__post_init__()
        return
    for is_property, name, value in defaults:
        (op.properties if is_property else op.attributes).setdefault(name, value)


def block_of(types: Iterable[Attribute]) -> Block:
    """Return a block like `Block(arg_types=types)`, with one location for the arguments of all."""
    block = Block()
    args = [BlockArgument(t, block, i, NOWHERE) for i, t in enumerate(types)]
    block._args = tuple(args)  # pyright: ignore[reportPrivateUsage]
    return block


Op = TypeVar("Op", bound=Operation)


def created(
    kind: type[Op],
    operands: Iterable[SSAValue] = (),
    result_types: Iterable[Attribute] = (),
    properties: dict[str, Attribute] | None = None,
    regions: Iterable[Region] = (),
) -> Op:
    """Create an op like `kind.create`: see `initialize`."""
    op = kind.__new__(kind)
    initialize(op, operands, result_types, properties, None, regions)
    return op


Cloned = TypeVar("Cloned", bound=Operation)


def cloned(op: Cloned, values: dict[SSAValue, SSAValue]) -> Cloned:
    """Clone like `op.clone(values)`, in half of its time: for an op without successors and with at
    most one block in each region. The values of the clone are added to `values`."""
    new = type(op).__new__(type(op))
    regions = [_cloned_region(region, values) for region in op.regions]
    operands = [values.get(v, v) for v in operands_of(op)]
    types = [r._type for r in op.results]  # pyright: ignore[reportPrivateUsage]
    initialize(new, operands, types, op.properties.copy(), op.attributes.copy(), regions)
    new.location = op.location
    for old, result in zip(op.results, new.results, strict=True):
        values[old] = result
        result._name = old._name  # pyright: ignore[reportPrivateUsage]
    return new


def _cloned_region(region: Region, values: dict[SSAValue, SSAValue]) -> Region:
    if region.first_block is None:
        return Region()
    (block,) = region.blocks
    args = block.args
    new = block_of([a.type for a in args])
    for old, arg in zip(args, new.args, strict=True):
        values[old], arg.location = arg, old.location
        arg._name = old._name  # pyright: ignore[reportPrivateUsage]
    for op in ops_of(block):
        put_last(new, cloned(op, values))
    return Region(new)


@cache
def _trait(kind: type[GeOp], trait: type[OpTrait] | OpTrait) -> OpTrait | None:
    return super(GeOp, kind).get_trait(trait)


@cache
def _filled(kind: type[Operation]) -> list[tuple[bool, str, Attribute]] | None:
    """Attributes that `__post_init__` of a class adds to an op; None if it does something else,
    too."""
    if kind.__post_init__ not in FILLS:
        return None
    return _defaults(cast("type[IRDLOperation]", kind))


@cache
def _defaults(kind: type[IRDLOperation]) -> list[tuple[bool, str, Attribute]]:
    """Properties and attributes that an op has if nothing else is said."""
    definition = kind.get_irdl_definition()
    found: list[tuple[bool, str, Attribute]] = []
    for is_property, defs in ((True, definition.properties), (False, definition.attributes)):
        for name, d in defs.items():
            if not isinstance(d, OptionalDef) and d.default_value is not None:
                found.append((is_property, name, d.default_value))
    return found


# xDSL asks of each op that it puts into a block whether it is around that block. New ops are not.


def put_last(block: Block, op: Operation) -> None:
    """Add a new op like `block.add_op(op)`."""
    if (last := block._last_op) is None:  # pyright: ignore[reportPrivateUsage]
        block.add_op(op)
    else:
        put_after(block, op, last)


def put_after(block: Block, op: Operation, last: Operation) -> None:
    """Insert a new op like `block.insert_op_after(op, last)`."""
    op.parent = block
    if last._next_op is None:  # pyright: ignore[reportPrivateUsage]
        block._last_op = op  # pyright: ignore[reportPrivateUsage]
    last._insert_next_op(op)  # pyright: ignore[reportPrivateUsage]


def put_before(block: Block, op: Operation, after: Operation) -> None:
    """Insert a new op like `block.insert_op_before(op, after)`."""
    op.parent = block
    if after._prev_op is None:  # pyright: ignore[reportPrivateUsage]
        block._first_op = op  # pyright: ignore[reportPrivateUsage]
    after._insert_prev_op(op)  # pyright: ignore[reportPrivateUsage]


def operands_of(op: Operation) -> tuple[SSAValue, ...]:
    """`op.operands`, without the wrapper that keeps track of changes."""
    return op._operands  # pyright: ignore[reportPrivateUsage]


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """The operands of a block's last op, which its values leave by; none of an empty block."""
    return () if (last := block.last_op) is None else operands_of(last)


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block."""
    ops: list[Operation] = []
    op = block._first_op  # pyright: ignore[reportPrivateUsage]
    while op is not None:
        ops.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return ops


def count_ops(blocks: Iterable[Block]) -> int:
    """Number of ops in blocks and in the regions of their ops, except unread ones."""
    count, todo = 0, list(blocks)
    while todo:
        op = todo.pop()._first_op  # pyright: ignore[reportPrivateUsage]
        while op is not None:
            count += 1
            for region in regions_of(op) if type(op) in _READ_LATE else op.regions:
                block = region._first_block  # pyright: ignore[reportPrivateUsage]
                while block is not None:
                    todo.append(block)
                    block = block._next_block  # pyright: ignore[reportPrivateUsage]
            op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return count


def all_ops(blocks: Iterable[Block]) -> list[Operation]:
    """The ops of blocks and all ops in them, in the order of the text."""
    found: list[Operation] = []
    for block in blocks:
        for op in ops_of(block):
            found.append(op)
            for region in op.regions:
                found += all_ops(region.blocks)
    return found


def regions_of(op: Operation) -> tuple[Region, ...]:
    """The regions of an op, but for those that are unread. Not by way of `op.__dict__`: where that
    has been asked for, each attribute of the op takes longer to read from then on."""
    if type(op) in _READ_LATE and isinstance(op, GeOp) and op.is_unread:
        return ()
    return op.regions


def walk(op: Operation) -> Iterator[Operation]:
    """The op and all ops in it, but for those that are unread."""
    yield op
    for region in regions_of(op):
        for block in region.blocks:
            for inner in block.ops:
                yield from walk(inner)


@lru_cache(maxsize=4096)
@lru_cache(maxsize=4096)
def segments(*sizes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


class Names(Protocol):
    """An object that knows the texts of values and attributes."""

    def name_of(self, value: SSAValue) -> str: ...

    def attribute_text(self, attribute: Attribute) -> str: ...


class LineOp(GeOp):
    """An op that is one line of text."""

    @abstractmethod
    def line(self, names: Names, attributes: str) -> str:
        """The text behind the op's name. `attributes`: the text of those outside its definition, ""
        for none."""

    def print(self, printer: Printer) -> None:
        names = Captured(printer)
        attributes = names.text(lambda: printer.print_op_attributes(self.attributes))
        printer.print_string(self.line(names, attributes))


class Captured:
    """The texts that a printer prints."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def name_of(self, value: SSAValue) -> str:
        return self.text(lambda: self.printer.print_ssa_value(value))

    def attribute_text(self, attribute: Attribute) -> str:
        return self.text(lambda: self.printer.print_attribute(attribute))

    def text(self, write: Callable[[], object]) -> str:
        """Collect and return what `write` prints; the printer's stream does not get it."""
        printer = self.printer
        out, printer.stream = printer.stream, StringIO()
        try:
            write()
            return printer.stream.getvalue()
        finally:
            printer.stream = out
