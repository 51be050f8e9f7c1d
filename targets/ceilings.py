"""Ceilings: how fast a machine can be, as frozen numbers. Measured elsewhere; handed around as an argument."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, inf, log
from types import MappingProxyType

from .backend import FUSED, HALF_ARITHMETIC
from .matrix_instructions import BF16_TILES, DOTS, MATRIX_INSTRUCTIONS, InstructionScope, products_of, sum_of
from .target import Target

Curve = tuple[tuple[int, float], ...]  # (working set in bytes, bytes per second), sets ascending

# A use of memory is named after what it reads and writes at once; with "_past" its stores go past the caches, with "_ahead"
# it asks for what it will read.
USES = {"read": 0.0, "triad": 1 / 3, "copy": 1 / 2, "write": 1.0}  # -> which share of the bytes is written
PAST = "_past"
OWN_PAST = "own_past"  # what is read is stored where it came from, past the caches, which have just brought it in
AHEAD = "_ahead"
VISITED = (
    16,
    256,
    4096,
)  # pages in turn: whose lines a core asks for in time, whose it does not, whose addresses it forgets
_CLOCK = 3.0e9  # Hz, assumed where nothing was measured
MATRIX = (
    "bf16_tiles"  # in Ceilings.flops: products of tiles of bfloat16 on the matrix unit of a processor, where it has one
)
LOADED = (
    "f32_loaded"  # in Ceilings.flops: products where every second operand comes from the nearest cache, as measured
)
PRODUCTS = "_products"  # behind a dtype's name in Ceilings.flops: sums of products on the matrix units of a GPU
# what they do of each, beside floats of 16 bits
_PRODUCTS = {"f16": 1.0, "bf16": 1.0, "i8": 2.0, "u8": 2.0, "f64": 1 / 16}
MATRIX_PRODUCTS = 6  # products of bfloat16 parts that make one of f32 (tensor/rewrites/tiles/bf16_parts.py)
_HALVES, _BYTES = products_of("i16", "i16"), products_of("u8", "i8")
_MATRIX_CLOCK = 0.92  # of the clock, while the matrix unit is at work
_MEMORY = 12e9  # bytes per second that a core gets from memory
_VISITS = tuple(zip(VISITED, (1.0, 1.3, 2.4), strict=True))  # pages -> how much longer a line takes (an EPYC 9004)


@dataclass(frozen=True)
class Ceilings:
    """The highest speeds of `threads` threads together.

    flops: dtype name -> operations per second, a fused multiply-add counting two; beside the dtypes MATRIX and LOADED, the
        PRODUCTS of a dtype, and sums of products of narrow elements (`products_of`).
    bandwidth: (working set, speed) in ascending order of working set. The set is all bytes that the threads touch together;
        the speed, bytes per second, counts each byte read or written once, and is the highest of all kinds of loops.
    streams: the same for each kind of loop by itself, by its name (see USES); empty where that was not told apart.
    visits: (pages, seconds), pages ascending: what a line of memory costs a thread that goes from page to page, line by line
        through so many of them, all threads at once; empty where that was not measured.
    """

    flops: Mapping[str, float]
    bandwidth: Curve
    threads: int
    streams: Mapping[str, Curve] = field(default_factory=dict)
    visits: Curve = ()

    def __post_init__(self) -> None:
        for curve in (self.bandwidth, *self.streams.values(), *([self.visits] if self.visits else [])):
            sizes = [size for size, _ in curve]
            if not sizes or sizes != sorted(set(sizes)) or sizes[0] <= 0:
                raise ValueError("bandwidth needs entries in ascending order of working set")
        object.__setattr__(self, "flops", MappingProxyType(dict(self.flops)))
        object.__setattr__(self, "streams", MappingProxyType(dict(self.streams)))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (dict(self.flops), self.bandwidth, self.threads, dict(self.streams), self.visits)

    def of(self, kind: str) -> float:
        """Operations per second of a dtype, or of sums of products of narrow elements (`products_of`): on the vectors of their
        sums where no instruction does them."""
        return self.flops[kind] if kind in self.flops else self.flops[sum_of(kind)]

    def roof(self, kind: str) -> float:
        """Operations per second that reports hold a kernel against: of narrow elements on whatever multiplies them fastest, of
        others on vectors, which products made of narrow parts may exceed."""
        return self.highest(kind) if kind.endswith(DOTS) else self.of(kind)

    def highest(self, kind: str) -> float:
        """Operations per second that no sum of products exceeds, on whatever unit it is computed; `kind` as for `of`."""
        tiles = self.flops.get(MATRIX, 0.0) * _share_of_tiles(kind)
        return max(self.of(kind), tiles, self.flops.get(kind + PRODUCTS, 0.0))

    def bandwidth_at(self, bytes: float) -> float:
        """Bytes per second at a working set of `bytes`: between two entries as a straight line on logarithmic scales."""
        return _along(self.bandwidth, bytes)

    def visit_at(self, pages: float) -> float:
        """Seconds for a line of memory where a thread goes through so many pages; between entries as `bandwidth_at`."""
        return _along(self.visits, pages) if self.visits else 0.0

    def speed_of_use(self, bytes: float, written: float) -> float:
        """Works as `bandwidth_at`, for the loops that use memory in the same way: `written` of the bytes are written."""
        curves = [self.streams[name] for name in ways_of(use_of(bytes, written)) if name in self.streams]
        return max(_along(curve, bytes) for curve in curves or [self.bandwidth])

    def to_json(self) -> str:
        """One line of JSON, read back by `from_json` to equal ceilings."""
        document = {"flops": dict(self.flops), "threads": self.threads, "bandwidth": self.bandwidth}
        more = {"streams": dict(self.streams), "visits": self.visits}
        return json.dumps({**document, **{name: found for name, found in more.items() if found}})

    @staticmethod
    def from_json(text: str) -> Ceilings:
        """The ceilings that `to_json` wrote. Errors: ValueError for anything else, and for numbers that no machine has."""
        try:
            data = json.loads(text)
            streams = {str(name): _curve(entries) for name, entries in data.get("streams", {}).items()}
            flops = {str(name): _positive(speed) for name, speed in data["flops"].items()}
            threads = int(_positive(data["threads"]))
            return Ceilings(flops, _curve(data["bandwidth"]), threads, streams, _curve(data.get("visits", ())))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"these are no ceilings: {type(error).__name__} {error}") from None


def _share_of_tiles(kind: str) -> float:
    """Operations of a kind on a matrix unit, for each that it makes of bfloat16."""
    if kind == "f32":
        return 1 / MATRIX_PRODUCTS
    rows = (row for row in MATRIX_INSTRUCTIONS.values() if row.scope is InstructionScope.TILES and row.kind == kind)
    return max((row.speed / BF16_TILES.speed for row in rows), default=0.0)


def use_of(bytes: float, written: float) -> str:
    """The name of the use of memory nearest to one that writes `written` of its bytes."""
    return min(USES, key=lambda use: abs(USES[use] - written / max(bytes, 1)))


def ways_of(use: str) -> tuple[str, ...]:
    """The names of the loops that use memory like that; not each use has them all."""
    return use, use + PAST, use + AHEAD


def _curve(entries: Iterable[tuple[int, float]]) -> Curve:
    return tuple((int(_positive(size)), _positive(speed)) for size, speed in entries)


def _positive(number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < inf:
        raise ValueError(f"{number!r} is no size and no speed of a machine")
    return float(number)


def _along(curve: Curve, bytes: float) -> float:
    sizes = [size for size, _ in curve]
    right = bisect_left(sizes, bytes)
    if right == 0 or right == len(sizes):
        return curve[min(right, len(sizes) - 1)][1]
    (small, fast), (large, slow) = curve[right - 1], curve[right]
    share = log(bytes / small) / log(large / small)
    return exp(log(fast) + share * (log(slow) - log(fast)))


def default_ceilings(target: Target, threads: int) -> Ceilings:
    """Ceilings from the target's numbers, for a machine that was never measured: right in order of magnitude."""
    gpu = target.isa.gpu
    clock = _CLOCK if gpu is None else gpu.clock
    workers = threads if gpu is None else target.cores
    visits = () if gpu else tuple((p, slower * target.caches[0].line / _MEMORY) for p, slower in _VISITS)
    bandwidth = _default_bandwidth(target, clock, workers)
    return Ceilings(_default_flops(target, clock * workers), bandwidth, threads, visits=visits)


