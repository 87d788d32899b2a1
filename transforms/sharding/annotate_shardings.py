"""State the mesh, and how values are cut over it, by rules: see `rules.py`.

    func.func @main(%x: tensor<8x16xf32> {graph.name = "x"}) -> (... {graph.name = "y"}) {
      %w = graph.constant #graph.weight<"w"> : tensor<16x32xf32>
      %0 = graph.matmul %x, %w
becomes, with `annotate-shardings{mesh="dp=2,tp=4" rules=rules.json}`,
    graph.mesh @mesh ["dp"=2, "tp"=4]
    func.func @main(%x: ... {graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}) -> ... {
      %w = graph.constant #graph.weight<"w"> : tensor<16x32xf32>
      %1 = graph.shard %w sharding <@mesh, [{}, {"tp"}]>
      %0 = graph.matmul %x, %1

Names are those of inputs, outputs and weights, and of values of the model (of a `.mlir`: of the op
that a value comes from, or the value's own in the text). Inputs and outputs get an attribute, other
values a `graph.shard` that all their users read. A value that a rule and the module state in two
ways is an error. So is, with or without rules, a sharding that does not hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.sharding import (
    PARAMETERS,
    SHARDING,
    MeshOp,
    ShardingAttr,
    ShardOp,
    StageOp,
    mesh_of,
    mesh_of_parts,
    sharding_of,
    sharding_text,
    whole_shape,
)
from ge.dialects.graph.stated import VALUES, name_of
from ge.dialects.support.diagnostics import listening, location_of, names_text, remark, warning
from ge.dialects.support.editing import names_in
from ge.dialects.support.errors import GeError
from ge.dialects.support.functions import main_function
from ge.dialects.support.mesh import Mesh, Sharding
from ge.dialects.support.operation import all_ops, created
from ge.dialects.support.tensor_op import name_loc
from ge.dialects.support.types import AnyTensor, type_shape
from ge.dialects.text.values import did_you_mean
from ge.transforms.sharding.checks import check_sharding, check_shardings
from ge.transforms.sharding.cut_batches import cut_batches, insert_behind
from ge.transforms.sharding.rules import ShardRules, agreed, asked, read_pipeline


@dataclass(frozen=True)
class AnnotateShardingsPass(ModulePass):
    """State the mesh, and how values are cut over it, by rules; check all shardings."""

    name = "annotate-shardings"

    mesh: str = ""
    """Axes and how many devices lie along each: dp=2,tp=4. Needed where the module has no mesh."""
    rules: str = ""
    """A file with shardings by names of values, or its text."""
    pad: bool = False
    """Whether inputs, outputs and weights may have parts of unequal size."""
    pipeline: str = ""
    """Stages of a pipeline, as in 4 or pp=4: the batch is cut into microbatches."""
    microbatches: int = 0
    """Parts of the batch, one after the other; by default as many as stages."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rules = asked(self.mesh, self.rules, self.pipeline, self.microbatches)
        if rules is None:
            rules = ShardRules(pipeline=self.pipeline, microbatches=self.microbatches)
        if (parts := mesh_of_parts(op)) is not None and not rules.shard:
            agreed(rules.mesh, parts)
            return  # the program of one device, in which all is said
        annotate(op, rules, self.pad)
        if rules.pipeline:
            cut_batches(op, rules.pipeline, rules.microbatches, rules.auto)
        elif not (rules.shard or rules.auto):
            warn_of_no_sharding(op)
        check_shardings(op, self.pad)


def annotate(module: ModuleOp, rules: ShardRules, pad: bool = False) -> None:
    """State the mesh and the shardings of rules in a module. Raises GeError."""
    if (main := main_function(module)) is None:
        return
    stated = mesh_of(module)
    mesh = agreed(rules.mesh, stated)
    if mesh is None:
        if rules.shard or rules.auto:
            hint = 'give --mesh dp=2,tp=4, or "mesh" in the rules'
            raise GeError("shardings are of a mesh, and none is given", rules.source, hint)
        return
    if stated is None:
        block = module.body.block
        first = block.first_op
        assert first is not None
        block.insert_op_before(MeshOp.of(mesh), first)
    places = Places(main)
    if rules.shard or rules.ends or rules.parameters:
        places.find()
    if rules.parameters is not None:
        places.check_weights(module, rules.parameters)
        module.attributes[PARAMETERS] = ArrayAttr([StringAttr(n) for n in rules.parameters])
    for name, sharding in places.chosen(rules):
        try:
            places.state(name, sharding, mesh, pad)
        except GeError as e:
            raise GeError(e.message, rules.source, e.hint) from None
        if listening():
            text = sharding_text(sharding)
            remark(main, f"'{name}' is cut as {text}")
    if rules.pipeline and rules.ends:
        places.end_stages(rules)
    elif rules.of_pipeline and not rules.pipeline:
        parts = " and ".join(rules.of_pipeline)
        warning(main, f"{rules.source}: nothing is made of {parts} without --pipeline")
    places.write()


