"""Register tiles of products: a block of rows and vectors whose sums stay in registers while the depth goes by."""

from __future__ import annotations

from dataclasses import dataclass

from ...extents import Extent, ceildiv
from ...schedule import Schedule

ROWS_AT_MOST = 16
VECTORS_AT_MOST = 6
UNROLL_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The numbers of a register tile."""

    rows: Extent
    vectors: Extent
    lanes: Extent
    unroll: Extent


def register_tile(s: Schedule, name: str, rows: Extent, columns: Extent, depth: Extent, usual: int) -> RegisterTile:
    """Leaves open how large tiles of a product are, of so many rows, columns and terms. `usual`: vectors by default."""
    lanes = s.lanes(s.stage(name).definition.tensors[0].dtype)
    height = s.factor(f"{name}.rows", rows, at_most=ROWS_AT_MOST, default=6)
    width = s.factor(f"{name}.vectors", ceildiv(columns, lanes), at_most=VECTORS_AT_MOST, default=usual)
    require_registers(s, height * width + width + 1)
    unroll = s.factor(f"{name}.unroll", depth, at_most=UNROLL_AT_MOST, default=4)
    return RegisterTile(height, width, lanes, unroll)


def require_registers(s: Schedule, needed: Extent) -> None:
    """Asks for as many vector registers as a tile needs."""
    s.require(
        needed <= s.target("vector_registers"),
        "accumulators, one row of vectors and a broadcast fit in the vector registers",
    )
