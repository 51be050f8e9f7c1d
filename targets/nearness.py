"""How near two targets are, so that a schedule made for one may serve the other.

Kinds never mix: what a schedule binds to blocks and threads means nothing on a processor, and the other way round. Within a
kind the shape of its registers must agree, for schedules are made of these:

    processors   bits of a vector, vector registers, masks
    GPUs         the family of the level (of NVIDIA's, the major compute capability); an emulated level is near itself alone

What else differs makes a distance: the sum of the logarithms of the ratios of caches and ports, and 1 for a matrix unit that
only one of them has.
"""

from __future__ import annotations

from math import log

from .target import Target


def distance(a: Target, b: Target) -> float | None:
    """Says how far two targets are apart, 0 for equal ones; None where a schedule for one does not serve the other."""
    if a.kind != b.kind or _registers(a) != _registers(b):
        return None
    pairs = [*zip(_sizes(a), _sizes(b), strict=False), *zip(_ports(a), _ports(b), strict=True)]
    missing = abs(len(a.caches) - len(b.caches)) + (a.has_matrix_unit != b.has_matrix_unit)
    return sum(abs(log(x / y)) for x, y in pairs) + missing


def _registers(target: Target) -> tuple[object, ...]:
    """Returns what has to agree."""
    if target.is_gpu:
        return (target.isa.family,)
    return target.vector_bits, target.vector_registers, target.has_masks


def _sizes(target: Target) -> list[int]:
    return [cache.bytes for cache in target.caches]


def _ports(target: Target) -> tuple[int, int, int]:
    return target.fma_ports, target.load_ports, target.store_ports
