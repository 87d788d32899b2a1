"""Context variables that have a value inside of a `with` block."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def setting(variable: ContextVar[Any], value: T) -> Generator[T]:
    """Set the variable inside the `with` block, which gets the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
