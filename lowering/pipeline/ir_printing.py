"""The IR before and after passes: on a stream, or in a tree of files."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.support.errors import GeError
from ge.dialects.text.look import Look
from ge.dialects.text.printing import op_text
from ge.lowering.pipeline.nesting import innermost, targets
from ge.lowering.pipeline.pass_manager import Instrumentation
from ge.runtime.data.files import write_text

ALL = frozenset({"*"})


@dataclass
class IRPrinting(Instrumentation):
    """Prints the ops that passes run on, before and after the chosen ones; `*` chooses all. Of a
    nested pass an op is shown as it is once the pass has run on all. With `folder` each text is a
    file, `builtin_module_NAME/NUMBER_PASS.mlir` as mlir-opt has them.

    Raises GeError for a file that cannot be written."""

    before_passes: frozenset[str] = frozenset()
    after_passes: frozenset[str] = frozenset()
    only_changes: bool = False
    after_failure: bool = False  # these alone
    module_scope: bool = False  # the whole module, whatever the pass runs on
    folder: str = ""
    look: Look = field(default_factory=Look)
    _last: dict[int, str] = field(default_factory=dict[int, str])  # by the id of an op
    _numbers: dict[Path, int] = field(default_factory=dict[Path, int])

    def text(self, op: Operation) -> str:
        return op_text([*_around(op)][-1] if self.module_scope else op, self.look)

    def dump(self, when: str, p: ModulePass, op: Operation, text: str, failed: str = "") -> None:
        name = f"{type(innermost(p)).__name__.removesuffix('Pass')}{failed} ({p.name})"
        part = f" ('{op.name}' operation: {_symbol(op, '@')})" if op.parent is not None else ""
        where = part if self.module_scope else ""
        said = f"// -----// IR Dump {when} {name}{where} //----- //\n{text}\n"
        if not self.folder:
            print(said, file=sys.stderr)
            return
        place = self._place(op, p.name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            what = f"cannot write to '{place.parent}': {e.strerror}"
            raise GeError(what, hint="see --mlir-print-ir-tree-dir") from e
        write_text(place, said)

    def _place(self, op: Operation, name: str) -> Path:
        """A file for a text of an op: a folder for each op around it, and the number of the last
        text of each of these, as mlir-opt counts them: an op whose parts came first begins at 1."""
        folder, numbers = Path(self.folder), list[int]()
        for outer in [*_around(op)][::-1]:
            folder /= f"{outer.name.replace('.', '_')}_{_symbol(outer) or 'no-symbol-name'}"
            before = self._numbers.setdefault(folder, -1 if outer is op else 0)
            self._numbers[folder] = before + (outer is op)
            numbers.append(self._numbers[folder])
        return folder / f"{'_'.join(map(str, numbers))}_{name}.mlir"

    def before(self, p: ModulePass, module: ModuleOp) -> None:
        wanted = bool(self.before_passes & {p.name, "*"})
        if not wanted and not self.only_changes:
            return
        texts = [(op, self.text(op)) for op in targets(p, module)]
        self._last = {id(op): text for op, text in texts}
        for op, text in texts if wanted else ():
            self.dump("Before", p, op, text)

    def after(self, p: ModulePass, module: ModuleOp) -> None:
        if not self.after_passes & {p.name, "*"} or self.after_failure:
            return
        for op in targets(p, module):
            text = self.text(op)
            if not self.only_changes or text != self._last.get(id(op)):
                self.dump("After", p, op, text)

    def failed(self, p: ModulePass, module: ModuleOp, why: str) -> None:
        if self.after_failure or self.after_passes & {p.name, "*"}:
            self.dump("After", p, module, self.text(module), " Failed")


def _around(op: Operation) -> Iterator[Operation]:
    """An op and those around it, from the inside."""
    current: Operation | None = op
    while current is not None:
        yield current
        current = current.parent_op()


def _symbol(op: Operation, before: str = "") -> str:
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return f"{before}{name.data}".replace("/", "_") if isinstance(name, StringAttr) else ""
