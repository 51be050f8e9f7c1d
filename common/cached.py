"""A property that is computed when it is first asked for.

That of functools holds a lock of its class meanwhile, before Python 3.12: threads that compile wait for one another, and in a
child that was forked while another thread computed one, whoever asks for it waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # as functools calls it
    """Works as functools' without its lock: two threads that ask at once may both compute the value."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function, self._name = function, function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type | None = None) -> Value: ...

    def __get__(self, owner: object | None, kind: type | None = None) -> Self | Value:
        if owner is None:
            return self
        value = self._function(owner)
        return owner.__dict__.setdefault(self._name, value)  # type: ignore[no-any-return]