def warn_of_no_sharding(module: ModuleOp) -> None:
    """Warn of a mesh over which no value is stated to be cut."""
    main, mesh = main_function(module), mesh_of(module)
    if main is None or mesh is None or mesh.count == 1:
        return
    tables = (*_tables(main.arg_attrs, 0), *_tables(main.res_attrs, 0))
    is_stated = any(isinstance(op, ShardOp) for op in all_ops(main.body.blocks))
    if not is_stated and not any(SHARDING in table for table in tables):
        text = f"nothing says how values are cut: all {mesh.count} devices compute the same"
        warning(main, f"{text}; give --shard rules.json, or --shard auto to search")


# ---- what there is to cut --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """A result of the main function, by its number."""

    index: int


Place: TypeAlias = OutputPlace | SSAValue

Attributes: TypeAlias = dict[str, Attribute]


class Places:
    """The inputs, outputs and values of a program that have names, to be cut."""

    def __init__(self, main: FuncOp) -> None:
        self.main = main
        self.arguments = _tables(main.arg_attrs, len(main.args))
        self.results = _tables(main.res_attrs, len(main.function_type.outputs))
        self.known: dict[str, Place] = {}
        self.doubtful: dict[str, int] = {}  # names of several values, and of how many

    def find(self) -> None:
        """Find the values that have names."""
        main = self.main
        for arg, table in zip(main.args, self.arguments, strict=True):
            self._add(name_of(table), arg)
        for i, table in enumerate(self.results):
            self._add(name_of(table), OutputPlace(i))
        ops = all_ops(main.body.blocks)
        for arg, table in zip(main.args, self.arguments, strict=True):
            for name in names_of_values(table):
                self._add(name, arg)
        for op in ops:
            for name, number in names_of_values(op.attributes).items():
                self._add(name, op.results[number])
            if isinstance(op, ConstantOp):
                self._add(op.key, op.result)
        self._add_by_text(ops)

    def _add(self, name: str | None, place: Place) -> None:
        """Add a place, unless the name is that of an input, an output, or a value of the model."""
        if name and name not in self.known:
            self.known[name] = place

    def _add_by_text(self, ops: Iterable[Operation]) -> None:
        """Add values by the nodes that they come from and by their own names in the text, where
        only one has the name."""
        more: dict[str, dict[SSAValue, None]] = {}
        for arg in self.main.args:
            more.setdefault(arg.name_hint or "", {})[arg] = None
        for op in ops:
            if len(op.results) == 1:
                value = op.results[0]
                for name in (*names_in(op.location), value.name_hint or ""):
                    more.setdefault(name, {})[value] = None
        for name, values in more.items():
            if len(values) == 1:
                self._add(name, next(iter(values)))
            elif name and name not in self.known:
                self.doubtful[name] = len(values)

    def chosen(self, rules: ShardRules) -> Iterator[tuple[str, Sharding]]:
        """Yield the names that rules are for. Raises GeError for a rule that is for none."""
        taken = {name for name in rules.shard if name in self.known}
        for rule, sharding in rules.shard.items():
            if rule in self.known:
                yield rule, sharding
                continue
            matched = [name for name in self.known if fnmatchcase(name, rule)]
            if not matched:
                raise self._no_value(rule, rules.source)
            yield from ((name, sharding) for name in matched if name not in taken)
            taken.update(matched)

    def check_weights(self, module: ModuleOp, names: Sequence[str]) -> None:
        """Warn of names that no weight has: the bytes of weights that are told leave them out."""
        weights = [
            name
            for name, place in self.known.items()
            if isinstance(place, SSAValue) and isinstance(place.owner, ConstantOp)
        ]
        for name in dict.fromkeys(names):
            if name not in weights:
                hint = did_you_mean(name, weights, "")
                warning(module, f"parameters: there is no weight '{name}'{hint}")

    def _no_value(self, rule: str, source: str) -> GeError:
        if rule in self.doubtful:
            what = f"{self.doubtful[rule]} values come from '{rule}'"
            return GeError(what, source, "write graph.shard behind the one that is meant")
        is_glob = set(rule) & set("*?[")
        what = f"no value is called like '{rule}'" if is_glob else f"there is no value '{rule}'"
        hint = did_you_mean(rule, list(self.known), f"; values: {names_text(self.known)}")
        return GeError(what, source, hint.removeprefix("; "))

    # ---- stating it

    def state(self, name: str, sharding: Sharding, mesh: Mesh, pad: bool) -> None:
        """State the sharding of a value, if it is not stated already. Raises GeError, without a
        place, for one that does not hold, or is another one than that which is stated."""
        place = self.known[name]
        table = self._table(place)
        type = self._type(place)
        if not isinstance(type, TensorType):
            raise GeError(f"the rank of '{name}' is not known", hint="fix shapes with --shape")
        shape = whole_shape(table or {}, type_shape(cast(AnyTensor, type)))
        is_weight = isinstance(place, SSAValue) and isinstance(place.owner, ConstantOp)
        crosses = table is not None or is_weight
        check_sharding(name, sharding, shape, mesh, even=crosses and not pad)
        rest = ((),) * (len(shape) - len(sharding.dims))
        sharding = replace(sharding, dims=(*sharding.dims, *rest))
        for op, other in self._stated(place, table):
            if replace(other.resolved(mesh), open=sharding.open) != sharding.resolved(mesh):
                ours, theirs = (sharding_text(s) for s in (sharding, other))
                where = location_of(op)
                where = where if where.line else "the module"
                what = f"'{name}' is cut as {ours} by the rules, and as {theirs} in {where}"
                raise GeError(what, hint="drop one of the two")
            return
        if table is not None:
            table[SHARDING] = ShardingAttr(sharding)
        elif isinstance(place, OpResult):
            _insert_shard(name, place, sharding)

    def _table(self, place: Place) -> Attributes | None:
        """The attributes of an input or output."""
        if isinstance(place, OutputPlace):
            return self.results[place.index]
        if isinstance(place, BlockArgument) and place.block is self.main.body.block:
            return self.arguments[place.index]
        return None

    def _type(self, place: Place) -> Attribute:
        if isinstance(place, OutputPlace):
            return self.main.function_type.outputs.data[place.index]
        return place.type

    def _stated(
        self, place: Place, table: Attributes | None
    ) -> Iterator[tuple[Operation, Sharding]]:
        """Yield the shardings that the module states of a place, and the ops that state them."""
        if table is not None:
            stated = sharding_of(table)
            yield from () if stated is None else ((self.main, stated),)
        elif isinstance(place, SSAValue):
            users = (use.operation for use in place.uses)
            for op in (place.owner, *users):
                if isinstance(op, ShardOp):
                    yield op, op.sharding.data

    def end_stages(self, rules: ShardRules) -> None:
        """State that users of the values with which stages end are in later ones."""
        _, count = read_pipeline(rules.pipeline)
        if len(rules.ends) not in (count - 1, count):
            what = f"stages_end_at has {len(rules.ends)} ends, and there are {count} stages"
            hint = f"state {count - 1} of them: the last stage ends with the outputs"
            raise GeError(what, rules.source, hint)
        for number, names in enumerate(rules.ends[: count - 1], 1):
            for name in names:
                if name not in self.known:
                    raise self._no_value(name, rules.source)
                place, last = self.known[name], self.main.body.block.last_op
                assert last is not None
                value = last.operands[place.index] if isinstance(place, OutputPlace) else place
                shards = [u.operation for u in value.uses if isinstance(u.operation, ShardOp)]
                if value.name_hint is None and SSAValue.is_valid_name(name):
                    value.name_hint = name  # it is sent by this name
                enter_stage(shards[0].result if shards else value, number)

    def write(self) -> None:
        """Write the attributes of inputs and outputs; names of values of the model go."""
        for table in (*self.arguments, *(op.attributes for op in self.main.walk())):
            table.pop(VALUES, None)
        self.main.arg_attrs = ArrayAttr([DictionaryAttr(t) for t in self.arguments])
        self.main.res_attrs = ArrayAttr([DictionaryAttr(t) for t in self.results])


