"""Memoisation of facts about a stage or a program, on the object itself: rules and cost models ask for them again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_NONE = object()


def remembered(function: F) -> F:
    """Makes a function of a stage or a program, and of what can be hashed, work out each result once.

    Results live as long as what they are about, and are shared: nobody may change them.
    """

    @wraps(function)
    def found(about: Any, *others: Hashable) -> Any:
        known = about.__dict__.get("_known")
        if known is None:
            known = about.__dict__["_known"] = {}
        key = (function, *others)
        result = known.get(key, _NONE)
        if result is _NONE:
            result = known[key] = function(about, *others)
        return result

    return found  # type: ignore[return-value]
