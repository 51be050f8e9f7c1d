"""What a primitive is to those that read, trace and run steps: a function and the kinds of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..loops import LoopTree


@dataclass(frozen=True, slots=True)
class StepKind:
    """A primitive: its function, and what its arguments are: l loop, s stage, t tensor, n name, w word, e extent.

    `*` behind the last letter: one or more of it. `?`: it may be left out.
    """

    function: Callable[..., LoopTree]
    arguments: str

    def kinds(self, count: int) -> str:
        """The letters of `count` arguments. ValueError for a number that does not fit."""
        letters = self.arguments.rstrip("*?")
        least = len(letters) - self.arguments.endswith("?")
        if count < least or (count > len(letters) and not self.arguments.endswith("*")):
            raise ValueError(f"{self.function.__name__} takes {least} arguments, found {count}")
        return letters[:count] + letters[-1] * (count - len(letters))