def _tables(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[Attributes]:
    return [{} for _ in range(count)] if attributes is None else [{**t.data} for t in attributes]


def _insert_shard(name: str, value: OpResult, sharding: Sharding) -> None:
    new = created(ShardOp, (value,), [value.type], {"sharding": ShardingAttr(sharding)})
    new.location = name_loc(name)
    insert_behind(new, value)


def enter_stage(value: SSAValue, number: int) -> None:
    """State that the users of a value are in a stage, or in later ones."""
    new = created(StageOp, (value,), [value.type], {"number": IntegerAttr(number, i64)})
    insert_behind(new, value)


# ---- names of the model ----------------------------------------------------------------------


def names_of_values(table: Mapping[str, Attribute]) -> dict[str, int]:
    """The names that values have in the model, and their numbers, of an op or an argument."""
    stated = table.get(VALUES)
    items = stated.data.items() if isinstance(stated, DictionaryAttr) else ()
    return {name: n.value.data for name, n in items if isinstance(n, IntegerAttr)}


def name_values(main: FuncOp, values: Mapping[str, SSAValue]) -> None:
    """State the names of values in the model, for `annotate-shardings` to read and remove."""
    arguments = _tables(main.arg_attrs, len(main.args))
    for name, value in values.items():
        if isinstance(value, BlockArgument):
            table, index = arguments[value.index], value.index
        elif isinstance(value, OpResult):
            table, index = value.op.attributes, value.index
        else:
            continue
        numbers = {**names_of_values(table), name: index}
        table[VALUES] = DictionaryAttr({n: IntegerAttr(i, i64) for n, i in numbers.items()})
    main.arg_attrs = ArrayAttr([DictionaryAttr(t) for t in arguments])
