"""Pipeline text -> passes, with errors that name the pass, the option and the expected type.

pipeline ::= `builtin.module` `(` passes `)` | `any` `(` passes `)` | passes
passes   ::= (pass (`,` pass)*)?
pass     ::= name (`{` options `}`)? | `mlir-opt` `[` text `]` | anchor `(` passes `)`
anchor   ::= the name of an op, on each of which in the op around the passes run | `any`
options  ::= (key (`=` value (`,` value)*)?)*, separated by blanks or commas
value    ::= `"` text `"` | `'` text `'` | characters other than blanks , = { } and quotes

Passes that run on ops below the module, as a nested pipeline asks for.

    builtin.module(func.func(cse,canonicalize))     each function by itself
    builtin.module(any(cse))                        each op that is isolated from above

xDSL's passes take a module. One that is nested gets each op in a module of its own, with the
attributes of the module around. That is right for passes that change a function by what stands in
it alone: those that say so (`LOCAL`), and those of xDSL that are listed here."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, ParameterType
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span

from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean

if TYPE_CHECKING:
    from ge.transforms.rewriting.passes import Relation


MODULE, FUNCTION, ANY = "builtin.module", "func.func", "any"

# Of xDSL's passes those that change an op by what stands in it alone
UPSTREAM = frozenset(
    """approximate-math-with-bitcast arith-add-fastmath canonicalize constant-fold-interp
    control-flow-hoist convert-arith-to-varith convert-linalg-to-loops convert-scf-to-cf
    convert-varith-to-arith cse dce empty-tensor-to-alloc-tensor expand-math-to-polynomials licm
    lift-arith-to-linalg linalg-fuse-multiply-add linalg-generalize-named-ops loop-hoist-memref
    lower-affine reconcile-unrealized-casts scf-for-loop-flatten scf-for-loop-range-folding
    scf-for-loop-unroll scf-parallel-loop-tiling shape-inference varith-fuse-repeated-operands
    vector-split-load-extract""".split()
)


def innermost(p: ModulePass) -> ModulePass:
    """The pass itself, of one that is nested."""
    return p.inner if isinstance(p, NestedPass) else p


def is_local(p: ModulePass) -> bool:
    """Return whether a pass changes a function by what stands in it alone."""
    if type(p).__module__.startswith("xdsl."):
        return p.name in UPSTREAM
    return bool(getattr(p, "LOCAL", False))


@dataclass(frozen=True)
class NestedPass(ModulePass):
    """A pass on the ops of one name (`any`: of any name) in those of the anchor before it, in the
    module. Its name and relation are those of the pass."""

    inner: ModulePass
    anchors: tuple[str, ...]

    @classmethod
    def of(cls, inner: ModulePass, anchors: tuple[str, ...]) -> "NestedPass":
        """Nest a pass in anchors. Raises GeError for one that cannot run on the innermost of the
        anchors."""
        from ge.transforms.rewriting.passes import FunctionPass  # with the dialect of functions

        anchor, name = anchors[-1], inner.name
        if anchor != MODULE and not is_local(inner):
            each = "any op" if anchor == ANY else f"each '{anchor}'"
            raise GeError(
                f"pass '{name}' runs on a whole '{MODULE}', it cannot run on {each} by itself",
                hint=f"write it outside of '{anchor}(...)'",
            )
        if isinstance(inner, FunctionPass) and anchor not in (MODULE, FUNCTION, ANY):
            raise GeError(
                f"pass '{name}' runs on '{FUNCTION}', it cannot run on '{anchor}'",
                hint=f"write '{FUNCTION}({name})'",
            )
        return cls(inner, anchors)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.name

    @property
    def RELATION(self) -> "Relation":
        from ge.transforms.rewriting.passes import relation_of

        return relation_of(self.inner)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on the anchors. Raises GeError if an anchor is no op that passes can run
        on."""
        for anchor in self.anchors:
            check_anchor(ctx, anchor)
        for target in list(ops_at(op, self.anchors)):
            if isinstance(target, ModuleOp):
                self.inner.apply(ctx, target)
            else:
                run_alone(self.inner, ctx, op, target)


def targets(p: ModulePass, module: ModuleOp) -> list[Operation]:
    return [*ops_at(module, p.anchors)] if isinstance(p, NestedPass) else [module]


def check_anchor(ctx: Context, name: str) -> None:
    if name == ANY:
        return
    kind = ctx.get_optional_op(name)
    if kind is None:
        known = sorted(o.name for o in ctx.loaded_ops if o.has_trait(IsolatedFromAbove))
        hint = did_you_mean(name, known)
        raise GeError(f"passes cannot run on '{name}': there is no such op{hint}")
    if not kind.has_trait(IsolatedFromAbove):
        raise GeError(f"passes cannot run on '{name}': it is not isolated from above")


