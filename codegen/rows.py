"""Arguments whose elements do not all lie side by side: rows of a wider tensor, as what becomes a part of a concat.

    PitchedRows(length=64, pitch=192) of f32[56, 56, 64]:   64 elements, 128 of others, 64 elements, 128 of others, ...

The values of an argument and its shape are the same as ever: only where its elements are found differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class PitchedRows:
    """Elements that lie side by side, `length` of them in each row, from whose first to that of the next it is `pitch`."""

    length: int
    pitch: int

    def fit(self, shape: tuple[int, ...]) -> bool:
        """Says whether rows begin where points of some dimension do: else no stride leads from one to the next."""
        return self.length in _steps(shape) and prod(shape) % self.length == 0

    def end(self, elements: int) -> int:
        """The place behind the last of so many elements."""
        return max(0, (elements // self.length - 1) * self.pitch + self.length)


ArgumentRows = tuple[PitchedRows | None, ...]  # of each input, then of each output; () where all lie side by side


def strides_of(shape: tuple[int, ...], rows: PitchedRows | None = None) -> tuple[int, ...]:
    """The elements from one point of each dimension to the next: row-major, in rows that fit the shape."""
    inner = _steps(shape)
    if rows is None:
        return tuple(inner)
    return tuple(step if step < rows.length else step // rows.length * rows.pitch for step in inner)


def _steps(shape: tuple[int, ...]) -> list[int]:
    """The elements that a step along each dimension passes, if they lie side by side."""
    return [prod(shape[n + 1 :]) for n in range(len(shape))]
