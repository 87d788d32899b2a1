"""What is known of one op holds for those that are alike, and for no others."""

import pytest
from xdsl.dialects.builtin import StringAttr, TensorType, f32, i32, i64
from xdsl.dialects.test import TestOp as Unknown
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.activation import ReluOp
from ge.dialects.graph.linear import MatmulOp
from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.support import definitions
from ge.dialects.support.operation import created

T = TensorType(f32, [2, 2])
(X,) = Unknown(result_types=[T]).results
(N,) = Unknown(result_types=[i32]).results


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_known", {})


def test_an_op_like_a_known_one_with_something_else() -> None:
    known = SoftmaxOp.of(X, axis=1)
    known.verify()
    known.clone().verify()
    for name in [*known.properties]:
        without = known.clone()
        del without.properties[name]
        with pytest.raises(VerifyException):
            without.verify()
    more = known.clone()
    more.properties["more"] = StringAttr("x")
    with pytest.raises(VerifyException, match="property 'more' is not defined"):
        more.verify()
    known.properties["axis"] = StringAttr("1")
    with pytest.raises(VerifyException):
        known.verify()


def test_numbers_of_operands_and_their_types() -> None:
    ReluOp.of(X).verify()
    for operands, results in ([X, X], [T]), ([], [T]), ([X], [T, T]), ([N], [T]), ([X], [i64]):
        with pytest.raises(VerifyException):
            created(ReluOp, operands, results).verify()


def test_what_a_class_asks_itself_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    MatmulOp.of(X, X).verify()
    wrong = created(MatmulOp, [X, X], [TensorType(f32, [2, 3])], dict(MatmulOp.of(X, X).properties))
    with pytest.raises(VerifyException):
        wrong.verify()
    with pytest.raises(VerifyException):  # the second time too: what is wrong is not known
        wrong.verify()


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "KNOWN_LIMIT", 4)
    for size in range(1, 12):
        (x,) = Unknown(result_types=[TensorType(f32, [size])]).results
        ReluOp.of(x).verify()
    assert 0 < len(definitions._known) <= 4  # pyright: ignore[reportPrivateUsage]
