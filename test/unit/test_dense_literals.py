"""Literals of constants are read as xDSL reads them, a list of numbers at once."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from ge.dialects.text.reading import DenseParser

LITERALS = (
    "dense<[1, -2, 0]> : tensor<3xi8>",
    "dense<[ -1 ,255\n, - 3]> : tensor<3xi64>",
    "dense<[1., -0.0, 2.5e-3, 7]> : tensor<4xf32>",
    "dense<[[1, 2], [3, 4], [-5, 6]]> : tensor<3x2xindex>",
    "dense<[[], []]> : tensor<2x0xi32>",
    "dense<[1, 0, 1]> : tensor<3xi1>",
    "dense<[true, false]> : tensor<2xi1>",
    "dense<[1, 2 // two\n]> : tensor<2xi32>",
    "dense<[(1, 2), (3, 4)]> : tensor<2xcomplex<i32>>",
)

WRONG = (
    "dense<[1, 1.5]> : tensor<2xi8>",
    "dense<[1, -1]> : tensor<2xui8>",
    "dense<[1, 300]> : tensor<2xi8>",
    "dense<[[1, 2], [3]]> : tensor<2x2xi8>",
    "dense<[1, 1e5]> : tensor<2xf32>",
    "dense<[1, 2,]> : tensor<2xi8>",
    "dense<[1, 2> : tensor<2xi8>",
)


def parser(kind: type[Parser], text: str) -> Parser:
    context = Context()
    context.load_dialect(Builtin)
    return kind(context, text)


@pytest.mark.parametrize("text", LITERALS)
def test_numbers_are_read(text: str) -> None:
    ours, upstream = (parser(kind, text + " x") for kind in (DenseParser, Parser))
    assert ours.parse_attribute() == upstream.parse_attribute()
    assert ours.pos == upstream.pos


@pytest.mark.parametrize("text", WRONG)
def test_errors_are_where_the_number_is(text: str) -> None:
    errors: list[Exception] = []
    for kind in (DenseParser, Parser):
        with pytest.raises((ParseError, ValueError, TypeError)) as error:
            parser(kind, text).parse_attribute()
        errors.append(error.value)
    assert str(errors[0]) == str(errors[1])
