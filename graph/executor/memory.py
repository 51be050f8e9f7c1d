"""Where the tensors between kernels lie: blocks of memory with lifetimes get offsets in one arena.

Blocks that are alive at the same time must not overlap; the arena should be no larger than what is alive at once. That is
dynamic storage allocation, which is NP-hard, and greedy placement comes close: blocks are placed one after the other, each in
the smallest gap that fits between those that live beside it (best fit). What matters is the order. Largest first is mostly
best (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, as in TensorFlow Lite; TVM's USMP
has the same as greedy_by_size). Where no fixed order comes near the bound, orders are varied at random and what is no worse
stands (USMP's hill_climb does the like).

A block is no tensor: those that share memory, an alias and what it stands for, or later an output written in place of an
input, are one block that lives as long as any of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ..place import ALIGNMENT

_NEAR = 1.02  # times the lower bound: good enough to stop at
_WORK = 2_500_000  # neighbours looked at while an order is varied: some 0.5 s


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory that is needed from call `first` to call `last`, both included."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """The offset of each block. `lower_bound`: the bytes of the largest set of blocks alive at once; no arena is smaller."""

    offsets: tuple[int, ...]
    peak_bytes: int
    lower_bound: int

    def __str__(self) -> str:
        over = self.peak_bytes / self.lower_bound - 1 if self.lower_bound else 0.0
        return f"{self.peak_bytes} bytes, {over:.1%} over the {self.lower_bound} that are alive at once"


def plan_arena(blocks: Sequence[MemoryBlock]) -> Arena:
    """Offsets for all blocks, multiples of 64 each."""
    sizes = [_aligned(block.bytes) for block in blocks]
    beside = _neighbours(blocks)
    bound = _lower_bound(blocks, sizes)
    found: list[_Placed] = []
    for order in _orders(blocks, sizes):
        found.append(_placed(order, sizes, beside))
        if found[-1].peak <= _NEAR * bound:
            break
    best = min(found, key=lambda one: one.peak, default=_Placed([], [], 0))
    for seed, start in enumerate(sorted(found, key=lambda one: one.peak)):
        if best.peak > _NEAR * bound:
            best = min(best, _descended(start, sizes, beside, bound, random.Random(seed)), key=lambda one: one.peak)
    return Arena(tuple(best.offsets), best.peak, bound)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Blocks placed in an order, and where the highest ends."""

    order: list[int]
    offsets: list[int]
    peak: int


def _aligned(size: int) -> int:
    return -(-max(1, size) // ALIGNMENT) * ALIGNMENT


def _neighbours(blocks: Sequence[MemoryBlock]) -> list[list[int]]:
    """Returns, for each block, those that are alive at some time when it is."""
    beside: list[list[int]] = [[] for _ in blocks]
    alive: list[int] = []
    for one in sorted(range(len(blocks)), key=lambda n: blocks[n].first):
        alive = [other for other in alive if blocks[other].last >= blocks[one].first]
        for other in alive:
            beside[one].append(other)
            beside[other].append(one)
        alive.append(one)
    return beside


def _lower_bound(blocks: Sequence[MemoryBlock], sizes: Sequence[int]) -> int:
    """The most bytes alive at one time."""
    changes = [(block.first, size) for block, size in zip(blocks, sizes, strict=True)]
    changes += [(block.last + 1, -size) for block, size in zip(blocks, sizes, strict=True)]
    most = now = 0
    for _, change in sorted(changes):  # of one time, what ends comes first
        now += change
        most = max(most, now)
    return most


def _orders(blocks: Sequence[MemoryBlock], sizes: Sequence[int]) -> list[list[int]]:
    """Orders of blocks in which to place them, mostly the best first."""

    def lifetime(n: int) -> int:
        return blocks[n].last - blocks[n].first + 1

    every = range(len(blocks))
    if not every:
        return []
    return [
        sorted(every, key=lambda n: (-sizes[n], -lifetime(n), blocks[n].first)),
        sorted(every, key=lambda n: (-sizes[n] * lifetime(n), blocks[n].first)),
        sorted(every, key=lambda n: (-lifetime(n), -sizes[n], blocks[n].first)),
        sorted(every, key=lambda n: (blocks[n].first, -sizes[n])),
    ]


def _placed(order: list[int], sizes: Sequence[int], beside: Sequence[Sequence[int]]) -> _Placed:
    """Blocks placed in this order by best fit."""
    offsets = [-1] * len(sizes)
    peak = _filled(offsets, order, sizes, beside)
    return _Placed(order, offsets, peak)


def _filled(
    offsets: list[int], order: Sequence[int], sizes: Sequence[int], beside: Sequence[Sequence[int]], most: float = inf
) -> int:
    """Gives the blocks of an order their offsets, beside those that have one already, and returns where the highest ends. Once
    one ends above `most` the others have none."""
    peak = 0
    for one in order:
        taken = sorted([(offsets[n], offsets[n] + sizes[n]) for n in beside[one] if offsets[n] >= 0])
        offsets[one] = _best_gap(taken, sizes[one])
        peak = max(peak, offsets[one] + sizes[one])
        if peak > most:
            break
    return peak


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The offset in the smallest gap that fits between ranges in their order, or behind the last."""
    best, least, end = -1, -1, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < least):
            best, least = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def _descended(
    best: _Placed, sizes: Sequence[int], beside: Sequence[Sequence[int]], bound: int, draw: random.Random
) -> _Placed:
    """A better plan where one is found: one block after the other is moved to another place of the order, and what makes the
    arena no larger stands. Every other time it is one that touches what reaches the peak."""
    work, each = _WORK, len(best.order) + sum(map(len, beside))
    while best.peak > _NEAR * bound and work > 0:
        order = best.order
        top = draw.choice([n for n in order if best.offsets[n] + sizes[n] == best.peak])
        one = draw.choice((top, *beside[top])) if draw.randrange(2) else draw.choice(order)
        changed = [n for n in order if n != one]
        place = draw.randrange(len(order))
        changed.insert(place, one)
        work -= each
        best = _moved(best, changed, min(place, order.index(one)), sizes, beside)
    return best


def _moved(
    best: _Placed, order: list[int], first: int, sizes: Sequence[int], beside: Sequence[Sequence[int]]
) -> _Placed:
    """The plan of an order that differs from the best one's from its `first` block on, or the best one where that is smaller.
    What stands before `first` lies where it lay."""
    offsets = [-1] * len(sizes)
    for n in order[:first]:
        offsets[n] = best.offsets[n]
    before = max((offsets[n] + sizes[n] for n in order[:first]), default=0)
    peak = max(before, _filled(offsets, order[first:], sizes, beside, best.peak))
    return _Placed(order, offsets, peak) if peak <= best.peak else best
