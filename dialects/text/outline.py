"""All that an op says, in the fewest characters: a text that equal ops have and no other ones, for
keys. It takes a fraction of the time of the text that is read back, since it needs no syntax."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation

from ge.dialects.support.operation import operands_of, ops_of
from ge.dialects.support.types import Dense
from ge.dialects.text.printing import text_printer


class Outline:
    """Writes outlines of ops without successors. `texts`: those of attributes, which are added to;
    others may have printed some of them."""

    def __init__(self, texts: dict[Any, str]) -> None:
        self.text_of = text_printer(StringIO(), attributes=texts).attribute_text

    def of(self, op: Operation, without: Iterable[str] = ()) -> str:
        """The outline of an op: all but its properties of these names, and the names of values."""
        properties = {n: a for n, a in op.properties.items() if n not in without}
        lines: list[str] = []
        self._add(op, properties, lines, {})
        return "\n".join(lines)

    def _add(
        self,
        op: Operation,
        properties: Mapping[str, Attribute],
        lines: list[str],
        numbers: dict[int, int],
    ) -> None:
        """The lines of an op. `numbers`: of values, by their ids, in the order of the text."""
        operands = [str(numbers.setdefault(id(v), len(numbers))) for v in operands_of(op)]
        results = [self.text_of(r.type) for r in op.results]
        for result in op.results:
            numbers.setdefault(id(result), len(numbers))
        kept = [self._dictionary(d) if d else "" for d in (properties, op.attributes)]
        lines.append(" | ".join((op.name, " ".join(operands), ", ".join(results), *kept)))
        for region in op.regions:
            lines.append("{")
            for block in region.blocks:
                self._add_block(block, lines, numbers)
            lines.append("}")

    def _add_block(self, block: Block, lines: list[str], numbers: dict[int, int]) -> None:
        for arg in block.args:
            numbers.setdefault(id(arg), len(numbers))
        lines.append("^" + ", ".join([self.text_of(arg.type) for arg in block.args]))
        for op in ops_of(block):
            self._add(op, op.properties, lines, numbers)

    def _dictionary(self, attributes: Mapping[str, Attribute]) -> str:
        return ", ".join([f"{n} = {self._said(a)}" for n, a in sorted(attributes.items())])

    def _said(self, attribute: Attribute) -> str:
        """The text of an attribute; for floats a hash of their bytes, as digits take long to
        find."""
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            return self.text_of(attribute)
        dense = cast(Dense, attribute)
        if not isinstance(dense.get_element_type(), AnyFloat):
            return self.text_of(dense)
        return f"{sha256(dense.data.data).hexdigest()} {self.text_of(dense.type)}"