def ops_at(op: Operation, anchors: tuple[str, ...]) -> Iterator[Operation]:
    """The ops that a path of anchors leads to: each of them stands right in one of those before."""
    if not anchors:
        yield op
        return
    for inner in (o for region in op.regions for block in region.blocks for o in block.ops):
        chosen = inner.has_trait(IsolatedFromAbove, value_if_unregistered=False)
        if inner.name == anchors[0] or (anchors[0] == ANY and chosen):
            yield from ops_at(inner, anchors[1:])


def run_alone(p: ModulePass, ctx: Context, module: ModuleOp, op: Operation) -> None:
    """Run a pass on one op of a module. Raises GeError if it leaves anything but one op of that
    name."""
    block, following = op.parent, op.next_op
    assert block is not None
    op.detach()
    attributes: dict[str, Any] = dict(module.attributes)
    alone = ModuleOp([op], attributes)
    left = [op]
    try:
        p.apply(ctx, alone)
        left = list(alone.ops)
    finally:
        for part in left:  # also where the pass failed: a report shows the module
            part.detach()
            if following is None:
                block.add_op(part)
            else:
                block.insert_op_before(part, following)
    if len(left) != 1 or left[0].name != op.name or dict(alone.attributes) != attributes:
        raise GeError(
            f"pass '{p.name}' changed more than the '{op.name}' that it was run on",
            hint=f"run it on '{MODULE}'",
        )


# Pass name -> function that imports and returns its class
PassTable = Mapping[str, Callable[[], type[ModulePass]]]

TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:\\.|[^"\\])*"|'[^']*')
          |(?P<word>[^\s,={}()\[\]"']+)
          |(?P<punctuation>[,={}()\[\]]))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class PassText:
    """One pass as written: its name and its options, not yet typed. `anchors` are the ops below
    the module, from the outside in, on which it runs: `func.func(cse)`."""

    name: str
    options: dict[str, tuple[str, ...]]
    anchors: tuple[str, ...] = ()
    span: Span[str] | None = dataclasses.field(default=None, compare=False)  # of the name

    def __str__(self) -> str:
        options = " ".join(
            f"{key.replace('_', '-')}{'=' * bool(values)}{','.join(map(_quote, values))}"
            for key, values in self.options.items()
        )
        return f"{self.name}{{{options}}}" if options else self.name


def _quote(value: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w-]*|-?\d+(\.\d+)?", value):  # what xDSL takes without quotes
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Reader:
    """Recursive descent over the tokens of a pipeline text."""

    def __init__(self, text: str, name: str) -> None:
        self.input = Input(text, name)
        self.text, self.position = text, 0

    def fail(self, message: str) -> ParseError:
        start = len(self.text) - len(self.text[self.position :].lstrip())
        return ParseError(Span(start, start + 1, self.input), message)

    def peek(self) -> str:
        match = TOKEN.match(self.text, self.position)
        return match[match.lastgroup or 0] if match is not None else ""

    def take(self) -> str:
        match = TOKEN.match(self.text, self.position)
        if match is None:
            raise self.fail("unexpected end of the pass pipeline")
        self.position = match.end()
        return match[match.lastgroup or 0]

    def expect(self, token: str, what: str) -> None:
        if self.peek() != token:
            raise self.fail(f"expected '{token}' {what}")
        self.take()

    def at_end(self) -> bool:
        return not self.text[self.position :].strip()

    def word(self, what: str) -> str:
        if not re.match(r"[\w.-]", self.peek()):
            raise self.fail(f"expected {what}")
        return self.take()

    def pipeline(self) -> Iterator[PassText]:
        """Return the passes of a whole text, whose anchor may be left out."""
        start = self.position
        if self.peek() in (MODULE, ANY):
            anchor = self.take()
            if self.peek() == "(":
                passes = list(self.nested(anchor))
                if self.at_end() or self.peek() == ")":  # one too many
                    yield from passes
                    return
                if anchor == MODULE:
                    raise self.fail("expected the end of the pass pipeline")
        self.position = start
        yield from self.passes()

    def passes(self) -> Iterator[PassText]:
        while self.peek() not in (")", ""):
            name = self.word("a pass name")
            span = Span(self.position - len(name), self.position, self.input)
            if self.peek() == "(":
                for text in self.nested(name):
                    yield replace(text, anchors=(name, *text.anchors))
            elif name == "mlir-opt" and self.peek() == "[":
                yield self.mlir_pipeline()
            elif self.peek() == "{":
                start = self.position
                self.take()
                options = dict(self.options())
                if self.peek() != "}":
                    what = "the '{' of these options is not closed" if self.at_end() else ""
                    self.position = start if what else self.position
                    raise self.fail(what or "expected '}' after the options of a pass")
                self.take()
                yield PassText(name, options, span=span)
            else:
                yield PassText(name, {}, span=span)
            if self.peek() != ",":
                return
            self.take()
            if self.peek() in (",", ")", ""):
                raise self.fail("expected a pass name after ','")

    def nested(self, name: str) -> Iterator[PassText]:
        start = self.position
        self.take()
        yield from self.passes()
        if self.at_end():
            self.position = start
            raise self.fail(f"the '(' behind '{name}' is not closed")
        self.expect(")", f"after the passes of {name}")

    def mlir_pipeline(self) -> PassText:
        """`mlir-opt[a,b{c=d}]` runs LLVM's tool; its pipeline is not ours to read."""
        self.take()
        end = self.text.find("]", self.position)
        if end < 0:
            raise self.fail("expected ']' after the pipeline of mlir-opt")
        passes = f"builtin.module({self.text[self.position : end].strip()})"
        self.position = end + 1
        arguments = ("--mlir-print-op-generic", "--allow-unregistered-dialect", "-p", passes)
        return PassText("mlir-opt", {"arguments": arguments})

    def options(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        while self.peek() not in ("}", ""):
            key = self.word("an option")
            values: list[str] = []
            if self.peek() == "=":
                self.take()
                values.append(self.value(key))
                while self.peek() == "," and not self.key_follows():
                    self.take()
                    values.append(self.value(key))
            yield key.replace("-", "_"), tuple(values)
            if self.peek() == ",":
                self.take()

    def key_follows(self) -> bool:
        """Return whether the comma at hand separates options (`a=1,b=2`), not values (`a=1,2`)."""
        return re.match(r"\s*,\s*[\w-]+\s*=", self.text[self.position :]) is not None

    def value(self, key: str) -> str:
        token = self.peek()
        if not token or token in ",={}()[]":
            raise self.fail(f"expected a value for option '{key}'")
        self.take()
        if token[0] == "'":
            return token[1:-1]
        return re.sub(r"\\(.)", r"\1", token[1:-1]) if token[0] == '"' else token


def read_pipeline(text: str) -> list[PassText]:
    """The passes that a pipeline text names. Raises ParseError."""
    reader = _Reader(text, "<pass-pipeline>")
    passes = list(reader.pipeline())
    if reader.peek() == ")":
        raise reader.fail("this ')' closes nothing")
    if not reader.at_end():
        raise reader.fail("expected ',' or the end of the pass pipeline")
    return passes


def read_options(text: str, name: str) -> dict[str, tuple[str, ...]]:
    """The options of one pass, as in `--plan-memory="alignment=512 method=greedy"`."""
    reader = _Reader(text, name)
    options = dict(reader.options())
    if not reader.at_end():
        raise reader.fail("expected an option")
    return options


# ---- types -----------------------------------------------------------------------------------


def type_text(t: Any) -> str:
    """A field's type as the user may write it: `int`, `int,...`, `exact|greedy`."""
    origin, args = get_origin(t), get_args(t)
    if origin is Literal:
        return "|".join(map(str, args))
    if origin in (Union, UnionType):
        return " or ".join(type_text(a) for a in args if a is not NoneType)
    if origin is tuple:
        inner = [type_text(a) for a in args if a is not Ellipsis]
        return f"{inner[0]},..." if Ellipsis in args else ",".join(inner)
    return getattr(t, "__name__", str(t))


def _scalar(value: str, t: Any) -> ParameterType | None:
    """The value as type `t`, None when it is not one."""
    origin = get_origin(t)
    if origin is Literal:
        return next((a for a in get_args(t) if str(a) == value), None)
    if origin in (Union, UnionType):
        items = (_scalar(value, a) for a in get_args(t) if a is not NoneType)
        return next((v for v in items if v is not None), None)
    if t is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower())
    try:
        return t(value) if t in (int, float, str) else None
    except ValueError:
        return None


def _convert(values: tuple[str, ...], t: Any) -> ParameterListType | None:
    """The values as field type `t`, None when they do not fit."""
    origin, args = get_origin(t), get_args(t)
    if origin in (Union, UnionType):
        if not values and NoneType in args:
            return ()
        fits = (_convert(values, a) for a in args if a is not NoneType)
        return next((v for v in fits if v is not None), None)
    if origin is tuple:
        types = [args[0]] * len(values) if Ellipsis in args else list(args)
        if len(types) != len(values):
            return None
        items = [_scalar(v, a) for v, a in zip(values, types, strict=True)]
        return tuple(i for i in items if i is not None) if None not in items else None
    if not values:
        return (True,) if t is bool else None
    item = _scalar(values[0], t) if len(values) == 1 else None
    return None if item is None else (item,)


def require_pass(name: str, available: PassTable) -> str:
    """The name, if there is such a pass. Raises GeError with a suggestion otherwise."""
    if name not in available:
        hint = did_you_mean(name, sorted(available), "; --list-passes lists them")
        raise GeError(f"unknown pass '{name}'{hint}")
    return name


@cache
def _type_hints(cls: type[ModulePass]) -> dict[str, Any]:
    return get_type_hints(cls)


def build_pass(text: PassText, available: PassTable) -> ModulePass:
    """The pass that a text names. Raises GeError for an unknown pass or option, or a value of
    the wrong type."""
    cls = available[require_pass(text.name, available)]()
    return _built(cls, text.name, tuple(text.options.items()))


@cache
def _built(
    cls: type[ModulePass], name: str, options: tuple[tuple[str, tuple[str, ...]], ...]
) -> ModulePass:
    """The pass of a class with these options. Passes are frozen, so equal texts share one: a
    pipeline is built again for each module of a process."""
    types = _type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name != "name"}
    typed: dict[str, ParameterListType] = {}
    for key, values in options:
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise GeError(
                f"pass '{name}' has no option '{key}'"
                + did_you_mean(key, list(fields), f" (it has: {known})")
            )
        value = _convert(values, types[key])
        if value is None:
            value_text = ",".join(values) or "no value"
            raise GeError(
                f"option '{key}' of pass '{name}' expects {type_text(types[key])}, got {value_text}"
            )
        typed[key] = value
    for key in sorted(cls.required_fields() & set(fields)):
        if key not in typed:
            raise GeError(f"pass '{name}' needs option '{key}' ({type_text(types[key])})")
    try:
        return cls.from_pass_spec(ArgSpec(name, typed))
    except ValueError as e:  # __post_init__ of the pass refuses the value
        raise GeError(f"pass '{name}': {e}") from None


