"""The literals of constants, `dense<...>`: those that xDSL reads, and those that it does not."""

import re
from functools import cache
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    RankedStructure,
    i1,
)
from xdsl.irdl import AttrConstraint, base
from xdsl.parser import Parser
from xdsl.utils.lexer import Span

DENSE_LIMIT = 1 << 24  # elements of one `dense<...>`; xDSL expands even a splat
QUOTED = re.compile(r'<\s*"')  # bytes
NUMBER = r"-?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?"
NUMBERS = re.compile(rf"\[\s*{NUMBER}(?:\s*,\s*{NUMBER})*\s*\]")
ONE_NUMBER = re.compile(NUMBER)

Literal = tuple[list[Parser._TensorLiteralElement], list[int]]  # pyright: ignore[reportPrivateUsage]


class Bits(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A hexadecimal number in dense<...>, which for a float type gives the bits of the value.
    xDSL prints inf, nan and some large values so, but reads the number itself."""

    def to_type(self, parser: Any, type: AnyFloat | IntegerType | IndexType | ComplexType) -> Any:
        if not isinstance(type, AnyFloat) or self.is_negative:
            return super().to_type(parser, type)
        bits, size = self.to_int(parser), type.compile_time_size
        if bits.bit_length() > 8 * size:
            parser.raise_error(f"{type} has only {8 * size} bits", at_position=self.span)
        return type.unpack(bits.to_bytes(size, "little"), 1)[0]


DenseType = RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]


@cache
def dense_types() -> AttrConstraint[DenseType]:
    return base(DenseType)


def unpacked(text: str, count: int) -> list[int] | None:
    """The bits of a constant of `i1` that is given as bytes, eight bits in each, the lowest first;
    None where the text is something else."""
    digits = text.removeprefix("0x")
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits) or len(digits) // 2 != -(-count // 8):
        return None
    data = bytes.fromhex(digits)
    return [data[k // 8] >> k % 8 & 1 for k in range(count)]


class DenseParser(Parser):
    """Reads hexadecimal numbers as the bits of floats, and bytes as eight bits each."""

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[Any] | None
    ) -> DenseIntOrFPElementsAttr:
        """Parse elements as upstream does, which takes a byte of bits for one of them."""
        start = self.pos
        if QUOTED.match(self.lexer.input.content, start):
            self.parse_punctuation("<")
            text = self.parse_str_literal()
            self.parse_punctuation(">", " in dense attribute")
            shaped: Any = type
            if shaped is None:
                self.parse_punctuation(":", " in dense attribute")
                shaped = self._parse_dense_literal_type()
            if shaped.get_element_type() == i1:
                if (bits := unpacked(text, prod(shaped.get_shape()))) is not None:
                    return DenseIntOrFPElementsAttr.from_list(shaped, bits)
            self._resume_from(start)
        return super().parse_dense_int_or_fp_elements_attr(type)

    def _parse_tensor_literal(self) -> Literal:
        """Parse a literal as upstream does; a list of decimal numbers by one regular expression,
        not token by token."""
        input = self.lexer.input
        found = NUMBERS.match(input.content, self._current_token.span.start)
        if found is None:
            return super()._parse_tensor_literal()
        elements: list[Parser._TensorLiteralElement] = []
        for each in ONE_NUMBER.finditer(input.content, found.start(), found.end()):
            value = float(each[0]) if "." in each[0] else int(each[0])
            span = Span(each.start(), each.end(), input)
            elements.append(self._TensorLiteralElement(value < 0, value, span))
        self._resume_from(found.end())
        return elements, [len(elements)]

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        is_hexadecimal = self._current_token.text[:2] in ("0x", "0X")
        element = super()._parse_tensor_literal_element()
        if is_hexadecimal:
            return Bits(element.is_negative, element.value, element.span)
        return element

    def _parse_dense_literal_type(self) -> DenseType:
        """Parse a type as upstream does, which makes the constraint on types anew for each
        literal."""
        start = self.pos
        parsed = self.expect(self.parse_optional_type, "Dense attribute must be typed!")
        if not dense_types().verifies(parsed):
            self.raise_error(
                "Expected memref, vector or tensor type of integer, index, float, or complex type"
            )
        if DYNAMIC_INDEX in parsed.get_shape():
            self.raise_error("Dense literal attribute should have a static shape.")
        if (elements := prod(parsed.get_shape())) > DENSE_LIMIT:
            self.raise_error(
                f"{elements} elements are too many for dense<...>: keep them in the payload, "
                "as #graph.weight<...>",
                start,
                self.pos,
            )
        return parsed
