"""Work counted in steps, which are the same on every machine: modules that are imported after
`count_in` count what each of their functions does.

A step is a call, a round of a loop or of a comprehension, or an element that an expression goes
through at once, without a call that a profiler sees: a slice, a copy, a sum of sequences, `in`, a
method that searches.
"""

import ast
import builtins
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, cast

WHOLE = {"list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max"}
FROM_RECEIVER = {"index", "remove", "insert", "copy", "count"}
FROM_ARGUMENTS = {"extend", "update", "union", "difference", "intersection", "join"}
SIZED = (list, tuple, set, frozenset, dict, str, bytes)

functions: list[str] = []  # their names, by number
steps: list[int] = []  # of each function


def step(number: int, count: int = 1) -> bool:
    steps[number] += count
    return True


def through(number: int, value: Any) -> Any:
    """Returns the value, of which each element is looked at or copied."""
    if type(value) in SIZED:
        steps[number] += len(value)
    return value


def skipped(number: int, start: Any) -> Any:
    """Returns the start of an islice, which goes through all elements before it."""
    if isinstance(start, int):
        steps[number] += start
    return start


def searched(number: int, value: Any) -> Any:
    """Returns the value, in which something is looked for one element after the other."""
    if type(value) in (list, tuple):
        steps[number] += len(value)
    return value


class Counting(ast.NodeTransformer):
    """Puts calls of the functions above into the syntax tree of a module."""

    def __init__(self, module: str) -> None:
        self.names, self.numbers = [module], list[int]()

    def call(self, name: str, *args: ast.expr) -> ast.expr:
        if not self.numbers:  # what a module does when it is imported
            return args[0]
        number = ast.Constant(self.numbers[-1])
        return ast.Call(ast.Name(f"__{name}__", ast.Load()), [number, *args], [])

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.names.append(node.name)
        node.body = [self.visit(each) for each in node.body]
        self.names.pop()
        return node

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        self.names.append(node.name)
        self.numbers.append(len(functions))
        functions.append(".".join(self.names))
        steps.append(0)
        node.body = [self.visit(each) for each in node.body]
        first = node.body[0]
        has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        node.body.insert(int(has_text), ast.Expr(self.call("step")))
        self.numbers.pop()
        self.names.pop()
        return node

    def visit_loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if self.numbers:
            node.body.insert(0, ast.Expr(self.call("step")))
        return node

    visit_For = visit_While = visit_loop

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if self.numbers:
            node.ifs.insert(0, self.call("step"))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Match(self, node: Any) -> ast.AST:  # its patterns stay
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = case.guard and self.visit(case.guard)
            case.body = [self.visit(each) for each in case.body]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        copies = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return self.call("through", node) if copies else node

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self.call("through", node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        for i, op in enumerate(node.ops):
            if isinstance(op, ast.In | ast.NotIn):
                node.comparators[i] = self.call("searched", node.comparators[i])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        makes = isinstance(node.op, ast.Add | ast.BitOr | ast.BitAnd | ast.Sub)
        return self.call("through", node) if makes else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in WHOLE and len(node.args) == 1:
            node.args = self.all_of(node.args)
        elif isinstance(node.func, ast.Name) and node.func.id == "islice" and len(node.args) > 2:
            node.args[1] = self.call("skipped", node.args[1])
        elif isinstance(node.func, ast.Attribute) and node.func.attr in FROM_RECEIVER:
            node.func.value = self.call("searched", node.func.value)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in FROM_ARGUMENTS:
            node.args = self.all_of(node.args)
        return node

    def all_of(self, args: Sequence[ast.expr]) -> list[ast.expr]:
        counted = (ast.Starred, ast.GeneratorExp)  # elsewhere
        return [a if isinstance(a, counted) else self.call("through", a) for a in args]


def count_in(*packages: str) -> None:
    """Let modules with these beginnings of names count when they are imported from now on."""
    for function in (step, through, skipped, searched):
        setattr(builtins, f"__{function.__name__}__", function)
    plain = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        if not fullname.startswith(packages):
            return plain(self, fullname)
        path = self.get_filename(fullname)
        tree = Counting(fullname).visit(ast.parse(self.get_data(path)))
        return cast(CodeType, compile(ast.fix_missing_locations(tree), path, "exec"))

    importlib.machinery.SourceFileLoader.get_code = get_code


def taken() -> Iterator[tuple[str, int]]:
    """Functions and the steps that they took since this was called last."""
    for number, count in enumerate(steps):
        if count:
            steps[number] = 0
            yield functions[number], count


def calls(function: Callable[[], object]) -> int:
    """How many functions of Python a call of one takes: the same on every machine."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