def build_pipeline(passes: Iterable[PassText], available: PassTable) -> tuple[ModulePass, ...]:
    """The passes that texts name. Raises GeError as `build_pass`, and for a pass that cannot run
    on the ops that it is nested in; ParseError where the place in a pipeline's text is known."""
    return tuple(_build_placed(p, available) for p in passes)


def for_target(texts: Iterable[PassText], name: str, available: PassTable) -> list[PassText]:
    """Return the passes, with `name` for their option `target` if they have one that is not
    given."""
    found: list[PassText] = []
    for text in texts:
        if "target" not in text.options and text.name in available:
            fields = dataclasses.fields(available[text.name]())
            if any(f.name == "target" and f.init for f in fields):
                text = replace(text, options={**text.options, "target": (name,)})
        found.append(text)
    return found


def _build_placed(text: PassText, available: PassTable) -> ModulePass:
    try:
        built = build_pass(text, available)
        return NestedPass.of(built, text.anchors) if text.anchors else built
    except GeError as e:
        if text.span is None or e.where:
            raise
        message = f"{e.message}; {e.hint}" if e.hint else e.message
        raise ParseError(text.span, message) from e


def text_of(p: ModulePass) -> PassText:
    """The text that gives an equal pass when it is built again."""
    if isinstance(p, NestedPass):
        return replace(text_of(p.inner), anchors=p.anchors)
    options: dict[str, tuple[str, ...]] = {}
    for field in dataclasses.fields(p):
        value = getattr(p, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        stated = value != default or (field.name == "target" and value)  # what it is made for
        if field.init and field.name != "name" and stated:
            values = cast(tuple[Any, ...], value if isinstance(value, tuple) else (value,))
            options[field.name] = tuple(
                str(v).lower() if isinstance(v, bool) else str(v) for v in values
            )
    return PassText(p.name, options)


def pipeline_text(passes: Iterable[ModulePass]) -> str:
    return f"{MODULE}({_nest([text_of(p) for p in passes])})"


def top_level(passes: Iterable[ModulePass]) -> list[list[ModulePass]]:
    """The passes of a pipeline, those together that are in one nested pipeline."""
    found: list[list[ModulePass]] = []
    for anchor, group in groupby(passes, lambda p: text_of(p).anchors[:1]):
        found += [[*group]] if anchor else [[p] for p in group]
    return found


def _nest(texts: Iterable[PassText]) -> str:
    """The passes separated by commas; those with one outer anchor in a row in its parentheses."""
    parts: list[str] = []
    for anchor, group in groupby(texts, lambda t: t.anchors[:1]):
        if anchor:
            inner = _nest(replace(t, anchors=t.anchors[1:]) for t in group)
            parts.append(f"{anchor[0]}({inner})")
        else:
            parts += map(str, group)
    return ",".join(parts)