def _default_flops(target: Target, cycles: float) -> dict[str, float]:
    """Each dtype runs at its lanes; half types without arithmetic of their own are computed as f32."""
    lane_bits = target.vector_bits * target.fma_ports * (2 if target.has(FUSED) else 1) * cycles
    bits = {
        "f64": 64,
        "f32": 32,
        "f16": 16 if target.has(HALF_ARITHMETIC) else 32,
        "bf16": 32,
        **{f"{sign}{width}": width for sign in "iu" for width in (64, 32, 16, 8)},
        "bool": 8,
    }
    flops = {name: lane_bits / width for name, width in bits.items()}
    for row in target.matrix_instructions:
        if row.scope is InstructionScope.VECTORS:
            flops[row.kind] = row.speed * target.fma_ports * cycles
    if _HALVES in flops:  # what bytes are widened to where nothing multiplies them
        flops.setdefault(_BYTES, flops[_HALVES])
    unit = target.matrix_unit
    if unit is not None:
        flops[MATRIX] = BF16_TILES.speed * _MATRIX_CLOCK * cycles
    if target.isa.gpu is not None:
        flops |= {name + PRODUCTS: target.isa.gpu.products * share * cycles for name, share in _PRODUCTS.items()}
    return flops


def _default_bandwidth(target: Target, clock: float, workers: int) -> tuple[tuple[int, float], ...]:
    """Level 1 moves what its ports move; each level further out about a third of that, on a GPU less; memory 12 GB/s a
    core, 4 cores' worth.

    An entry stands at half of what the level holds, where its speed is still pure.
    """
    speed = (target.load_ports + target.store_ports) * target.vector_bits / 8 * clock * workers
    entries: list[tuple[int, float]] = []
    size, gpu = 0, target.isa.gpu
    for cache in target.caches:
        held = cache.bytes * -(-workers // cache.shared_by)
        size = max(held // 2, 2 * size)
        entries.append((size, speed))
        speed = speed / 3 if gpu is None else min(speed, gpu.l2_speed * clock * workers)
    memory = _MEMORY * min(workers, 4) if gpu is None else gpu.memory_speed
    return *entries, (4 * size + 1, min(memory, entries[-1][1] if entries else memory))
