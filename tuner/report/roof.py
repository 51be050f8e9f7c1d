"""The roofline of a task: the peak of its arithmetic, and the bandwidth into each cache from the one behind it."""

from __future__ import annotations

from dataclasses import dataclass

from ...targets.ceilings import Ceilings
from ...targets.target import Target
from ..roofline import Work

_FAR = 1 << 40  # bytes that no cache holds


@dataclass(frozen=True, slots=True)
class Slope:
    """A speed at which bytes come: into which cache, where from, bytes per second."""

    into: str
    source: str
    speed: float


@dataclass(frozen=True, slots=True)
class Roof:
    """The roofline of a task.

    flops: operations that the program needs; bytes: those that it must move.
    peak: operations per second of its mix on vectors; highest: on a matrix unit, where that is more.
    slopes: one for each cache, nearest first.
    """

    flops: int
    bytes: int
    peak: float
    highest: float
    slopes: tuple[Slope, ...]


def roof_of(work: Work, target: Target, threads: int, ceilings: Ceilings) -> Roof:
    """Returns the roofline for a program's work."""
    vectors = work.arithmetic_seconds(ceilings)
    fastest = sum(count / ceilings.highest(dtype) for dtype, count in work.operations)
    peak, highest = (work.flops / seconds if seconds else 0.0 for seconds in (vectors, fastest))
    sizes = [cache.bytes * -(-threads // cache.shared_by) for cache in target.caches[:3]]
    names = [f"L{level}" for level, _ in enumerate(sizes, 1)]
    behind = [*zip(names[1:], (size // 2 for size in sizes[1:]), strict=True), ("memory", _FAR)]
    slopes = tuple(
        Slope(into, source, ceilings.bandwidth_at(held))
        for into, (source, held) in zip(names, behind, strict=True)
    )  # fmt: skip
    return Roof(work.flops, work.bytes, peak, highest, () if target.is_gpu else slopes)
