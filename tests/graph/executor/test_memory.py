"""The arena: no two blocks that are alive together overlap, and it is hardly larger than what is alive at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.graph.executor.memory import Arena, MemoryBlock, plan_arena

ABOVE = 1.1


def overlaps(blocks: Sequence[MemoryBlock], arena: Arena) -> list[tuple[int, int]]:
    """Pairs of blocks that share bytes while both are alive."""
    found = []
    for one, (a, start) in enumerate(zip(blocks, arena.offsets, strict=True)):
        for other in range(one):
            b, begin = blocks[other], arena.offsets[other]
            together = a.first <= b.last and b.first <= a.last
            if together and start < begin + b.bytes and begin < start + a.bytes:
                found.append((other, one))
    return found


def most_alive(blocks: Sequence[MemoryBlock]) -> int:
    """The bytes of the largest set alive at one time, in lines of 64 bytes, by looking at every time."""
    times = {block.first for block in blocks}
    return max((sum(-(-b.bytes // 64) * 64 for b in blocks if b.first <= t <= b.last) for t in times), default=0)


block_lists = st.lists(
    st.builds(
        lambda size, first, length: MemoryBlock(size, first, first + length),
        st.integers(1, 5000),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=24,
)


@given(block_lists)
def test_what_is_alive_together_lies_apart(blocks: list[MemoryBlock]) -> None:
    arena = plan_arena(blocks)
    assert not overlaps(blocks, arena)
    assert all(offset % 64 == 0 for offset in arena.offsets)
    assert arena.lower_bound == most_alive(blocks)
    ends = [offset + block.bytes for block, offset in zip(blocks, arena.offsets, strict=True)]
    assert max(ends, default=0) <= arena.peak_bytes <= max(ends, default=0) + 63


def random_dag(seed: int) -> list[MemoryBlock]:
    """One tensor for each node, which reads one to three of those before it, mostly near ones."""
    draw = random.Random(seed)
    count, reach = draw.randint(2, 120), draw.choice((1, 5, 30))
    powers = draw.randrange(2)
    last = list(range(count))
    for node in range(1, count):
        for _ in range(draw.randint(1, 3)):
            read = max(0, node - 1 - int(draw.expovariate(1 / reach)))
            last[read] = node
    return [
        MemoryBlock(49 << draw.randint(1, 16) if powers else int(64 * 2 ** (draw.random() * 16)), node, last[node])
        for node in range(count)
    ]


@pytest.mark.parametrize("part", range(4))
def test_random_dags(part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        blocks = random_dag(seed)
        arena = plan_arena(blocks)
        assert arena.peak_bytes <= ABOVE * arena.lower_bound, (seed, arena)
        assert not overlaps(blocks, arena)


def chain(count: int) -> list[MemoryBlock]:
    """Each tensor is read by the next call."""
    return [MemoryBlock(1000 + 640 * (n % 7), n, n + 1) for n in range(count)]


def residual(count: int) -> list[MemoryBlock]:
    """Of three calls the last one reads what the first one read, too; sizes halve now and then."""
    size = 1 << 20
    blocks = []
    for n in range(0, 3 * count, 3):
        size = size // 2 if n % 24 == 21 else size
        blocks += [
            MemoryBlock(size, n, n + 3),
            MemoryBlock(size // 4, n + 1, n + 2),
            MemoryBlock(size // 4, n + 2, n + 3),
        ]
    return blocks


def unet(depth: int) -> list[MemoryBlock]:
    """What goes down is read again on the way up."""
    calls = 4 * depth
    down = [MemoryBlock((1 << 20) >> level, 2 * level, calls - 2 * level) for level in range(depth)]
    inside = [MemoryBlock((1 << 20) >> level, 2 * level + 1, 2 * level + 2) for level in range(depth)]
    up = [MemoryBlock((1 << 20) >> level, calls - 2 * level, calls - 2 * level + 2) for level in range(depth)]
    return down + inside + up


@pytest.mark.parametrize("blocks", [chain(100), residual(48), unet(6)], ids=["chain", "residual", "unet"])
def test_networks(blocks: list[MemoryBlock]) -> None:
    arena = plan_arena(blocks)
    assert not overlaps(blocks, arena)
    assert arena.peak_bytes <= 1.02 * arena.lower_bound, arena


def test_nothing_needs_nothing() -> None:
    assert plan_arena([]) == Arena((), 0, 0)


def test_an_arena_says_how_large_it_is() -> None:
    assert (
        str(plan_arena([MemoryBlock(64, 0, 1), MemoryBlock(64, 1, 1)]))
        == "128 bytes, 0.0% over the 128 that are alive at once"
    )
